"""Right answers in Python and NumPy, each built another way than its lesson's solution."""

from __future__ import annotations

import bisect
import functools
import heapq
import math
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import tensorflow as tf
from scipy.stats import linregress, rankdata

from ctrlab.embedding.initial_values import GOLDEN, mix

# 01_baseline/02_click_data, exercise 1.


def _logarithms(counts, least):
    often = np.sort(counts[counts >= least])[::-1].astype(float)
    return np.log(np.arange(1, len(often) + 1)), np.log(often)


def exponent_by_sums(counts, least=10):
    x, y = _logarithms(counts, least)
    if len(x) < 2:
        return math.nan
    return float(-np.sum((x - x.mean()) * (y - y.mean())) / np.sum((x - x.mean()) ** 2))


def exponent_by_lstsq(counts, least=10):
    x, y = _logarithms(counts, least)
    if x.size < 2:
        return float("nan")
    return -np.linalg.lstsq(np.stack([x, np.ones_like(x)], 1), y, rcond=None)[0][0]


def exponent_by_scipy(counts, least=10):
    x, y = _logarithms(counts, least)
    return -linregress(x, y).slope if len(x) > 1 else np.nan


# 01_baseline/03_six_models, exercise 2.


def auc_by_rankdata(labels, scores):
    clicks = labels.astype(bool)
    m, n = int(clicks.sum()), int((~clicks).sum())
    return float((rankdata(scores)[clicks].sum() - m * (m + 1) / 2) / (m * n)) if m and n else math.nan


def auc_by_search(labels, scores):
    ones, zeros = scores[labels == 1], np.sort(scores[labels == 0])
    if not len(ones) or not len(zeros):
        return float("nan")
    below, upto = np.searchsorted(zeros, ones, "left"), np.searchsorted(zeros, ones, "right")
    return float((below + upto).sum() / 2 / (len(ones) * len(zeros)))


def auc_by_pandas(labels, scores):
    clicks = labels == 1
    m, n = clicks.sum(), (~clicks).sum()
    if not m * n:
        return float("nan")
    return float((pd.Series(scores).rank().to_numpy()[clicks].sum() - m * (m + 1) / 2) / (m * n))


# 01_baseline/05_embedding_table, and 03_embedding/10_shards, exercise 2: sums of equal ids.


def sums_by_reduceat(ids, gradients):
    order = np.argsort(ids, kind="stable")
    rows, first = np.unique(ids[order], return_index=True)
    if not len(rows):
        return rows, np.zeros((0, gradients.shape[1]), np.float32)
    return rows, np.add.reduceat(gradients[order], first, axis=0)


def sums_by_bincount(ids, gradients):
    rows, place = np.unique(ids, return_inverse=True)
    columns = [np.bincount(place, gradients[:, d], len(rows)) for d in range(gradients.shape[1])]
    return rows, np.stack(columns, 1).astype(np.float32)


def sums_by_flat_bincount(ids, gradients):
    rows, place = np.unique(ids, return_inverse=True)
    width = gradients.shape[1]
    flat = (place[:, None] * width + np.arange(width)).ravel()
    return rows, np.bincount(flat, gradients.ravel(), len(rows) * width).reshape(-1, width).astype(np.float32)


def sums_by_pandas(ids, gradients):
    sums = pd.DataFrame(gradients).groupby(ids).sum()
    return sums.index.to_numpy(np.int64), sums.to_numpy(np.float32).reshape(-1, gradients.shape[1])


def hot_by_counter(ids, percent):
    counts = np.array(sorted(Counter(ids.tolist()).values(), reverse=True), np.int64)
    return int(np.sum(100 * (np.cumsum(counts) - counts) < percent * len(ids)))


def hot_by_value_counts(ids, percent):
    served = pd.Series(ids).value_counts().to_numpy().cumsum()
    return int((served * 100 < percent * len(ids)).sum() + (percent > 0 and len(ids) > 0))


def hot_by_argmax(ids, percent):
    served = np.concatenate([[0], np.cumsum(-np.sort(-np.unique(ids, return_counts=True)[1]))])
    return int(np.argmax(served * 100 >= percent * len(ids)))


# 02_ops/11_file_formats, exercise 2.


