"""The report of a table and its what-ifs, against sums by hand, key by key."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlab.embedding import analysis
from ctrlab.embedding.table_state import TableState
from ctrlab.errors import BadData, CtrlabError

SMALL, GREAT = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def state(frequencies, steps, norms=None, counts=(), count_steps=(), dim=3, slots=("m",)) -> TableState:
    n, m = len(frequencies), len(counts)
    values = np.zeros((n, dim), np.float32)
    values[:, 0] = np.ones(n) if norms is None else norms
    return TableState(
        np.arange(n, dtype=np.int64),
        values,
        {name: np.zeros((n, dim), np.float32) for name in slots},
        np.asarray(frequencies, np.int64),
        np.asarray(steps, np.int64),
        np.arange(n, n + m, dtype=np.int64),
        np.asarray(counts, np.int64),
        np.asarray(count_steps, np.int64),
    )


def by_hand(frequencies, steps, norms, counts=(), count_steps=()):
    """[(frequency, step, norm or None, has a row)] of the same keys."""
    return [(*row, True) for row in zip(frequencies, steps, norms)] + [(c, s, None, False) for c, s in zip(counts, count_steps)]


def test_a_report_has_a_row_for_every_key_of_every_table():
    item = TableState(
        np.array([-1, SMALL, GREAT]),
        np.array([[3, 4], [0, 0], [np.nan, 1]], np.float32),
        {"m": np.zeros((3, 2), np.float32), "v": np.zeros((3, 2), np.float32)},
        np.array([5, 1, 2**33]),
        np.array([9, 4, 9]),
        np.array([17]),
        np.array([2]),
        np.array([8]),
    )
    user = state([1], [2], dim=1, slots=())
    table = analysis.report({"item": item, "user": user}, {"item": np.array([GREAT, 17])})
    assert table.schema.equals(analysis.SCHEMA)
    rows = table.to_pylist()
    assert [r["feature"] for r in rows] == ["item"] * 4 + ["user"]
    assert [r["id"] for r in rows] == [-1, SMALL, GREAT, 17, 0]
    assert [r["norm"] for r in rows[:2]] == [5.0, 0.0] and np.isnan(rows[2]["norm"]) and rows[3]["norm"] is None
    assert [r["frequency"] for r in rows] == [5, 1, 2**33, 2, 1]
    assert [r["last_step"] for r in rows] == [9, 4, 9, 8, 2]
    assert [r["tier"] for r in rows] == ["memory", "memory", "disk", None, "memory"]
    assert [r["admitted"] for r in rows] == [True, True, True, False, True]
    assert [r["row_bytes"] for r in rows] == [31 + 2 * 4 * 3] * 4 + [31 + 4]
    assert analysis.of_feature(table, "user").to_pylist() == rows[4:]


def test_norms_of_great_values_do_not_overflow():
    great = state([1], [1], norms=[3e38])
    assert analysis.report({"t": great})["norm"][0].as_py() == np.float32(3e38)


def test_no_table_and_an_empty_table_give_an_empty_report():
    for table in (analysis.report({}), analysis.report({"t": state([], [])})):
        assert table.num_rows == 0 and table.schema.equals(analysis.SCHEMA)
        assert analysis.frequencies(table).ids.sum() == analysis.ages(table).ids.sum() == analysis.norms(table).ids.sum() == 0
        assert list(analysis.admission(table, [1, 2]).rows) == [0, 0]
        assert list(analysis.eviction(table, [1]).traffic) == [0.0]
        with pytest.raises(CtrlabError, match="this report has none"):
            analysis.suggest_threshold(table, 0.9)


def test_a_report_goes_to_parquet_and_back(tmp_path):
    table = analysis.report({"a": state([3, 1], [2, 1], counts=[1], count_steps=[1]), "b": state([2], [1])})
    analysis.write(table, tmp_path / "report.parquet")
    assert analysis.read(tmp_path / "report.parquet").equals(table.combine_chunks().unify_dictionaries())
    assert [p.name for p in tmp_path.iterdir()] == ["report.parquet"]


def test_what_is_no_report_is_refused(tmp_path):
    (tmp_path / "text").write_text("feature,id\n")
    with pytest.raises(BadData, match="can't be read"):
        analysis.read(tmp_path / "text")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "other.parquet")
    with pytest.raises(BadData, match="lacks admitted, feature"):
        analysis.read(tmp_path / "other.parquet")
    with pytest.raises(CtrlabError, match="must be in an existing folder"):
        analysis.write(analysis.report({}), tmp_path / "no" / "report.parquet")


def test_admission_on_three_keys():
    table = analysis.report({"t": state([10, 3], [1, 1], counts=[2], count_steps=[1])})
    row, entry = 31 + 2 * 4 * 3, 27
    what_if = analysis.admission(table, [1, 2, 3, 4, 11])
    assert list(what_if.rows) == [3, 3, 2, 1, 0]
    assert list(what_if.bytes) == [3 * row, 3 * row, 2 * row + entry, row + 2 * entry, 3 * entry]
    assert np.allclose(what_if.traffic, [1, 1, 13 / 15, 10 / 15, 0])


def test_eviction_on_three_keys():
    table = analysis.report({"t": state([10, 3], [9, 5], counts=[2], count_steps=[1])})
    row, entry = 31 + 2 * 4 * 3, 27
    what_if = analysis.eviction(table, [8, 7, 4, 3])
    assert list(what_if.settings) == [8, 7, 4, 3]
    assert list(what_if.rows) == [2, 2, 2, 1]
    assert list(what_if.bytes) == [2 * row + entry, 2 * row, 2 * row, row]
    assert np.allclose(what_if.traffic, [13 / 15, 13 / 15, 13 / 15, 10 / 15])
    assert list(analysis.eviction(table, [8], now=13).rows) == [2] and list(analysis.eviction(table, [3], now=13).rows) == [0]
    with pytest.raises(CtrlabError, match="no key came after; received 8"):
        analysis.eviction(table, [1], now=8)


def test_eviction_by_norm_leaves_what_has_no_norm():
    table = analysis.report({"t": state([1, 2, 4], [1, 1, 1], norms=[0.5, 1.0, np.nan], counts=[3], count_steps=[1])})
    what_if = analysis.eviction_by_norm(table, [0.4, 0.5, 0.6, 2.0])
    assert list(what_if.rows) == [3, 3, 2, 1]
    assert list(what_if.bytes - what_if.rows * (31 + 2 * 4 * 3)) == [27] * 4
    assert np.allclose(what_if.traffic, [0.7, 0.7, 0.6, 0.4])


def test_bins_are_powers_of_two():
    table = analysis.report({"t": state([1, 2, 3, 4, 8], [8, 8, 7, 6, 1], counts=[1], count_steps=[5])})
    often = analysis.frequencies(table)
    assert list(often.edges) == [0, 1, 2, 4, 8, 16]
    assert list(often.ids) == [0, 2, 2, 1, 1] and list(often.traffic) == [0, 2, 5, 4, 8]
    old = analysis.ages(table)
    assert list(old.edges) == [0, 1, 2, 4, 8]
    assert list(old.ids) == [2, 1, 2, 1] and list(old.traffic) == [3, 3, 5, 8]


def test_norms_are_of_rows_and_all_in_a_bin():
    table = analysis.report({"t": state([1, 2, 3, 9], [1] * 4, norms=[0.0, 0.5, 1.0, np.nan], counts=[5], count_steps=[1])})
    histogram = analysis.norms(table, bins=2)
    assert list(histogram.edges) == [0, 0.5, 1] and list(histogram.ids) == [1, 2] and list(histogram.traffic) == [1, 5]


keys = st.tuples(st.integers(1, 40), st.integers(1, 30), st.floats(0, 4, width=16))


@given(st.lists(keys, min_size=1, max_size=40), st.lists(keys, max_size=10), st.integers(1, 45), st.floats(0.01, 1))
def test_every_what_if_is_a_count_of_keys(rows, counted, setting, coverage):
    often, steps, norms = (list(x) for x in zip(*rows))
    counts, count_steps = [c for c, _, _ in counted], [s for _, s, _ in counted]
    table = analysis.report({"t": state(often, steps, norms, counts, count_steps)})
    everything = by_hand(often, steps, norms, counts, count_steps)
    total, now = sum(k[0] for k in everything), max(k[1] for k in everything)

    def agree(what_if, rows):
        assert what_if.rows[0] == len(rows) and np.isclose(what_if.traffic[0], sum(k[0] for k in rows) / total)

    agree(analysis.admission(table, [setting]), [k for k in everything if k[0] >= setting])
    agree(analysis.eviction(table, [setting]), [k for k in everything if k[3] and now - k[1] <= setting])
    agree(analysis.eviction_by_norm(table, [setting / 10]), [k for k in everything if k[3] and k[2] >= setting / 10])

    threshold = analysis.suggest_threshold(table, coverage)
    assert analysis.admission(table, [threshold]).traffic[0] >= coverage
    assert analysis.admission(table, [threshold + 1]).traffic[0] < coverage
    live = analysis.suggest_steps_to_live(table, coverage)
    now_covered = sum(k[0] for k in everything if k[3]) / total
    assert analysis.eviction(table, [live]).traffic[0] >= coverage * now_covered
    assert live == 1 or analysis.eviction(table, [live - 1]).traffic[0] < coverage * now_covered


@pytest.mark.parametrize("coverage", [0, -0.1, 1.1, float("nan")])
def test_a_coverage_is_a_share(coverage):
    table = analysis.report({"t": state([1], [1])})
    for suggest in (analysis.suggest_threshold, analysis.suggest_steps_to_live):
        with pytest.raises(CtrlabError, match=r"above 0 and at most 1; received"):
            suggest(table, coverage)


def test_what_a_filter_would_keep_is_what_it_keeps():
    """A stream counted by hand with threshold 4 makes the rows that the what-if on the unfiltered stream predicts."""
    rng = np.random.default_rng(1)
    stream = rng.zipf(1.3, 4_000)
    counts = np.unique(stream, return_counts=True)[1]
    seen, made = {}, set()
    for key in stream.tolist():
        seen[key] = seen.get(key, 0) + 1
        if seen[key] >= 4:
            made.add(key)
    table = analysis.report({"t": state(counts, np.ones_like(counts))})
    assert analysis.admission(table, [4]).rows[0] == len(made)
