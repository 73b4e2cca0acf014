"""The checks of the lesson on shards against right answers and every kind of wrong one."""

import numpy as np
import pytest
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check

LESSON = "03_embedding/10_shards"
ask, merge = solved(LESSON, 1), solved(LESSON, 2)


def one_owner_after_the_other(ids, workers, owner):
    keys, place, begin = [], np.zeros(len(ids), np.int64), 0
    owners = owner(ids, workers)
    for w in range(workers):
        mine = owners == w
        found, where = np.unique(ids[mine], return_inverse=True)
        keys.append(found)
        place[mine] = begin + where
        begin += len(found)
    return keys, place


def by_runs(keys, gradients):
    order = np.argsort(keys, kind="stable")
    distinct, begins = np.unique(keys[order], return_index=True)
    return distinct, np.add.reduceat(gradients[order], begins, axis=0)


def by_columns(keys, gradients):
    distinct, place = np.unique(keys, return_inverse=True)
    sums = [np.bincount(place, column, len(distinct)) for column in gradients.T]
    return distinct, np.stack(sums, axis=1).astype(np.float32)


def by_differences_in_64_bits(keys, gradients):
    order = np.argsort(keys, kind="stable")
    distinct, begins = np.unique(keys[order], return_index=True)
    upto = np.concatenate([np.zeros((1, gradients.shape[1])), np.cumsum(gradients[order], axis=0, dtype=np.float64)])
    return distinct, np.diff(upto[np.append(begins, len(keys))], axis=0).astype(np.float32)


def by_cuts(ids, workers, owner):
    keys, place = np.unique(ids, return_inverse=True)
    owners = owner(keys, workers)
    order = np.lexsort([keys, owners])
    ends = np.searchsorted(owners[order], np.arange(1, workers))
    at = np.zeros(len(keys), np.int32)
    at[order] = np.arange(len(keys), dtype=np.int32)
    return np.split(keys[order], ends), at[place]


OTHERS = [(1, one_owner_after_the_other), (1, by_cuts), (2, by_runs), (2, by_columns), (2, by_differences_in_64_bits)]


@pytest.mark.parametrize(("exercise", "answer"), OTHERS)
def test_other_right_answers_pass(exercise, answer):
    check.run(LESSON, exercise, answer, 3)


def empty(ids, workers, owner):
    return [ids[:0]] * workers, np.zeros(len(ids), np.int64)


def each_id(ids, workers, owner):
    owners = owner(ids, workers)
    order = np.argsort(owners, kind="stable")
    return [ids[owners == w] for w in range(workers)], np.argsort(order)


def by_rest(ids, workers, owner):
    return ask(ids, workers, lambda keys, workers: keys % workers)


def to_the_first(ids, workers, owner):
    keys, place = np.unique(ids, return_inverse=True)
    return [keys] + [keys[:0]] * (workers - 1), place


def to_all(ids, workers, owner):
    keys, place = np.unique(ids, return_inverse=True)
    return [keys] * workers, place


def places_of_sorted_keys(ids, workers, owner):
    return ask(ids, workers, owner)[0], np.unique(ids, return_inverse=True)[1]


def the_order_the_wrong_way(ids, workers, owner):
    keys, place = np.unique(ids, return_inverse=True)
    owners = owner(keys, workers)
    return [keys[owners == w] for w in range(workers)], np.argsort(owners, kind="stable")[place]


