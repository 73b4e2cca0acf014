"""Odd times, labels and columns are refused in a sentence; a join that looks again and again outlives what is wrong."""

import errno
import logging
import os
import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctrlab.data import join as joining
from ctrlab.data.join import follow, join
from ctrlab.data.labels import BATCH_ROWS, REQUEST, ROW, TIME, read_labels
from ctrlab.errors import BadData, CtrlabError
from tests.data.test_join import LATER, WINDOW, at, clicks, examples, labels


@pytest.fixture
def places(tmp_path):
    for name in ("log", "labels"):
        (tmp_path / name).mkdir()
    return tmp_path / "log", tmp_path / "labels", tmp_path / "out"


def replaced(table, name, values):
    return table.set_column(table.column_names.index(name), name, values)


def refused(places, sentence):
    with pytest.raises(BadData, match=sentence):
        join(*places, WINDOW, now=lambda: LATER)


SECONDS = int(at(3).timestamp())


@pytest.mark.parametrize("row, click, name", [("0", "0x1", "click"), ("0x0", "1", "_row")])
def test_hexadecimal_numbers_in_text_are_refused(places, row, click, name):
    log, given, _ = places
    pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")
    (given / "1.csv").write_text(f"_request,_row,_time,click\na,{row},2025-11-24T10:00:03Z,{click}\n")
    refused(places, f"1.csv can't be read as a table: numbers are decimal; column '{name}' has '0x.' in row 0")


@pytest.mark.parametrize("time", [SECONDS, SECONDS * 1_000, SECONDS * 1_000_000, f"{SECONDS}.5", "2025-11-24", "10:00:03", " "])
def test_a_number_or_a_date_alone_is_no_time(places, time):
    log, given, _ = places
    pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")
    (given / "1.csv").write_text(f"_request,_row,_time,click\na,0,2025-11-24T10:00:03Z,1\nb,0,{time},1\n")
    refused(places, f"text with a date and a time such as .*1.csv is '{time}' in row 1, counted from 0")


@pytest.mark.parametrize("type", [pa.int64(), pa.float64(), pa.date64(), pa.time64("us"), pa.duration("s"), pa.bool_()])
def test_types_that_are_no_times_are_refused(places, type):
    log, given, _ = places
    pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")
    pq.write_table(replaced(labels([("a", 0, 3, 1)]), TIME, pa.array([0]).cast(type)), given / "1.parquet")
    refused(places, "A _time is a timestamp, or text")


@pytest.mark.parametrize(
    "time",
    [
        "2025-11-24T10:00:03Z",
        "2025-11-24 10:00:03",
        "2025-11-24T11:00:03.25+01:00",
        "2025-11-24T10:00",
        "2025-11-24T10:00:03.123456789",
    ],
)
def test_times_as_text(places, time):
    log, given, out = places
    pq.write_table(examples([("a", 0, 0), ("b", 0, 0)]), log / "1.parquet")
    (given / "1.csv").write_text(f"_request,_row,_time,click\nb,0,2025-11-24T10:00:04Z,1\na,0,{time},1\n")
    pq.write_table(replaced(labels([("a", 0, 3, 0)]), TIME, pa.array([time])), given / "2.parquet")
    join(*places, WINDOW, now=lambda: LATER)
    assert clicks(out, "1.parquet") == [1, 1]


@pytest.mark.parametrize("micros", [2**62, -(2**62), -(10**7)])
@pytest.mark.parametrize("unit", ["us", "ms"])
def test_a_time_is_of_these_years(places, micros, unit):
    log, given, _ = places
    odd = pa.array([micros], pa.int64()).cast(pa.timestamp(unit, "UTC"))
    pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")
    pq.write_table(replaced(labels([("a", 0, 3, 1)]), TIME, odd), given / "1.parquet")
    refused(places, "A _time is of the years 1970 to 2200; that of .*labels/1.parquet is not in row 0, counted from 0")
    pq.write_table(labels([("a", 0, 3, 1)]), given / "1.parquet")
    pq.write_table(replaced(examples([("a", 0, 0)]), TIME, odd), log / "1.parquet")
    refused(places, "A _time is of the years 1970 to 2200; that of .*log/1.parquet is not in row 0, counted from 0")


@pytest.mark.parametrize("value", [5.0, -1.0, 0.5, float("nan"), float("inf")])
def test_labels_are_0_or_1(places, value):
    log, given, _ = places
    pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")
    rows = [("a", 0, 3, 1)] * BATCH_ROWS
    pq.write_table(labels([*rows, ("a", 0, 3, value)]), given / "1.parquet")
    refused(places, f"A label is 0 or 1; column 'click' of .*1.parquet has {value} in row {BATCH_ROWS}")


@pytest.mark.parametrize("name", ["at", "scored", "came", "0", "_label"])
def test_a_label_may_have_any_name_that_the_log_has_not(places, name):
    log, given, out = places
    pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")
    pq.write_table(labels([("a", 0, 3, 1)]).rename_columns([REQUEST, ROW, TIME, name]), given / "1.parquet")
    join(*places, WINDOW, now=lambda: LATER)
    assert pq.read_table(out / "1.parquet")[name].to_pylist() == [1]


