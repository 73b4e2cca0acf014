"""The bench of the embedding variable: all that it times gives the same rows, and its figures are there."""

import numpy as np
import pytest
import tensorflow as tf

from studies.embedding import bench


def test_all_tables_hold_the_same():
    ids = bench.zipf_ids(3_000, seed=0)
    expected = tf.gather(np.repeat(np.arange(3_000, dtype=np.float32), bench.DIM).reshape(3_000, bench.DIM), ids)
    for lookup in (bench.filled(3_000).lookup, bench._gather(3_000), bench._mutable(3_000), bench._dense(3_000)):
        np.testing.assert_array_equal(lookup(ids), expected)


def test_steps_change_both_tables_alike():
    ids = bench.zipf_ids(3_000, seed=0)
    variable, dense = bench._step_of(bench.filled(3_000)), bench._step_of_dense(3_000)
    first = variable(ids).numpy()
    np.testing.assert_array_equal(dense(ids), first)
    second = variable(ids)
    assert np.abs(second - first).max() > 1e-3
    np.testing.assert_array_equal(dense(ids), second)  # the same sums in the same order


def test_ids_are_zipf_like():
    times = np.sort(np.bincount(bench.zipf_ids(1_000_000, seed=1).numpy(), minlength=1_000_000))[::-1] / bench.BATCH
    assert times[0] == pytest.approx(np.log(2) / np.log(1e6), rel=0.05)
    assert times[9] == pytest.approx(np.log(11 / 10) / np.log(1e6), rel=0.2)


def test_the_bench_runs_at_tiny():
    found = bench.bench_embedding("tiny")
    assert set(found.gather.measurements) == {"tf.gather", bench.OURS} and found.gather[bench.OURS].percent_of_bound > 0
    assert set(found.step.measurements) == {bench.FUSED, bench.OURS} and found.step[bench.OURS].percent_of_bound > 0
    assert len(found.tables.measurements) == 3
    assert found.floor_per_key < found.bytes_per_key <= found.peak_per_key
