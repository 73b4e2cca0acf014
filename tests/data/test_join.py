"""Joining the log of a server with its labels: who gets which label, when, and what happens to odd files."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ctrlab.cli import app
from ctrlab.data.join import join
from ctrlab.data.labels import KEYS, REQUEST, ROW, TIME
from ctrlab.errors import BadData, CtrlabError

START = datetime(2025, 11, 24, 10, tzinfo=UTC)
WINDOW = timedelta(seconds=10)
LATER = START + timedelta(hours=1)


def at(seconds):
    return START + timedelta(seconds=seconds)


def examples(rows):
    """(request, row, seconds) of each."""
    columns = {REQUEST: [r[0] for r in rows], ROW: [r[1] for r in rows], TIME: [at(r[2]) for r in rows]}
    table = pa.table(columns, schema=pa.schema(KEYS))
    lists = pa.array([[f"x{n}"] * n for n in range(len(rows))], pa.list_(pa.string()))
    return table.append_column("item", pa.array([f"item {n}" for n in range(len(rows))])).append_column("history", lists)


def labels(rows, **names):
    """(request, row, seconds, click) of each."""
    table = pa.table({REQUEST: [r[0] for r in rows], ROW: [r[1] for r in rows], TIME: [at(r[2]) for r in rows]}, pa.schema(KEYS))
    return table.append_column("click", pa.array([r[3] for r in rows], pa.float32()))


@pytest.fixture
def places(tmp_path):
    for name in ("log", "labels"):
        (tmp_path / name).mkdir()
    return tmp_path / "log", tmp_path / "labels", tmp_path / "out"


def clicks(out, name):
    return pq.read_table(out / name)["click"].to_pylist()


def test_a_label_counts_within_its_example_s_window(places):
    log, given_, out = places
    pq.write_table(examples([("a", 0, 0), ("a", 1, 0), ("b", 0, 5), ("c", 0, 5)]), log / "1.parquet")
    rows = [("a", 1, 10, 1), ("a", 0, 10.001, 1), ("b", 0, 15, 1), ("c", 0, -3, 1), ("unknown", 0, 5, 1), ("b", 1, 5, 1)]
    pq.write_table(labels(rows), given_ / "1.parquet")
    found = join(log, given_, out, WINDOW, now=lambda: LATER)
    assert clicks(out, "1.parquet") == [0, 1, 1, 1]  # of `c`: the client's clock is behind the server's
    assert (found.rows, found.labelled, found.late, found.positive["click"]) == (4, 3, 1, 3)
    joined = pq.read_table(out / "1.parquet").drop_columns(["click"])
    assert joined.equals(pq.read_table(log / "1.parquet"))


def test_a_file_waits_until_its_last_window_and_the_delivery_are_over(places):
    log, given_, out = places
    pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")
    pq.write_table(examples([("b", 0, 20)]), log / "2.parquet")
    options = {"delivery": timedelta(seconds=3)}
    assert join(log, given_, out, WINDOW, now=lambda: at(12.9), **options).waiting == 2 and not list(out.iterdir())
    pq.write_table(labels([("a", 0, 4, 1), ("b", 0, 30, 1)]), given_ / "1.parquet")
    found = join(log, given_, out, WINDOW, now=lambda: at(13), **options)
    assert (found.files, found.waiting) == (1, 1)
    assert join(log, given_, out, WINDOW, now=lambda: LATER).files == 1
    assert join(log, given_, out, WINDOW, now=lambda: LATER).files == 0
    assert clicks(out, "1.parquet") == clicks(out, "2.parquet") == [1]


def test_an_event_trains_once_although_it_was_asked_twice(places):
    log, given_, out = places
    pq.write_table(examples([("a", 0, 0), ("b", 0, 1), ("a", 0, 2), ("a", 1, 2)]), log / "1.parquet")
    pq.write_table(labels([("a", 0, 3, 1), ("a", 0, 4, 1)]), given_ / "1.parquet")
    assert join(log, given_, out, WINDOW, now=lambda: LATER).again == 1
    joined = pq.read_table(out / "1.parquet")
    assert joined["item"].to_pylist() == ["item 0", "item 1", "item 3"] and joined["click"].to_pylist() == [1, 0, 0]


def test_csv_and_parquet_give_the_same(places):
    log, given_, out = places
    pq.write_table(examples([("7", 0, 0), ("8", 0, 0)]), log / "1.parquet")
    pa_csv.write_csv(labels([("8", 0, 3, 1)]), given_ / "1.csv")
    pq.write_table(labels([("7", 0, 3, 0)]), given_ / "2.parquet")
    join(log, given_, out, WINDOW, now=lambda: LATER)
    assert clicks(out, "1.parquet") == [0, 1]


def test_the_index_that_pandas_writes_is_no_label(places):
    log, given_, out = places
    pq.write_table(examples([("7", 0, 0), ("8", 0, 0)]), log / "1.parquet")
    labels([("8", 0, 3, 1), ("7", 0, 3, 0)]).to_pandas().to_csv(given_ / "1.csv")
    assert join(log, given_, out, WINDOW, now=lambda: LATER).positive == {"click": 1}


def test_times_without_a_zone_are_utc_and_finer_ones_are_cut(places):
    log, given_, out = places
    pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")
    table = labels([("a", 0, 3, 1)])
    plain = table[TIME].cast(pa.timestamp("ns")).combine_chunks()
    pq.write_table(table.set_column(2, TIME, pa.array(plain.to_numpy() + np.timedelta64(7, "ns"))), given_ / "1.parquet")
    join(log, given_, out, WINDOW, now=lambda: LATER)
    assert clicks(out, "1.parquet") == [1]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_it_is_what_the_definition_says(tmp_path_factory, data):
    """Each example must get the largest label of its id and row within a window of its time, else 0."""
    ids, seconds = st.sampled_from("abcd"), st.integers(0, 40)
    scored = data.draw(st.lists(st.tuples(ids, st.integers(0, 2), seconds), min_size=1, max_size=12, unique_by=lambda r: r[:2]))
    came = data.draw(st.lists(st.tuples(ids, st.integers(0, 2), seconds, st.sampled_from([0.0, 1.0])), max_size=12))
    folder = tmp_path_factory.mktemp("join")
    log, given_, out = folder / "log", folder / "labels", folder / "out"
    log.mkdir()
    given_.mkdir()
    for number, part in enumerate((scored[::2], scored[1::2])):
        pq.write_table(examples(part), log / f"{number}.parquet")
    for number, part in enumerate((came[::3], came[1::3], came[2::3])):
        pq.write_table(labels(part), given_ / f"{number}.parquet")
    join(log, given_, out, WINDOW, now=lambda: LATER)
    for number, part in enumerate((scored[::2], scored[1::2])):
        expected = [max([c[3] for c in came if c[:2] == e[:2] and abs(c[2] - e[2]) <= 10], default=0.0) for e in part]
        assert not part or clicks(out, f"{number}.parquet") == expected


def test_odd_files_are_refused_in_a_sentence_and_nothing_is_lost(places):
    log, given_, out = places
    pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")

    def refused(sentence):
        with pytest.raises((BadData, CtrlabError), match=sentence):
            join(log, given_, out, WINDOW, now=lambda: LATER)
        assert not out.exists() or not list(out.iterdir())

    right = labels([("a", 0, 3, 1)])
    pq.write_table(right, given_ / "1.parquet")
    whole = (given_ / "1.parquet").read_bytes()
    (given_ / "1.parquet").write_bytes(whole[:-20])
    refused("no whole file of its format")
    pq.write_table(right.drop_columns([ROW]), given_ / "1.parquet")
    refused("lacks _row")
    pq.write_table(right.drop_columns(["click"]), given_ / "1.parquet")
    refused("have a column each")
    pq.write_table(right.set_column(3, "click", pa.array([float("nan")])), given_ / "1.parquet")
    refused("A label is 0 or 1")
    pq.write_table(right.set_column(3, "click", pa.array([-1.0])), given_ / "1.parquet")
    refused("A label is 0 or 1")
    pq.write_table(right.set_column(3, "click", pa.array([None], pa.float32())), given_ / "1.parquet")
    refused("column click of .* lacks 1")
    pq.write_table(right.rename_columns([REQUEST, ROW, TIME, "item"]), given_ / "1.parquet")
    refused("called item, too")
    pq.write_table(right, given_ / "1.parquet")
    pq.write_table(right.rename_columns([REQUEST, ROW, TIME, "buy"]), given_ / "2.parquet")
    refused("have the same labels")
    (given_ / "2.parquet").rename(given_ / ".2.parquet")  # as one that is being written
    (log / "2.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadData, match=r"2\.parquet is no whole file"):
        join(log, given_, out, WINDOW, now=lambda: LATER)
    assert clicks(out, "1.parquet") == [1]  # the whole one was joined before


def test_the_command(places):
    log, given_, out = places
    pq.write_table(examples([("a", 0, 0), ("b", 0, 0), ("a", 0, 1)]), log / "1.parquet")
    pq.write_table(labels([("a", 0, 3, 1)]), given_ / "1.parquet")
    found = CliRunner().invoke(app, ["data", "join", str(log), str(given_), "--out", str(out), "--window", "10s"])
    assert found.exit_code == 0 and "2 examples of 1 files; labels for 1 (1 click); 1 that came twice are" in found.output
    found = CliRunner().invoke(app, ["data", "join", str(log), "nowhere", "--out", str(out)])
    assert found.exit_code == 1 and "nowhere is none" in found.output