@pytest.mark.parametrize("name", ["click", "_time"])
def test_a_column_that_is_there_twice_is_refused(places, name):
    log, given, _ = places
    pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")
    table = labels([("a", 0, 3, 1)])
    pq.write_table(pa.Table.from_arrays([*table.columns, table[name]], names=[*table.column_names, name]), given / "1.parquet")
    refused(places, f"1.parquet has {name} more than once")
    (given / "1.parquet").unlink()
    (given / "1.csv").write_text(f"_request,_row,_time,click,{name}\na,0,2025-11-24T10:00:03Z,1,1\n")
    refused(places, f"1.csv has {name} more than once")


@pytest.mark.parametrize(
    ("name", "values", "sentence"),
    [
        (TIME, pa.array([None], pa.timestamp("us", "UTC")), "column _time of .* lacks 1"),
        (TIME, pa.array(["x"]), "A _time is a timestamp"),
        (REQUEST, pa.array([None], pa.string()), "column _request of .* lacks 1"),
        (REQUEST, pa.array([["a"]]), "Column _request of .* must be string"),
        (ROW, pa.array(["x"]), "Column _row of .* must be int32"),
        (ROW, pa.array([None], pa.int32()), "column _row of .* lacks 1"),
    ],
)
def test_odd_columns_of_the_log_are_refused(places, name, values, sentence):
    log, given, _ = places
    pq.write_table(labels([("a", 0, 3, 1)]), given / "1.parquet")
    pq.write_table(replaced(examples([("a", 0, 0)]), name, values), log / "1.parquet")
    refused(places, sentence)


@pytest.mark.parametrize("ids", [pa.array(["7"], pa.large_string()), pa.array([7]), pa.array(["7"]).dictionary_encode()])
def test_ids_may_be_of_any_type_that_is_text(places, ids):
    log, given, out = places
    pq.write_table(replaced(labels([("7", 0, 3, 1)]), REQUEST, ids), given / "1.parquet")
    pq.write_table(replaced(examples([("7", 0, 0)]), REQUEST, ids), log / "1.parquet")
    join(*places, WINDOW, now=lambda: LATER)
    assert clicks(out, "1.parquet") == [1]


def test_windows_are_no_longer_than_a_life(places):
    with pytest.raises(CtrlabError, match="take 0 s to 36500 days"):
        join(*places, timedelta(days=10**6), now=lambda: LATER)


def test_of_a_long_file_only_the_rows_of_a_time_are_kept(places):
    _, given, _ = places
    pq.write_table(labels([("a", 0, 3, 1)] * (BATCH_ROWS + 1)), given / "1.parquet")
    assert [len(part) for part in read_labels(given / "1.parquet")][-2:] == [BATCH_ROWS, 1]


def nothing():
    """Happens before a look."""


def looks(places, monkeypatch, *happens):
    """The files of each look that joins; what happens before each of them is called."""
    happens = iter(happens)
    monkeypatch.setattr(joining.time, "sleep", lambda seconds: next(happens)())
    next(happens)()
    for found in follow(*places, WINDOW, every=1, now=lambda: LATER):
        yield found.files


def test_a_join_without_end_outlives_what_is_not_there_yet(places, monkeypatch, caplog):
    log, given, out = places
    pq.write_table(labels([("a", 0, 3, 1)]), given / "1.parquet")
    log.rmdir()

    def comes():
        log.mkdir()
        pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")

    files = looks(places, monkeypatch, nothing, nothing, comes, lambda: shutil.rmtree(given), nothing, given.mkdir)
    with caplog.at_level(logging.WARNING):
        assert next(files) == 1 and clicks(out, "1.parquet") == [1]
        assert [record.message.count("log is none") for record in caplog.records] == [1]
        assert next(files) == 0
    assert [record.message.count("labels is none") for record in caplog.records] == [0, 1]


def test_a_join_without_end_passes_over_a_damaged_file(places, monkeypatch, caplog):
    log, given, _ = places
    pq.write_table(labels([("a", 0, 3, 1)]), given / "1.parquet")
    (log / "1.parquet").write_bytes(b"PAR1")
    pq.write_table(examples([("a", 0, 0)]), log / "2.parquet")

    def mended():
        pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")

    with caplog.at_level(logging.WARNING):
        files = looks(places, monkeypatch, nothing, nothing, mended)
        assert [next(files) for _ in range(3)] == [1, 0, 1]
    assert [record.message.count("1.parquet is no whole file") for record in caplog.records] == [1]


def test_a_join_without_end_outlives_a_full_disk(places, monkeypatch, caplog):
    log, given, out = places
    pq.write_table(labels([("a", 0, 3, 1)]), given / "1.parquet")
    pq.write_table(examples([("a", 0, 0)]), log / "1.parquet")
    write, full = pq.write_table, [1, 1]

    def writes(table, file, **options):
        if full:
            full.pop()
            raise OSError(errno.ENOSPC, "No space left on device")
        write(table, file, **options)

    monkeypatch.setattr(joining.pq, "write_table", writes)
    with caplog.at_level(logging.WARNING):
        assert next(looks(places, monkeypatch, nothing, nothing, nothing)) == 1
    assert [record.message.count("No space left on device; nothing was kept of it") for record in caplog.records] == [1]
    assert [path.name for path in out.iterdir()] == ["1.parquet"]


def test_what_a_killed_join_left_is_swept(places):
    _, _, out = places
    out.mkdir()
    gone = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    for number in (gone, os.getpid(), os.getppid()):
        (out / f".1.parquet.{number}.partial").write_bytes(b"half")
    (out / ".other.partial").write_bytes(b"")
    join(*places, WINDOW, now=lambda: LATER)
    assert {path.name for path in out.iterdir()} == {f".1.parquet.{os.getppid()}.partial", ".other.partial"}
