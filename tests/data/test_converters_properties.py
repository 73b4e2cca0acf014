"""The parsers against random tables and random damage."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlab.data.convert import convert
from ctrlab.data.raw.delimited import delimited
from ctrlab.data.raw.layout import Raw
from ctrlab.data.raw.lines import LineFile
from ctrlab.data.sets import RAWS
from ctrlab.errors import CtrlabError
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema, Sequence

SCHEMA = Schema(
    "every_kind",
    (
        Label("label"),
        Numeric("number"),
        Categorical("word"),
        Categorical("place", buckets=50, encoding="identity"),
        MultiHot("tags"),
        NumericList("prices"),
        Sequence("history", of="word", table="word"),
        MultiHot("places", buckets=50, encoding="identity"),
    ),
)
word = st.text(st.characters(codec="utf-8", exclude_characters=",;\n\r"), min_size=1, max_size=4)
number = st.floats(width=32, allow_nan=False, allow_infinity=False)
place = st.integers(0, 49)
row = st.tuples(
    st.sampled_from([0.0, 1.0]),
    st.none() | number,
    st.none() | word,
    place,
    st.lists(word, max_size=3),
    st.lists(number, min_size=1, max_size=3),
    st.lists(word, max_size=3),
    st.lists(place, max_size=3),
)
rows = st.lists(row, min_size=1, max_size=12)
quick = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def raw_text(table) -> bytes:
    def field(value):
        return "" if value is None else ";".join(map(str, value)) if isinstance(value, list) else str(value)

    return "".join(",".join(map(field, row)) + "\n" for row in table).encode()


@pytest.fixture
def every_kind(monkeypatch):
    monkeypatch.setitem(RAWS, "every_kind", Raw(SCHEMA, (), delimited))


@quick
@given(table=rows)
def test_a_table_written_as_raw_text_comes_back(table, every_kind, tmp_path):
    source, out = tmp_path / "raw.csv", tmp_path / "out.parquet"
    source.write_bytes(raw_text(table))
    counts = convert("every_kind", source, out, progress=False)
    assert (counts.read, counts.written, counts.rejected) == (len(table), len(table), 0)
    assert [tuple(r.values()) for r in pq.read_table(out).to_pylist()] == table


damage = st.lists(
    st.tuples(st.sampled_from(["cut", "insert", "replace"]), st.integers(0), st.binary(min_size=1, max_size=3)), max_size=8
)


@quick
@given(table=rows, edits=damage)
def test_no_damage_crashes_and_the_counts_add_up(table, edits, every_kind, tmp_path):
    data = bytearray(raw_text(table))
    for kind, at, some in edits:
        at %= len(data) + 1
        data[at : at + (0 if kind == "insert" else len(some))] = b"" if kind == "cut" else some
    source, out = tmp_path / "raw.csv", tmp_path / "out.parquet"
    source.write_bytes(data)
    rejects = tmp_path / "out.parquet.rejects.tsv"
    for old in (out, rejects):
        old.unlink(missing_ok=True)
    try:
        counts = convert("every_kind", source, out, progress=False)
    except CtrlabError as error:
        assert "\n" not in str(error)
        assert not out.exists() and not rejects.exists()
        return
    lines = bytes(data).removeprefix(b"\xef\xbb\xbf").count(b"\n") + (not data.endswith(b"\n"))
    assert counts.read == lines == counts.written + counts.rejected
    assert pq.read_metadata(out).num_rows == counts.written
    assert sum(counts.reasons.values()) == counts.rejected
    if counts.rejected:
        assert rejects.read_bytes().count(b"\n") == counts.rejected


@quick
@given(
    lines=st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b"")), min_size=1, max_size=40),
    takes=st.lists(st.integers(1, 7), min_size=1),
    chunk=st.integers(1, 16),
    ended=st.booleans(),
)
def test_lines_are_taken_whole_in_order_and_numbered(lines, takes, chunk, ended, tmp_path, monkeypatch):
    monkeypatch.setattr("ctrlab.data.raw.lines.CHUNK", chunk)
    data = b"".join(line + b"\n" for line in lines)
    data = data if ended or not lines[-1] else data[:-1]
    if data[:2] in (b"\x1f\x8b", b"PK") or data.startswith(b"\xef\xbb\xbf"):
        return
    (tmp_path / "lines").write_bytes(data)
    got, turn = [], 0
    with LineFile(tmp_path / "lines") as file:
        while block := file.take(takes[turn % len(takes)]):
            assert block.first == len(got) + 1 and len(block) <= takes[turn % len(takes)]
            got += [block.line(i) for i in range(len(block))]
            turn += 1
    assert got == lines


def test_a_line_longer_than_a_block_is_no_text(tmp_path, monkeypatch):
    monkeypatch.setattr("ctrlab.data.raw.lines.MOST_BYTES", 1 << 20)
    (tmp_path / "endless").write_bytes(bytes(np.zeros(3 << 20, np.uint8)))
    with pytest.raises(CtrlabError, match="line 1, is longer than 1 MiB"), LineFile(tmp_path / "endless") as file:
        file.take(1)
