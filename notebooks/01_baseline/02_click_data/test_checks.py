"""The checks of the click data lesson against right answers and every kind of wrong one."""

import numpy as np
import tensorflow as tf
from ctrlab.lessons.topics.click_data import checks
from solved import solved
from wrong_answers import judge

LESSON = "01_baseline/02_click_data"
zipf_exponent, counted = solved(LESSON, 1), solved(LESSON, 2)


def fitted(counts, least, first=1, dtype=np.float64):
    often = np.sort(counts)[::-1]
    often = often[often >= least].astype(dtype)
    if len(often) < 2:
        return float("nan")
    return -np.polyfit(np.log(np.arange(first, len(often) + first)), np.log(often), 1)[0]


def mutating(counts, least):
    counts.sort()
    return fitted(counts, least)


def unsorted(counts, least):
    often = counts[counts >= least]
    return -np.polyfit(np.log(np.arange(1, len(often) + 1)), np.log(often), 1)[0] if len(often) > 1 else float("nan")


def by_its_ends(counts, least):
    often = np.sort(counts[counts >= least])[::-1]
    return np.log(often[0] / often[-1]) / np.log(len(often)) if len(often) > 1 else float("nan")


def at_mean_ranks(counts, least):
    often = counts[counts >= least]
    ranks = np.array([np.sum(often > count) + (np.sum(often == count) + 1) / 2 for count in often])
    return -np.polyfit(np.log(ranks), np.log(often), 1)[0] if len(often) > 1 else float("nan")


def looping(counts, least):
    return fitted(np.array([count for count in counts if count >= least], np.int64), least)


WRONG_EXPONENTS = {
    "no-op": lambda counts, least: counts,
    "nothing": lambda counts, least: None,
    "constant": lambda counts, least: 1.0,
    "always nan": lambda counts, least: float("nan"),
    "the sign": lambda counts, least: -fitted(counts, least),
    "ranks from 2": lambda counts, least: fitted(counts, least, first=2),
    "the tail kept": lambda counts, least: fitted(counts, 1),
    "one count too many": lambda counts, least: fitted(counts, least - 1),
    "one count too few": lambda counts, least: fitted(counts, least + 1),
    "no nan": lambda counts, least: np.nan_to_num(fitted(counts, least)),
    "low precision": lambda counts, least: float(np.float16(fitted(counts, least))),
    "unsorted": unsorted,
    "by its ends": by_its_ends,
    "mutating": mutating,
    "mean ranks": at_mean_ranks,
    "a loop over ids": (looping, "Budget"),
}


def searched(text, offsets):
    inside = tf.searchsorted(tf.where(text == ord(";"))[:, 0], offsets, out_type=tf.int64)
    lengths = inside[1:] - inside[:-1] + tf.cast(offsets[1:] > offsets[:-1], tf.int64)
    return tf.concat([[0], tf.cumsum(lengths)], 0)


def separators_only(text, offsets):
    inside = tf.gather(tf.concat([[0], tf.cumsum(tf.cast(text == ord(";"), tf.int64))], 0), offsets)
    return inside - inside[0]


def ends_of_entries(text, offsets):
    """Wrong: an entry begins where a letter follows a separator, so no empty one does."""
    letters = tf.cast(text != ord(";"), tf.int64)
    begins = letters * (1 - tf.concat([[0], letters], 0)[:-1])
    first = tf.scatter_nd(offsets[:-1, None], tf.ones_like(offsets[:-1]), tf.shape(text, tf.int64) + 1)[:-1]
    begins = tf.maximum(begins, letters * tf.minimum(first, 1))
    return tf.gather(tf.concat([[0], tf.cumsum(begins)], 0), offsets) - tf.reduce_sum(begins[: offsets[0]])


def empty_counts_one(text, offsets):
    return separators_only(text, offsets) + tf.range(tf.size(offsets, tf.int64))


def from_zero(text, offsets):
    """Wrong: counts the separators of the whole buffer, although the offsets may begin anywhere in it."""
    splits = counted(text, offsets)
    outside = tf.reduce_sum(tf.cast(text[: offsets[0]] == ord(";"), tf.int64))
    return splits + outside


def every_byte_by_every_row(text, offsets):
    places = tf.range(tf.size(text, tf.int64))
    separators = (text == ord(";")) & (places >= offsets[:-1, None]) & (places < offsets[1:, None])  # [B, n]
    lengths = tf.reduce_sum(tf.cast(separators, tf.int64), 1) + tf.cast(offsets[1:] > offsets[:-1], tf.int64)
    return tf.concat([[0], tf.cumsum(lengths)], 0)


def unrolled(text, offsets):
    splits = [tf.constant(0, tf.int64)]
    for b in range(offsets.shape[0] - 1):
        row = text[offsets[b] : offsets[b + 1]]
        entries = tf.reduce_sum(tf.cast(row == ord(";"), tf.int64)) + tf.cast(tf.size(row) > 0, tf.int64)
        splits.append(splits[-1] + entries)
    return tf.stack(splits)


def mapped(text, offsets):
    def entries(ends):
        row = text[ends[0] : ends[1]]
        return tf.reduce_sum(tf.cast(row == ord(";"), tf.int64)) + tf.cast(tf.size(row) > 0, tf.int64)

    lengths = tf.map_fn(entries, tf.stack([offsets[:-1], offsets[1:]], 1))
    return tf.concat([[0], tf.cumsum(lengths)], 0)


def in_python(text, offsets):
    whole = bytes(text.numpy())
    rows = [whole[a:b] for a, b in zip(offsets.numpy()[:-1], offsets.numpy()[1:])]
    return np.cumsum([0, *(len(row.split(b";")) if row else 0 for row in rows)], dtype=np.int64)


WRONG_SPLITS = {
    "no-op": lambda text, offsets: offsets,
    "nothing": lambda text, offsets: None,
    "zeros": lambda text, offsets: tf.zeros_like(offsets),
    "off by one": lambda text, offsets: counted(text, offsets) + 1,
    "another separator": lambda text, offsets: counted(text - ord(";") + ord(","), offsets),
    "lengths": lambda text, offsets: counted(text, offsets)[1:] - counted(text, offsets)[:-1],
    "low precision": lambda text, offsets: tf.cast(counted(text, offsets), tf.int32),
    "separators only": separators_only,
    "no empty entries": (ends_of_entries, "entries that are empty"),
    "an empty text counts one": empty_counts_one,
    "what stands before counts": from_zero,
    "[B, n]": (every_byte_by_every_row, "Budget"),
    "unrolled": (unrolled, "Budget"),
    "mapped": (mapped, "Budget"),
    "in Python": in_python,
}


test_right_answers_pass, test_wrong_answers_are_refused = judge(
    LESSON, {1: ((zipf_exponent, checks.zipf_exponent), WRONG_EXPONENTS), 2: ((counted, searched), WRONG_SPLITS)}
)