def ragged_by_offsets(lists):
    lists = pc.if_else(pc.is_valid(lists), lists, None)
    lengths = np.nan_to_num(pc.list_value_length(lists).to_numpy(zero_copy_only=False)).astype(np.int64)
    return tf.RaggedTensor.from_row_lengths(lists.flatten().to_numpy(), lengths)


def ragged_by_parents(lists):
    rows = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    return tf.RaggedTensor.from_value_rowids(pc.list_flatten(lists).to_numpy(), rows, nrows=len(lists))


def ragged_by_cumulative_sum(lists):
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    splits = np.zeros(len(lists) + 1, np.int64)
    lengths.cumsum(out=splits[1:])
    return tf.RaggedTensor.from_row_splits(tf.constant(lists.flatten().to_numpy(), tf.int32), splits)


# 02_ops/17_more_workers.


def ring_by_two_terms(size, workers, latency, per_byte):
    return 2 * (workers - 1) * latency + 2 * size * per_byte * (workers - 1) / workers


def ring_by_where(size, workers, latency, per_byte):
    workers = np.asarray(workers)
    seconds = np.where(workers == 1, 0.0, 2 * (workers - 1) * (latency + per_byte * size / workers))
    return seconds if seconds.ndim else float(seconds)


def ring_by_chunks(size, workers, latency, per_byte):
    message = latency + size / workers * per_byte
    reduce_scatter = all_gather = (workers - 1) * message
    return reduce_scatter + all_gather


def _first(holds, low, high):
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def fewest_with_a_dict(seconds, most, slack):
    known = {}

    def ask(w):
        if w not in known:
            known[w] = seconds(w)
        return known[w]

    best = _first(lambda w: w == most or ask(w) <= ask(w + 1), min(2, most), most)
    limit = slack * min(ask(1), ask(best))
    return 1 if ask(1) <= limit else _first(lambda w: ask(w) <= limit, 2, best)


def fewest_by_bisect(seconds, most, slack):
    ask = functools.cache(seconds)
    if most == 1:
        return 1
    best = 2 + bisect.bisect_left(range(2, most), True, key=lambda w: ask(w) < ask(w + 1))
    limit = slack * min(ask(1), ask(best))
    return 1 if ask(1) <= limit else 2 + bisect.bisect_left(range(2, best), True, key=lambda w: ask(w) <= limit)


def fewest_with_one_first(seconds, most, slack):
    ask = functools.lru_cache(None)(seconds)
    alone, low, high = ask(1), 2, most
    if most < 2:
        return 1
    while high > low:
        half = low + (high - low) // 2
        if ask(half) > ask(half + 1):
            low = half + 1
        else:
            high = half
    shortest, found = min(alone, ask(low)), low
    if alone <= shortest * slack:
        return 1
    low = 2
    while found > low:
        half = (found + low) // 2
        if ask(half) <= shortest * slack:
            found = half
        else:
            low = half + 1
    return found


# 03_embedding/02_embedding_variable, exercise 2.


def initial_in_float64(keys, seed, limit, dim):
    start = mix(np.uint64(seed) + GOLDEN * np.ones(1, np.uint64))
    stream = mix(keys.astype(np.uint64) + start)
    numbers = np.arange(1, dim + 1).astype(np.uint64)[None, :] * GOLDEN
    u = (mix(stream[:, None] + numbers) >> np.uint64(40)).astype(np.float64) / 2**24
    return (u * np.float64(np.float32(2 * limit)) - limit).astype(np.float32)


def initial_column_by_column(keys, seed, limit, dim):
    stream = mix(keys.view(np.uint64) + mix(np.array([seed], np.uint64) + GOLDEN))
    width = np.float64(np.float32(2 * limit))
    columns = [(mix(stream + np.uint64(d) * GOLDEN) >> np.uint64(40)) * 2.0**-24 for d in range(1, dim + 1)]
    return np.stack([-limit + width * u for u in columns], axis=1).astype(np.float32)


def initial_by_outer_sum(keys, seed, limit, dim):
    stream = mix(np.add(keys.view(np.uint64), mix(np.full(1, seed, np.uint64) + GOLDEN)))
    bits = mix(np.add.outer(stream, np.multiply(np.arange(1, dim + 1, dtype=np.uint64), GOLDEN)))
    u = np.ldexp((bits >> np.uint64(40)).astype(np.float64), -24)
    return np.float32(u * float(np.float32(2 * limit)) - limit)


