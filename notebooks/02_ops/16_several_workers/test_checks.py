"""The checks of the lesson on several workers against right answers and every kind of wrong one."""

import numpy as np
import pytest
import tensorflow as tf
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check, interleaving

LESSON = "02_ops/16_several_workers"
reduce_scatter, joined = solved(LESSON, 1), solved(LESSON, 2)


def with_all_sums(chunks, me, ring):
    count, sums = len(chunks), [each.copy() for each in chunks]
    for turn in range(count - 1):
        ring.send(sums[(me - turn) % count])
        sums[(me - turn - 1) % count] += ring.receive()
    return sums[(me + 1) % count]


def in_numpy_s_words(chunks, me, ring):
    total = np.asarray(chunks[me], np.float32)
    for turn in range(1, len(chunks)):
        ring.send(total)
        total = np.add(ring.receive(), chunks[(me - turn) % len(chunks)], dtype=np.float32)
    return total


def adds_to_what_came(chunks, me, ring):
    total = chunks[me]
    for turn in range(1, len(chunks)):
        ring.send(total)
        total = ring.receive()
        total += chunks[(me - turn) % len(chunks)]
    return total


def with_einsum(counts, means, variances):
    mean = tf.einsum("w,wn->n", counts, means) / tf.reduce_sum(counts)
    squares = tf.einsum("w,wn->n", counts, variances + tf.math.squared_difference(means, mean))
    return mean, squares / tf.reduce_sum(counts)


def within_and_between(counts, means, variances):
    rows = tf.reduce_sum(counts)
    mean = tf.linalg.matvec(means, counts, transpose_a=True) / rows
    within = tf.reduce_sum(counts[:, None] * variances, 0)
    between = tf.reduce_sum(counts[:, None] * (means - mean) ** 2, 0)
    return mean, (within + between) / rows


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [(1, with_all_sums), (1, in_numpy_s_words), (1, adds_to_what_came), (2, within_and_between), (2, with_einsum)],
)
def test_other_right_answers_pass(exercise, answer):
    check.run(LESSON, exercise, answer, 3)


def no_op(chunks, me, ring):
    return chunks[(me + 1) % len(chunks)]


def zeros(chunks, me, ring):
    return 0 * reduce_scatter(chunks, me, ring)


def receives_first(chunks, me, ring):
    total = chunks[me]
    for turn in range(1, len(chunks)):
        came = ring.receive()
        ring.send(total)
        total = came + chunks[(me - turn) % len(chunks)]
    return total


def a_round_too_few(chunks, me, ring):
    total = chunks[me]
    for turn in range(1, len(chunks) - 1):
        ring.send(total)
        total = ring.receive() + chunks[(me - turn) % len(chunks)]
    return total


def a_round_too_many(chunks, me, ring):
    total = chunks[me]
    for turn in range(1, len(chunks) + 1):
        ring.send(total)
        total = ring.receive() + chunks[(me - turn) % len(chunks)]
    return total


def the_other_way_round(chunks, me, ring):
    total = chunks[me]
    for turn in range(1, len(chunks)):
        ring.send(total)
        came, own = ring.receive(), chunks[(me + turn) % len(chunks)]
        total = came + own if came.shape == own.shape else own
    return total


def always_the_next_chunk(chunks, me, ring):
    total = chunks[me]
    for _ in range(1, len(chunks)):
        ring.send(total)
        came, own = ring.receive(), chunks[me - 1]
        total = came + own if came.shape == own.shape else own
    return total


def sends_its_own_chunks(chunks, me, ring):
    total = chunks[(me + 1) % len(chunks)]
    for turn in range(1, len(chunks)):
        ring.send(chunks[(me - turn + 1) % len(chunks)])
        came = ring.receive()
        total = total + came if came.shape == total.shape else total
    return total


def sends_all(chunks, me, ring):
    whole = np.concatenate(chunks)
    total = whole.copy()
    for _ in range(len(chunks) - 1):
        ring.send(whole)
        whole = ring.receive()
        total = total + whole
    bounds = np.cumsum([0, *map(len, chunks)])
    which = (me + 1) % len(chunks)
    return total[bounds[which] : bounds[which + 1]]


def forgets_its_own(chunks, me, ring):
    total = chunks[me]
    for _ in range(1, len(chunks)):
        ring.send(total)
        total = ring.receive()
    return total