def one_further(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    return keys, place + 1


def within_the_owner(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    begins = np.cumsum([0, *map(len, keys)])
    return keys, place - begins[owner(ids, workers)]


def only_owners_with_keys(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    return [each for each in keys if len(each)], place


def as_floats(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    return [each.astype(np.float64) for each in keys], place


def in_32_bits(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    return [each.astype(np.int32).astype(np.int64) for each in keys], place


def as_lists(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    return [each.tolist() for each in keys], place


def places_as_a_list(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    return keys, place.tolist()


def keys_alone(ids, workers, owner):
    return ask(ids, workers, owner)[0]


def leaves_out_the_last(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    return [each[:-1] if w == workers - 1 else each for w, each in enumerate(keys)], place


def without_negative_ones(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    return [each[each >= 0] for each in keys], place


def sorts_its_input(ids, workers, owner):
    found = ask(ids, workers, owner)
    ids.sort()
    return found


def a_loop_over_the_ids(ids, workers, owner):
    keys, places = [[] for _ in range(workers)], {}
    for key in ids:
        if key not in places:
            w = int(owner(np.array([key]), workers)[0])
            places[key] = w, len(keys[w])
            keys[w].append(key)
    begins = np.cumsum([0, *map(len, keys)])
    place = np.array([begins[places[key][0]] + places[key][1] for key in ids], np.int64)
    return [np.array(each, np.int64) for each in keys], place


def a_loop_in_one_line(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    return keys, np.array([place[n] for n in range(len(ids))], np.int64)


def a_loop_in_map(ids, workers, owner):
    keys, _ = ask(ids, workers, owner)
    laid = np.concatenate(keys)
    where = dict(zip(laid.tolist(), range(len(laid))))
    return keys, np.array(list(map(where.get, ids.tolist())), np.int64)


def a_loop_in_fromiter(ids, workers, owner):
    keys, _ = ask(ids, workers, owner)
    laid = np.concatenate(keys)
    return keys, np.fromiter(map(dict(zip(laid, range(len(laid)))).get, ids), np.int64)


def each_id_with_each_key(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    return keys, (ids[:, None] == np.concatenate(keys)).argmax(1) if len(ids) else place


class Remembers:
    """Wrong: remembers answers by ids and workers, and ignores `owner`."""

    def __init__(self):
        self.known = {}

    def __call__(self, ids, workers, owner):
        return self.known.setdefault((ids.tobytes(), workers), ask(ids, workers, owner))


def places_in_16_bits(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    return keys, place.astype(np.int16)


def sixteen_workers_at_most(ids, workers, owner):
    keys, place = ask(ids, workers, owner)
    return keys[:16], place


QUESTIONS = {
    empty: "Every key",
    each_id: "each distinct key travels once",
    by_rest: "goes to its owner",
    to_the_first: "goes to its owner",
    to_all: "goes to its owner",
    places_of_sorted_keys: "lies at its place",
    the_order_the_wrong_way: "lies at its place",
    one_further: "lies at its place",
    within_the_owner: "lies at its place",
    only_owners_with_keys: "one array of keys per worker",
    as_floats: "int64",
    in_32_bits: None,
    as_lists: "NumPy array",
    places_as_a_list: "Each id has its place",
    keys_alone: None,
    leaves_out_the_last: "Every key",
    without_negative_ones: "Every key",
    sorts_its_input: "leaves its inputs",
    a_loop_over_the_ids: "no Python loop over ids or keys",
    a_loop_in_one_line: "no Python loop over ids or keys",
    a_loop_in_map: r"(?s)Python asks for no element.*tolist\(\)",
    a_loop_in_fromiter: "(?s)Python asks for no element.*map",
    each_id_with_each_key: r"no array of \[distinct keys, n\]",
    Remembers(): "goes to its owner",
    places_in_16_bits: r"lies at its place(?s:.*)at +ids\[\d+\], which is",
    sixteen_workers_at_most: "one array of keys per worker",
}


def the_famous_trap(keys, gradients):
    distinct, place = np.unique(keys, return_inverse=True)
    sums = np.zeros((len(distinct), gradients.shape[1]), np.float32)
    sums[place] += gradients
    return distinct, sums


def the_first_one(keys, gradients):
    distinct, first = np.unique(keys, return_index=True)
    return distinct, gradients[first]


def the_mean(keys, gradients):
    distinct, times = np.unique(keys, return_counts=True)
    return distinct, merge(keys, gradients)[1] / times[:, None].astype(np.float32)


def in_64_bits(keys, gradients):
    distinct, sums = merge(keys, gradients)
    return distinct, sums.astype(np.float64)


def as_they_came(keys, gradients):
    _, first = np.unique(keys, return_index=True)
    distinct, sums = merge(keys, gradients)
    order = np.argsort(first)
    return distinct[order], sums[order]


def sums_in_another_order(keys, gradients):
    distinct, sums = merge(keys, gradients)
    return distinct, sums[::-1]


def squares(keys, gradients):
    return merge(keys, gradients**2)


def lets_zeros_go(keys, gradients):
    distinct, sums = merge(keys, gradients)
    kept = np.abs(sums).sum(1) > 1e-6
    return distinct[kept], sums[kept]


def neighbours_only(keys, gradients):
    new = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else np.zeros(0, int)
    return keys[new], np.add.reduceat(gradients, new, axis=0) if len(keys) else gradients


def adds_in_place(keys, gradients):
    found = merge(keys, gradients)
    gradients *= 2
    return found


def the_sums_alone(keys, gradients):
    return merge(keys, gradients)[1]


def a_loop_over_the_keys(keys, gradients):
    distinct, place = np.unique(keys, return_inverse=True)
    sums = np.zeros((len(distinct), gradients.shape[1]), np.float32)
    for n in range(len(keys)):
        sums[place[n]] += gradients[n]
    return distinct, sums


class AtMost:
    """Wrong: adds at most a fixed number of copies of a key; the rest is lost."""

    def __init__(self, copies):
        self.copies, self.__name__ = copies, f"at_most_{copies}_copies"

    def __call__(self, keys, gradients):
        order = np.argsort(keys, kind="stable")
        distinct, begins, times = np.unique(keys[order], return_index=True, return_counts=True)
        sums = np.zeros((len(distinct), gradients.shape[1]), np.float32)
        for copy in range(self.copies):
            more = times > copy
            sums[more] += gradients[order[begins[more] + copy]]
        return distinct, sums


def by_differences_in_32_bits(keys, gradients):
    order = np.argsort(keys, kind="stable")
    distinct, begins = np.unique(keys[order], return_index=True)
    upto = np.concatenate([np.zeros((1, gradients.shape[1]), np.float32), np.cumsum(gradients[order], axis=0)])
    return distinct, np.diff(upto[np.append(begins, len(keys))], axis=0)


def a_product(keys, gradients):
    distinct, place = np.unique(keys, return_inverse=True)
    return distinct, (np.arange(len(distinct))[:, None] == place).astype(np.float32) @ gradients


def a_loop_in_map_over_keys(keys, gradients):
    distinct, sums = merge(keys, gradients)
    where = dict(zip(distinct.tolist(), range(len(distinct))))
    place = np.array(list(map(where.get, keys.tolist())), np.int64)
    np.add.at(sums := 0 * sums, place, gradients)
    return distinct, sums


SUMS = {
    the_famous_trap: "two workers asked for",
    the_first_one: "two workers asked for",
    the_mean: "two workers asked for",
    in_64_bits: "dtype",
    as_they_came: "rising",
    sums_in_another_order: "of the reference",
    squares: "of the reference",
    lets_zeros_go: "sum is 0",
    neighbours_only: "rising",
    adds_in_place: "leaves its inputs",
    the_sums_alone: None,
    a_loop_over_the_keys: "no Python loop over the keys",
    a_loop_in_map_over_keys: "Python asks for no element",
    **dict.fromkeys(map(AtMost, (8, 16)), "1,000 times"),
    by_differences_in_32_bits: "its own gradients alone",
    a_product: r"no array of \[distinct keys, n\]",
}
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (ask, QUESTIONS), 2: (merge, SUMS)})
