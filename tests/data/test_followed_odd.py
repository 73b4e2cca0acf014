"""Files of a followed folder that change, go, or can't be opened: no row is lost or doubled without a word."""

import errno
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ctrlab.data import follow
from ctrlab.data.follow import LEDGER, Followed
from ctrlab.errors import BadData, CtrlabError
from ctrlab.paths import identity
from tests.data.test_followed import SCHEMA, put, taken


@pytest.mark.parametrize("numbers", [range(10, 20), range(10, 13), range(10, 14)])
def test_a_file_that_was_replaced_is_refused_while_rows_of_it_are_not_used(tmp_path, numbers):
    followed = Followed(tmp_path, SCHEMA, tmp_path / LEDGER)
    put(tmp_path, "a.parquet", range(4))
    assert taken(followed, 2, 1) == [[0, 1]]
    put(tmp_path, "a.parquet", numbers)
    with pytest.raises(CtrlabError, match=r"a\.parquet, 4 rows .*replaced"):
        taken(followed, 2)
    with pytest.raises(CtrlabError, match="it was replaced: put it back"):
        Followed(tmp_path, SCHEMA, tmp_path / LEDGER, 2)


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("restarted", [True, False])
def test_another_file_of_the_same_size_and_time_is_seen(tmp_path, monkeypatch, settled, restarted):
    """Files that come within one tick of the clock, the second with the inode of the first, differ in nothing but their rows."""
    monkeypatch.setattr(follow, "settled", lambda about: settled)
    put(tmp_path, "a.parquet", range(20, 24))
    followed = Followed(tmp_path, SCHEMA, tmp_path / LEDGER)
    assert taken(followed, 2, 1) == [[20, 21]]
    before = (tmp_path / "a.parquet").stat()
    if settled:
        put(tmp_path, "a.parquet", range(10, 14))
        os.utime(tmp_path / "a.parquet", ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        put(tmp_path, "other", range(10, 14))
        (tmp_path / "a.parquet").write_bytes((tmp_path / "other").read_bytes())
        monkeypatch.setattr(follow, "identity", lambda about: identity(before))
    assert (tmp_path / "a.parquet").stat().st_size == before.st_size
    with pytest.raises(CtrlabError, match="it was replaced: put it back"):
        Followed(tmp_path, SCHEMA, tmp_path / LEDGER, 2) if restarted else taken(followed, 2)


def test_a_file_that_is_put_back_goes_on(tmp_path):
    put(tmp_path, "a.parquet", range(4))
    followed = Followed(tmp_path, SCHEMA, tmp_path / LEDGER)
    assert taken(followed, 2, 1) == [[0, 1]]
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(b"PAR1xx")
    for use in (lambda: Followed(tmp_path, SCHEMA, tmp_path / LEDGER, 2), lambda: taken(followed, 2)):
        with pytest.raises(CtrlabError, match="it was replaced: put it back"):
            use()
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(CtrlabError, match="it is missing: put it back"):
        taken(followed, 2)
    (tmp_path / "a.parquet").write_bytes(whole)
    os.utime(tmp_path / "a.parquet", ns=(1, 1))  # its time is that of the copy
    assert taken(followed, 2) == taken(Followed(tmp_path, SCHEMA, tmp_path / LEDGER, 2), 2) == [[2, 3]]


def test_new_rows_under_a_used_name_are_said_once(tmp_path, caplog):
    followed = Followed(tmp_path, SCHEMA, tmp_path / LEDGER)
    put(tmp_path, "a.parquet", [0, 1])
    assert taken(followed, 2) == [[0, 1]]
    put(tmp_path, "a.parquet", [5, 6, 7, 8])
    put(tmp_path, "b.parquet", [2, 3])
    assert taken(followed, 2) == [[2, 3]] and taken(followed, 2) == []
    assert [record.message.count("give new rows a new name") for record in caplog.records] == [1]
    caplog.clear()
    assert taken(Followed(tmp_path, SCHEMA, tmp_path / LEDGER, 4), 2) == []
    assert "a.parquet is left out until it changes: it was replaced" in caplog.text and "b.parquet" not in caplog.text


def test_a_link_to_nothing_is_said_once_until_there_is_something(tmp_path, caplog):
    (tmp_path / "a.parquet").symlink_to(tmp_path / "target")
    put(tmp_path, "b.parquet", [0, 1])
    followed = Followed(tmp_path, SCHEMA)
    assert taken(followed, 2) == [[0, 1]] and taken(followed, 2) == []
    assert [record.message.count("No such file") for record in caplog.records] == [1]
    put(tmp_path, "target", [2, 3])
    assert taken(followed, 2) == [[2, 3]]


@pytest.mark.parametrize("problem", [OSError(errno.EMFILE, "Too many open files"), MemoryError()])
def test_an_error_that_says_nothing_of_the_file_passes(tmp_path, monkeypatch, caplog, problem):
    def fails(*arguments, **options):
        raise problem

    put(tmp_path, "a.parquet", [0, 1])
    followed = Followed(tmp_path, SCHEMA)
    with monkeypatch.context() as patch:
        patch.setattr(follow.pq, "ParquetFile", fails)
        assert taken(followed, 2) == taken(followed, 2) == []
    assert [record.message.count("is tried again") for record in caplog.records] == [1]
    assert taken(followed, 2) == [[0, 1]]


@pytest.mark.parametrize("value", [5, -1, 0.5, np.nan, np.inf])
def test_labels_are_0_or_1(tmp_path, caplog, value):
    table = pa.table({"x": np.zeros(3, np.float32), "click": np.asarray([0, 1, value], np.float32)})
    pq.write_table(table, tmp_path / "a.parquet")
    assert taken(Followed(tmp_path, SCHEMA), 1) == []
    said = "column 'click' must be 0 or 1 (for shares say Label('click', soft=True)); row 2, counted from 0, has"
    assert f"{tmp_path / 'a.parquet'}: {said} {float(value)}" in caplog.text


@pytest.mark.parametrize("rows", ["1e400", "-2", "2.5", '"2"'])
def test_odd_ledgers_are_refused(tmp_path, rows):
    put(tmp_path, "a.parquet", [0, 1])
    taken(Followed(tmp_path, SCHEMA, tmp_path / LEDGER), 2)
    [line] = (tmp_path / LEDGER).read_text().splitlines()
    (tmp_path / LEDGER).write_text(json.dumps(json.loads(line) | {"rows": 0}).replace('"rows": 0', f'"rows": {rows}') + "\n")
    with pytest.raises(BadData, match="A ledger has lines such as"):
        Followed(tmp_path, SCHEMA, tmp_path / LEDGER)