def adds_in_place(chunks, me, ring):
    count = len(chunks)
    for turn in range(count - 1):
        ring.send(chunks[(me - turn) % count])
        chunks[(me - turn - 1) % count] += ring.receive()
    return chunks[(me + 1) % count]


def changes_what_it_sent(chunks, me, ring):
    total = chunks[me].copy()
    for turn in range(1, len(chunks)):
        ring.send(total)
        total *= 0
        total = ring.receive() + chunks[(me - turn) % len(chunks)]
    return total


def the_mean(chunks, me, ring):
    return reduce_scatter(chunks, me, ring) / np.float32(len(chunks))


def in_64_bits(chunks, me, ring):
    return reduce_scatter([each.astype(np.float64) for each in chunks], me, ring)


def as_a_list(chunks, me, ring):
    return reduce_scatter(chunks, me, ring).tolist()


class Sends:
    """The right answer, whose messages are converted."""

    def __init__(self, convert):
        self.convert = convert

    def __call__(self, chunks, me, ring):
        total = chunks[me]
        for turn in range(1, len(chunks)):
            ring.send(self.convert(total))
            total = np.asarray(ring.receive(), np.float32) + chunks[(me - turn) % len(chunks)]
        return total


def in_16_bits(chunks, me, ring):
    return reduce_scatter([each.astype(np.float16) for each in chunks], me, ring).astype(np.float32)


def all_sums(chunks, me, ring):
    count, sums = len(chunks), [each.copy() for each in chunks]
    for turn in range(count - 1):
        ring.send(sums[(me - turn) % count])
        sums[(me - turn - 1) % count] += ring.receive()
    return sums


def for_two_alone(chunks, me, ring):
    if len(chunks) == 1:
        return chunks[0]
    ring.send(chunks[me])
    came, own = ring.receive(), chunks[1 - me] if len(chunks) == 2 else chunks[0]
    return came + own if came.shape == own.shape else own


def sends_without_end(chunks, me, ring):
    while len(chunks) > 1:
        ring.send(chunks[0])
    return chunks[0]


RINGS = {
    no_op: "expected 1 message, 12 bytes\n  received 0 messages, 0 bytes\n.*\n  try      2 workers take 1 round;",
    zeros: "of the reference",
    receives_first: "wait for each other for ever",
    a_round_too_few: "sends W - 1 chunks.*\n.*\n.*\n.*\n.*2 workers take 1 round; in each round",
    a_round_too_many: "sends W - 1 chunks",
    the_other_way_round: None,
    always_the_next_chunk: None,
    sends_its_own_chunks: "of the reference",
    sends_all: "sends W - 1 chunks",
    forgets_its_own: "of the reference",
    adds_in_place: "here two(.*\n)*.*chunks stay as they are(.*\n)*.*at       chunk [01] of worker [01]\n.*`a \\+= b` changes",
    changes_what_it_sent: "What was sent is left as it is",
    the_mean: "of the reference(.*\n)*.*return the sum itself",
    in_64_bits: "an array of float64(.*\n)*.*messages and the result are, too",
    in_16_bits: "it is nearly right: of which type",
    Sends(np.float16): "Each message is a float32 array(.*\n)*.*received an array of float16(.*\n)*.*at       worker",
    as_a_list: "The result is a float32 array(.*\n)*.*received list",
    Sends(np.ndarray.tolist): "Each message is a float32 array(.*\n)*.*received list",
    all_sums: "The result is a float32 array",
    for_two_alone: None,
    sends_without_end: "at most 1 message\n",
}


def nothing(counts, means, variances):
    return None


def the_first_worker_s(counts, means, variances):
    return means[0], variances[0]


def means_of_means(counts, means, variances):
    return tf.reduce_mean(means, 0), tf.reduce_mean(variances, 0)


def plain_mean_but_between(counts, means, variances):
    mean = tf.reduce_mean(means, 0)
    return mean, tf.reduce_mean(variances + tf.square(means - mean), 0)


def without_between(counts, means, variances):
    share = (counts / tf.reduce_sum(counts))[:, None]
    return tf.reduce_sum(share * means, 0), tf.reduce_sum(share * variances, 0)


def by_squares(counts, means, variances):
    share = (counts / tf.reduce_sum(counts))[:, None]
    mean = tf.reduce_sum(share * means, 0)
    return mean, tf.reduce_sum(share * (variances + tf.square(means)), 0) - tf.square(mean)