# 03_embedding/03_admission, exercise 2.


def filter_by_bincount(counters, places, counts):
    added = np.bincount(places.ravel(), np.repeat(counts, places.shape[1]), len(counters))
    counters[:] = np.clip(counters + added, 0, 255)
    return counters[places].astype(np.int64).min(1) if len(places) else np.zeros(0, np.int64)


def filter_column_by_column(counters, places, counts):
    total = counters.astype(np.int64)
    for column in places.T:
        np.add.at(total, column, counts)
    np.copyto(counters, np.minimum(total, 255).astype(np.uint8))
    return np.min(counters[places], axis=1, initial=255).astype(np.int64)


def filter_by_unique(counters, places, counts):
    place, of = np.unique(places, return_inverse=True)
    added = np.zeros(len(place), np.int64)
    np.add.at(added, of.ravel(), np.broadcast_to(counts[:, None], places.shape).ravel())
    counters[place] = np.minimum(counters[place] + added, 255)
    return np.minimum.reduce(counters[places].astype(np.int64), axis=1, initial=255)


# 03_embedding/08_analysis, exercise 1.


def what_if_by_histogram(frequency, thresholds):
    values, counts = np.unique(frequency, return_counts=True)
    place = np.searchsorted(values, thresholds)
    rows = np.append(np.cumsum(counts[::-1])[::-1], 0)[place]
    traffic = np.append(np.cumsum((values * counts)[::-1])[::-1], 0)[place]
    return rows.astype(np.int64), traffic / max(frequency.sum(), 1)


def what_if_falling(frequency, thresholds):
    falling = -np.sort(-frequency)
    rows = np.searchsorted(-falling, -thresholds, side="right")
    return rows.astype(np.int64), np.concatenate([[0], falling.cumsum()])[rows] / max(int(falling.sum()), 1)


def what_if_from_below(frequency, thresholds):
    often = np.sort(frequency)
    lost = np.concatenate([np.zeros(1, np.int64), np.cumsum(often)])
    place = np.searchsorted(often, thresholds)
    return len(often) - place, (lost[-1] - lost[place]) / (lost[-1] or 1)


# 03_embedding/09_incremental_checkpoints, exercise 1.


def applied_by_setdiff(state, delta):
    named = np.union1d(delta["keys"], delta["removed"])
    stays = np.flatnonzero(np.isin(state["keys"], named, invert=True))
    keys = np.hstack([state["keys"][stays], delta["keys"]])
    return {"keys": keys, "values": np.vstack([state["values"][stays], delta["values"]])}


def applied_by_search(state, delta):
    named = np.sort(np.concatenate([delta["keys"], delta["removed"]]))
    place = np.searchsorted(named, state["keys"])
    padded = np.append(named, 0)
    gone = (place < len(named)) & (padded[place] == state["keys"])
    return {name: np.concatenate([state[name][~gone], delta[name]], axis=0) for name in ("keys", "values")}


def applied_by_the_last_of_each(state, delta):
    left = ~np.isin(state["keys"], delta["removed"])
    keys = np.concatenate([delta["keys"], state["keys"][left]])
    values = np.concatenate([delta["values"], state["values"][left]])
    keys, first = np.unique(keys, return_index=True)
    return {"keys": keys, "values": values[first]}


# 03_embedding/10_shards, exercise 1.


def ask_by_lexsort(ids, workers, owner):
    distinct, place = np.unique(ids, return_inverse=True)
    owners = owner(distinct, workers)
    order = np.lexsort((distinct, owners))
    rank = np.argsort(order)
    return np.split(distinct[order], np.cumsum(np.bincount(owners, minlength=workers))[:-1]), rank[place]


def ask_by_concatenated_lists(ids, workers, owner):
    distinct, place = np.unique(ids, return_inverse=True)
    owners = owner(distinct, workers)
    where = [np.flatnonzero(owners == w) for w in range(workers)]
    rank = np.empty(len(distinct), np.int64)
    rank[np.concatenate(where)] = np.arange(len(distinct))
    return [distinct[each] for each in where], rank[place]


