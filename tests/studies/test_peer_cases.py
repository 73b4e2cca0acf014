"""The batches and first weights that all sides share."""

import dataclasses
import math

import numpy as np
import pytest

from ctrlab.data.marginals import statistics
from studies.peers import cases
from studies.peers.batches import make_batches

NAMES = list(cases.CASES)


def tiny(name):
    case = cases.case_of(name, tiny=True)
    return case, make_batches(case)


@pytest.mark.parametrize("name", NAMES)
def test_batches_come_back_from_their_file(name, tmp_path):
    case, batches = tiny(name)
    cases.save(tmp_path / "batches.npz", batches)
    loaded = cases.load(tmp_path / "batches.npz")
    assert len(loaded) == case.batches == 2
    for saved, read in zip(batches, loaded):
        assert saved.keys() == read.keys()
        for key in saved:
            np.testing.assert_array_equal(read[key], saved[key], strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_batches_are_the_seeds_and_differ_from_each_other(name):
    case, (first, second) = tiny(name)
    again = make_batches(case)
    for key, array in first.items():
        np.testing.assert_array_equal(again[0][key], array)
    assert any(not np.array_equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("name", ["lookup", "lookup_20", "variable", "deepfm", "dlrm"])
def test_ids_are_rows_of_their_tables(name):
    case, batches = tiny(name)
    for batch in batches:
        assert batch["ids"].shape == (case.tables, case.batch * case.sizes.get("length", 1))
        assert batch["ids"].min() >= 0 and batch["ids"].max() < case.rows


def test_a_variables_ids_are_zipf_like():
    case = dataclasses.replace(cases.case_of("variable"), batches=1)
    (batch,) = make_batches(case)
    for ids in batch["ids"]:
        times = np.sort(np.unique(ids, return_counts=True)[1])[::-1] / case.batch
        assert times[0] == pytest.approx(np.log(2) / np.log(case.rows), rel=0.1)
        assert times[9] == pytest.approx(np.log(11 / 10) / np.log(case.rows), rel=0.3)


def test_numbers_are_finite_and_labels_are_bits():
    case, batches = tiny("dlrm")
    for batch in batches:
        assert batch["numbers"].shape == (case.batch, case.numbers)
        assert np.isfinite(batch["numbers"]).all() and (batch["numbers"] >= 0).all()
        assert set(np.unique(batch["labels"])) <= {0.0, 1.0}


def test_histories_are_the_last_events_and_no_longer_than_the_longest():
    case = dataclasses.replace(cases.case_of("din"), batches=1)
    (batch,) = make_batches(case)
    lengths = np.diff(batch["splits"])
    assert lengths.max() == case.longest and lengths.min() >= 0
    assert len(batch["items"]) == len(batch["categories"]) == batch["splits"][-1]
    for key, table in (("items", "item"), ("categories", "category"), ("user", "user")):
        assert batch[key].min() >= 0 and batch[key].max() < case.sizes[table]
    quantiles = statistics("amazon_reviews").lengths["history_items"].quantiles
    median = min(case.longest, quantiles[len(quantiles) // 2])
    assert median / 2 < np.median(lengths) < median * 2 + 1  # real lengths, not all of one


def test_first_weights_are_the_names():
    table = cases.first_table("item", 1000, 16)
    assert table.dtype == np.float32 and abs(table.std() - 0.05) < 1e-3
    np.testing.assert_array_equal(table, cases.first_table("item", 1000, 16))
    assert not np.array_equal(table, cases.first_table("user", 1000, 16))
    kernel = cases.first_kernel("deep/dense_0", 40, 20)
    assert kernel.dtype == np.float32 and 0.9 < np.abs(kernel).max() / math.sqrt(0.1) <= 1


def test_a_size_that_is_not_there_says_so():
    with pytest.raises(AttributeError, match="Case 'lookup' has no size 'hidden'"):
        _ = cases.CASES["lookup"].hidden
