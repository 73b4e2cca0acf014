"""Following a folder: each row once and in order, whatever happens between two looks."""

import functools
import json
import logging
import operator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlab.data.follow import LEDGER, Followed
from ctrlab.errors import BadData, CtrlabError
from ctrlab.schema import Label, Numeric, Schema

SCHEMA = Schema("numbers", (Numeric("x"), Label("click")))


def put(folder, name, numbers):
    table = pa.table({"x": np.asarray(numbers, np.float32), "click": np.zeros(len(numbers), np.float32), "_row": numbers})
    pq.write_table(table, folder / f".{name}")
    (folder / f".{name}").rename(folder / name)


def taken(followed, batch_size, steps=None):
    """The numbers of the batches that are there, at most `steps` of them, all used."""
    followed.look()
    batches, found = followed.batches(batch_size), []
    for features, _ in (batches if steps is None else batches.take(steps)) if batches is not None else ():
        found.append(features["x"].numpy().astype(int).tolist())
        followed.used += batch_size
    return found


def test_each_row_comes_once_in_the_order_of_the_files(tmp_path):
    followed = Followed(tmp_path, SCHEMA)
    assert taken(followed, 4) == []
    put(tmp_path, "b.parquet", [0, 1, 2])
    put(tmp_path, "c.parquet", [3, 4, 5])
    assert taken(followed, 4) == [[0, 1, 2, 3]]
    put(tmp_path, "a.parquet", [6])  # it came later, so it is later
    put(tmp_path, "d.parquet", [])
    put(tmp_path, "e.parquet", range(7, 15))
    assert taken(followed, 4) == [[4, 5, 6, 7], [8, 9, 10, 11]]
    assert (followed.used, followed.known) == (12, 15)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_each_row_comes_once_across_restarts(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("followed")
    ledger, batch_size, used, rows, found = folder / LEDGER, data.draw(st.integers(1, 5)), 0, 0, []
    for number in range(data.draw(st.integers(1, 6))):
        size = data.draw(st.integers(0, 9))
        put(folder, f"{number}.parquet", range(rows, rows + size))
        rows += size
        if data.draw(st.booleans()):
            continue
        followed = Followed(folder, SCHEMA, ledger, used)
        batches = taken(followed, batch_size, data.draw(st.integers(0, 3)))
        found += batches
        # A trainer that is killed has a checkpoint that is older than its last step.
        lost = data.draw(st.integers(0, len(batches)))
        del found[len(found) - lost :]
        used = len(found) * batch_size
        for name in data.draw(st.sets(st.sampled_from([p.name for p in folder.glob("*.parquet")]))):
            table = pq.read_table(folder / name)
            if not len(table) or table["_row"][-1].as_py() < used:
                (folder / name).unlink()  # all of its rows were used
    found += taken(Followed(folder, SCHEMA, ledger, used), batch_size)
    assert functools.reduce(operator.iadd, found, []) == list(range(rows // batch_size * batch_size))


def without_time(ledger):
    """The lines of a ledger without the time that is noted only of files that are a second old."""
    return [json.loads(line) | {"ctime_ns": None} for line in ledger.splitlines()]


def test_a_line_that_was_cut_off_is_taken_again(tmp_path):
    ledger = tmp_path / LEDGER
    put(tmp_path, "a.parquet", [0, 1])
    assert taken(Followed(tmp_path, SCHEMA, ledger), 2) == [[0, 1]]
    one = ledger.read_bytes()
    put(tmp_path, "b.parquet", [2, 3])
    assert taken(Followed(tmp_path, SCHEMA, ledger, 2), 2) == [[2, 3]]
    both = ledger.read_bytes()
    for size in range(len(one), len(both)):
        ledger.write_bytes(both[:size])
        assert taken(Followed(tmp_path, SCHEMA, ledger, 2), 2) == [[2, 3]]
        assert without_time(ledger.read_bytes()) == without_time(both)
    entries = [json.loads(line) for line in both.splitlines()]
    assert [(entry["file"], entry["rows"]) for entry in entries] == [("a.parquet", 2), ("b.parquet", 2)]


def test_odd_files_are_said_once_and_left_out_until_they_change(tmp_path, caplog):
    followed = Followed(tmp_path, SCHEMA)
    put(tmp_path, "b.parquet", [0, 1])
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"x": [1.0], "click": pa.array([None], pa.float32())}), tmp_path / "d.parquet")
    (tmp_path / "e.parquet").mkdir()
    (tmp_path / ".f.parquet").write_bytes(b"half")
    (tmp_path / "g.csv").write_text("x,click\n")
    with caplog.at_level(logging.WARNING):
        assert taken(followed, 1) == [[0], [1]]
        followed.look()
    assert [record.message.count("left out until it changes") for record in caplog.records] == [1] * 4
    assert "'click'" in caplog.text
    put(tmp_path, "a.parquet", [2])
    assert taken(followed, 1) == [[2]]


def test_a_ledger_that_does_not_fit_is_refused(tmp_path):
    ledger = tmp_path / LEDGER
    with pytest.raises(CtrlabError, match="is none"):
        Followed(tmp_path / "nowhere", SCHEMA)
    with pytest.raises(CtrlabError, match=r"after 5 rows; the ledger .* has 0"):
        Followed(tmp_path, SCHEMA, ledger, 5)
    put(tmp_path, "a.parquet", [0, 1, 2])
    put(tmp_path, "b.parquet", [3, 4, 5])
    taken(Followed(tmp_path, SCHEMA, ledger), 4)
    (tmp_path / "a.parquet").unlink()
    assert taken(Followed(tmp_path, SCHEMA, ledger, 4), 2) == [[4, 5]]
    put(tmp_path, "b.parquet", [3, 4])
    with pytest.raises(CtrlabError, match=r"b\.parquet, 3 rows .*put it back"):
        Followed(tmp_path, SCHEMA, ledger, 4)
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(CtrlabError, match="is missing: put it back"):
        Followed(tmp_path, SCHEMA, ledger, 4)
    for odd in ("[]\n", "{}\n", '{"file": "a", "rows": "many"}\n', "\n"):
        ledger.write_text(odd)
        with pytest.raises(BadData, match="A ledger has lines such as"):
            Followed(tmp_path, SCHEMA, ledger)
