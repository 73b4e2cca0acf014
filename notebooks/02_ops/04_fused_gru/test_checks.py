"""The checks of the lesson on the fused GRU against right answers and every kind of wrong one."""

import numpy as np
import pytest
import tensorflow as tf
from ctrlab.lessons.topics.fused_gru import checks
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check
from ctrlab.lessons.check import CheckFailed
from ctrlab.ops import gru, kernel_swap
from ctrlab.ops.events import Events

LESSON = "02_ops/04_fused_gru"
sorted_blocks, SOLVED = solved(LESSON, 1), solved(LESSON, 2)


def no_op(lengths, size):
    return lengths, size


def as_they_come(lengths, size):
    return tf.range(tf.size(lengths, tf.int64)), size * tf.reduce_sum(lengths[::size])


def shortest_first(lengths, size):
    order = tf.argsort(lengths)
    return order, size * tf.reduce_sum(tf.gather(lengths, order)[size - 1 :: size])


def lengths_for_order(lengths, size):
    return tf.sort(lengths, direction="DESCENDING"), sorted_blocks(lengths, size)[1]


def off_by_one(lengths, size):
    order, carried = sorted_blocks(lengths, size)
    return order, carried + 1


def padded(lengths, size):
    order, _ = sorted_blocks(lengths, size)
    return order, tf.reduce_max(lengths) * tf.size(lengths, tf.int64)


def only_what_is_there(lengths, size):
    return sorted_blocks(lengths, size)[0], tf.reduce_sum(lengths)


def low_precision(lengths, size):
    order, carried = sorted_blocks(lengths, size)
    return order, tf.cast(carried, tf.float16)


def one_only(lengths, size):
    return sorted_blocks(lengths, size)[0]


def compares_all_pairs(lengths, size):
    row = tf.range(len(lengths))
    ahead = (lengths[:, None] > lengths) | ((lengths[:, None] == lengths) & (row[:, None] < row))
    place = tf.reduce_sum(tf.cast(ahead, tf.int64), 0)
    order = tf.scatter_nd(place[:, None], tf.range(len(lengths), dtype=tf.int64), tf.size(lengths, tf.int64)[None])
    return order, size * tf.reduce_sum(tf.gather(lengths, order)[::size])


def python_loop(lengths, size):
    order = np.argsort(-lengths.numpy())
    return tf.constant(order), tf.constant(checks.carried_by(lengths.numpy().tolist(), size), tf.int64)


def in_a_data_set(lengths, size):
    order, _ = sorted_blocks(lengths, size)
    firsts = tf.data.Dataset.from_tensor_slices(tf.gather(lengths, order)).batch(size).map(lambda block: block[0])
    return order, tf.cast(size, tf.int64) * firsts.reduce(tf.constant(0, tf.int64), lambda total, first: total + first)


def unrolled(lengths, size):
    order, _ = sorted_blocks(lengths, size)
    in_order = tf.gather(lengths, order)
    return order, tf.add_n([size * in_order[first] for first in range(0, lengths.shape[0], size)])


def asks_for_equal_ones(lengths, size):
    tf.unique_with_counts(lengths)
    return sorted_blocks(lengths, size)


WRONG = [no_op, as_they_come, shortest_first, lengths_for_order, off_by_one, padded, only_what_is_there, low_precision]
WRONG += [one_only, python_loop]
TOO_MUCH = dict.fromkeys((compares_all_pairs, in_a_data_set, unrolled, asks_for_equal_ones), "Budget")
test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (sorted_blocks, dict.fromkeys(WRONG) | TOO_MUCH)})


def changed(found, change):
    events, rows = found
    return Events(events.splits, flat=change(events.flat)), change(rows)


def wrong_ops():
    def nothing(*inputs):
        return changed(gru.fused(*inputs), tf.zeros_like)

    def no_attention(x, gates, bias, candidate, candidate_bias, attention):
        return gru.fused(x, gates, bias, candidate, candidate_bias)

    def gates_swapped(x, gates, bias, *rest):
        hidden = len(bias) // 2
        return gru.fused(x, tf.roll(gates, hidden, 1), tf.roll(bias, hidden, 0), *rest)

    def no_bias(x, gates, bias, *rest):
        return gru.fused(x, gates, tf.zeros_like(bias), *rest)

    def last_is_first(*inputs):
        outputs, last = gru.fused(*inputs)
        return outputs, tf.roll(last, 1, 0)

    def half(*inputs):
        return changed(gru.fused(*inputs), lambda a: tf.cast(tf.cast(a, tf.bfloat16), tf.float32))

    def outputs_only(*inputs):
        return gru.fused(*inputs)[0]

    return [nothing, no_attention, gates_swapped, no_bias, last_is_first, half, outputs_only]


_, test_wrong_kernels_are_refused = judge(LESSON, {2: ((), wrong_ops())}, kernels=True)


AT_A_POSITION = "const float *x = in->x + p * C"
ALLOCATIONS = {
    "a vector": "std::vector<float> t(H + p); t[0] = x_[0];",
    "new": "float* t = new float[H]; t[0] = x_[0]; c_ = t[0]; delete[] t;",
    "malloc": "volatile float* t = (float*)std::malloc(4 * H); t[0] = x_[0]; std::free((void*)t);",
    "nothrow": "float* t = new (std::nothrow) float[H]; t[0] = x_[0]; c_ = t[0]; delete[] t;",
    "posix_memalign": "void* t = 0; if (posix_memalign(&t, 64, 64 * H)) return; ((volatile float*)t)[0] = x_[0]; std::free(t);",
    "reallocarray": "volatile float* t = (float*)reallocarray(0, H, 4); t[0] = x_[0]; std::free((void*)t);",
    "mmap": "float* t = (float*)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);"
    " t[0] = x_[0]; c_ = t[0]; munmap(t, 4096);",
    "std::pmr": "std::pmr::vector<float> t(H + p); t[0] = x_[0];",
    "where H is large": "if (H > 256) { std::vector<float> t(H); t[0] = x_[0]; }",
    "aligned": "volatile float* t = (float*)std::aligned_alloc(64, 64 * H); t[0] = x_[0]; std::free((void*)t);",
}


HEADERS = "".join(f"#include <{h}>\n" for h in ("cstdlib", "memory_resource", "new", "sys/mman.h", "vector"))


@pytest.fixture
def compiled():
    yield lambda source: kernel_swap.swap("gru", source, seconds=60)
    kernel_swap.restore("gru")


def test_the_solution_allocates_nothing_and_runs(compiled):
    compiled(SOLVED)
    check.run(LESSON, 2, gru.fused)
    with pytest.raises(CheckFailed, match=r"(?s)on your kernel.*calls of ctrlab_gru\n.*received none"):
        check.run(LESSON, 2, gru.baseline)


@pytest.mark.parametrize("allocation", ALLOCATIONS.values(), ids=ALLOCATIONS.keys())
def test_an_allocation_per_position_is_refused(compiled, allocation):
    assert AT_A_POSITION in SOLVED
    lines = f"const float* x_ = in->x + p * C; volatile float c_ = 0; (void)c_; {allocation}\n"
    compiled(HEADERS + SOLVED.replace(AT_A_POSITION, lines + AT_A_POSITION))
    with pytest.raises(CheckFailed, match=r"(?s)Budget: nothing is allocated.*received (16|32) for 16 positions"):
        check.run(LESSON, 2, gru.fused)