def of_samples(counts, means, variances):
    mean, variance = joined(counts, means, variances)
    rows = tf.reduce_sum(counts)
    return mean, variance * rows / tf.maximum(rows - 1, 1)


def deviations(counts, means, variances):
    mean, variance = joined(counts, means, variances)
    return mean, tf.sqrt(variance)


def distances_without_shares(counts, means, variances):
    share = (counts / tf.reduce_sum(counts))[:, None]
    mean = tf.reduce_sum(share * means, 0)
    return mean, tf.reduce_sum(share * variances, 0) + tf.reduce_mean(tf.square(means - mean), 0)


def without_a_gradient(counts, means, variances):
    return joined(counts, tf.stop_gradient(means), variances)


def half_a_gradient(counts, means, variances):
    share = (counts / tf.reduce_sum(counts))[:, None]
    mean = tf.reduce_sum(share * means, 0)
    return mean, tf.reduce_sum(share * (variances + tf.square(tf.stop_gradient(means - mean))), 0)


def in_numpy(counts, means, variances):
    share = (counts.numpy() / counts.numpy().sum())[:, None]
    mean = (share * means.numpy()).sum(0)
    return mean, (share * (variances.numpy() + (means.numpy() - mean) ** 2)).sum(0)


def in_bfloat16(counts, means, variances):
    found = joined(*(tf.cast(each, tf.bfloat16) for each in (counts, means, variances)))
    return tuple(tf.cast(each, tf.float32) for each in found)


def as_columns(counts, means, variances):
    return tuple(each[None] for each in joined(counts, means, variances))


def the_mean_alone(counts, means, variances):
    return joined(counts, means, variances)[0]


def swapped(counts, means, variances):
    return joined(counts, means, variances)[::-1]


def every_pair_of_workers(counts, means, variances):
    share = counts / tf.reduce_sum(counts)
    mean = tf.reduce_sum(share[:, None] * means, 0)
    pairs = share[:, None, None] * share[None, :, None] * tf.square(means[:, None] - means[None])
    return mean, tf.reduce_sum(share[:, None] * variances, 0) + tf.reduce_sum(pairs, [0, 1]) / 2


def a_loop_over_workers(counts, means, variances):
    rows, mean, variance = tf.reduce_sum(counts), 0.0, 0.0
    for count, each in zip(tf.unstack(counts), tf.unstack(means)):
        mean += count / rows * each
    for count, each, own in zip(tf.unstack(counts), tf.unstack(means), tf.unstack(variances)):
        variance += count / rows * (own + (each - mean) ** 2)
    return mean, variance


def a_loop_over_columns(counts, means, variances):
    found = [joined(counts, means[:, n : n + 1], variances[:, n : n + 1]) for n in range(means.shape[1])]
    return tf.concat([mean for mean, _ in found], 0), tf.concat([variance for _, variance in found], 0)


def test_a_worker_that_never_ends_is_named(monkeypatch):
    def turns(chunks, me, ring):
        while len(chunks) > 1:
            pass
        return chunks[0]

    monkeypatch.setattr(interleaving, "PATIENCE", 0.3)
    with pytest.raises(check.CheckFailed, match=r"here two workers\.\n.*comes to an end\.\n.*\n.*worker [01] goes on and on"):
        check.run(LESSON, 1, turns)


STATISTICS = {
    nothing: None,
    the_first_worker_s: "two halves, `mean`",
    means_of_means: "two halves, `variance`",
    plain_mean_but_between: "three rows and one, `mean`",
    without_between: "`variance`",
    by_squares: "large numbers that hardly differ",
    of_samples: "`variance`",
    deviations: "`variance`",
    distances_without_shares: "three rows and one, `variance`",
    without_a_gradient: "a gradient for means|the gradient for means",
    half_a_gradient: "the gradient for means",
    in_numpy: None,
    in_bfloat16: None,
    as_columns: "shape",
    the_mean_alone: None,
    swapped: "`mean`",
    every_pair_of_workers: "a few ops",
    a_loop_over_columns: "194 and 50 ops",
    a_loop_over_workers: "no loop over workers or columns, in Python neither",
}
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (reduce_scatter, RINGS), 2: (joined, STATISTICS)})