def ask_worker_by_worker(ids, workers, owner):
    distinct, place = np.unique(ids, return_inverse=True)
    owners, rank, keys, begins = owner(distinct, workers), np.zeros(len(distinct), np.int64), [], 0
    for w in range(workers):
        mine = owners == w
        keys.append(distinct[mine])
        rank[mine] = begins + np.arange(mine.sum())
        begins += len(keys[-1])
    return keys, rank[place]


# 04_serving/09_share_cores.


def latencies_by_pop_and_push(due, service, cores):
    free, took = [0] * cores, []
    for at, work in zip(due, service):
        ends = max(heapq.heappop(free), at) + work
        heapq.heappush(free, ends)
        took.append(ends - at)
    return took


def latencies_by_a_sorted_list(due, service, cores):
    free, took = [0] * cores, []
    for at, work in zip(due, service):
        ends = max(free.pop(0), at) + work
        bisect.insort(free, ends)
        took.append(ends - at)
    return took


def latencies_with_cores_named(due, service, cores):
    free, took = [(0, core) for core in range(cores)], []
    for at, work in zip(due, service):
        begins, core = heapq.heappop(free)
        begins = at if begins < at else begins
        took.append(begins + work - at)
        heapq.heappush(free, (begins + work, core))
    return took


def _most_for_main(busy, cores):
    return min(cores - 1, math.ceil(cores - busy) - 1)


def cores_by_bisect(p99, limit, busy, cores):
    most = _most_for_main(busy, cores)
    if most < 1:
        return None
    found = 1 + bisect.bisect_left(range(1, most + 1), True, key=lambda n: p99(n) <= limit)
    return found if found <= most else None


def cores_after_the_largest(p99, limit, busy, cores):
    most = _most_for_main(busy, cores)
    if most < 1 or p99(most) > limit:
        return None
    return _first(lambda n: p99(n) <= limit, 1, most)


def cores_with_a_cache(p99, limit, busy, cores):
    ask, low, high = functools.cache(p99), 1, _most_for_main(busy, cores)
    answer = None
    while low <= high:
        n = (low + high) // 2
        if ask(n) <= limit:
            answer, high = n, n - 1
        else:
            low = n + 1
    return answer


ANSWERS = {
    ("01_baseline/02_click_data", 1): [exponent_by_sums, exponent_by_lstsq, exponent_by_scipy],
    ("01_baseline/03_six_models", 2): [auc_by_rankdata, auc_by_search, auc_by_pandas],
    ("01_baseline/05_embedding_table", 1): [sums_by_reduceat, sums_by_bincount, sums_by_flat_bincount, sums_by_pandas],
    ("01_baseline/05_embedding_table", 2): [hot_by_counter, hot_by_value_counts, hot_by_argmax],
    ("02_ops/11_file_formats", 2): [ragged_by_offsets, ragged_by_parents, ragged_by_cumulative_sum],
    ("02_ops/17_more_workers", 1): [ring_by_two_terms, ring_by_where, ring_by_chunks],
    ("02_ops/17_more_workers", 2): [fewest_with_a_dict, fewest_by_bisect, fewest_with_one_first],
    ("03_embedding/02_embedding_variable", 2): [initial_in_float64, initial_column_by_column, initial_by_outer_sum],
    ("03_embedding/03_admission", 2): [filter_by_bincount, filter_column_by_column, filter_by_unique],
    ("03_embedding/08_analysis", 1): [what_if_by_histogram, what_if_falling, what_if_from_below],
    ("03_embedding/09_incremental_checkpoints", 1): [applied_by_setdiff, applied_by_search, applied_by_the_last_of_each],
    ("03_embedding/10_shards", 1): [ask_by_lexsort, ask_by_concatenated_lists, ask_worker_by_worker],
    ("03_embedding/10_shards", 2): [sums_by_reduceat, sums_by_bincount, sums_by_flat_bincount],
    ("04_serving/09_share_cores", 1): [latencies_by_pop_and_push, latencies_by_a_sorted_list, latencies_with_cores_named],
    ("04_serving/09_share_cores", 2): [cores_by_bisect, cores_after_the_largest, cores_with_a_cache],
}
