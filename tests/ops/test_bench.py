"""The benches of ops run, are typed, and hold what they time against the bound."""

import json

import numpy as np
import pytest

from ctrlab.errors import UnknownName
from ctrlab.ops import benches as bench
from ctrlab.profiling.work import Ceilings

CEILINGS = Ceilings(sgemm=1e11, bf16=2e11, stream=1e10, stream_one_thread=5e9, random_rows=1e8, sigmoids=1e9)


@pytest.fixture(autouse=True)
def known_ceilings(monkeypatch):
    monkeypatch.setattr(bench, "ceilings", lambda: CEILINGS)


def test_rows_have_a_ratio_to_each_variant_above_and_a_bound():
    rows = bench.bench_ops(["indicator_64"], profile="tiny")
    assert [row.variant for row in rows] == ["baseline", "scatter_nd", "stock", "fused"]
    assert [list(row.speedup) for row in rows] == [
        [],
        ["baseline"],
        ["baseline", "scatter_nd"],
        ["baseline", "scatter_nd", "stock"],
    ]
    assert all(row.measurement.percent_of_bound > 0 and row.shape.startswith("B=64, V=10000, C=1, 30 ids") for row in rows)
    medians = {row.variant: row.measurement.median for row in rows}
    for row in rows:
        bound = row.measurement.bound
        left = {other: (row.measurement.median - bound) / (medians[other] - bound) for other in row.speedup}
        assert row.closed == pytest.approx({other: 100 * (1 - part) for other, part in left.items()})
    assert json.loads(json.dumps([row.to_json() for row in rows]))[3]["speedup"]["baseline"]["median"] > 0


def test_variants_of_a_bench_compute_the_same():
    model = bench.benches()["indicator"](small=True)
    inputs = model.make_inputs(3)
    first, *others = [step(*inputs) for step in model.variants.values()]
    for other in others:
        for expected, received in zip(first, other):
            np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-4)


def test_an_unknown_bench_is_named():
    with pytest.raises(UnknownName, match="Did you mean 'indicator'"):
        bench.bench_ops(["indicatr"])
