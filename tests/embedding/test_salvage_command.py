"""`ctrlab embedding salvage`: the rows of a damaged storage in Parquet, and a sentence on each thing that is lost."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from typer.testing import CliRunner

from ctrlab import cli
from ctrlab.embedding import EmbeddingVariable, Options, Storage
from ctrlab.embedding.store import Store
from ctrlab.embedding.store.segments import FOOTER, HEADER, MANIFEST, _crc
from ctrlab.training import TouchedRows

DIM, ROWS = 3, 40_000
RECORD = 24 + 4 * DIM * 2 + 8


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """The storage of a variable as a process that was killed leaves it, and what the variable held: key -> numbers, counts."""
    folder = tmp_path_factory.mktemp("rows")
    variable = EmbeddingVariable("items", DIM, Options(storage=Storage(str(folder), 1_000)))
    optimizer = TouchedRows("adagrad", 0.1)
    optimizer.build([variable.proxy])
    for start in range(0, ROWS, 500):
        keys = np.repeat(np.arange(start, start + 500), 1 + np.arange(500) % 2)  # odd keys come twice
        slices = tf.IndexedSlices(tf.random.normal([len(keys), DIM]), tf.constant(keys), tf.constant([0, DIM], tf.int64))
        optimizer.apply([slices], [variable.proxy])
    killed = tmp_path_factory.mktemp("killed") / "items"
    shutil.copytree(folder / "items" / "1", killed)
    state = variable.state()
    numbers = np.concatenate([state.values, *state.slots.values()], 1)
    return killed, {k: (n.tolist(), f, s) for k, n, f, s in zip(state.keys.tolist(), numbers, state.frequencies, state.steps)}


@pytest.fixture
def damaged(storage, tmp_path):
    shutil.copytree(storage[0], tmp_path / "items")
    return tmp_path / "items", storage[1]


def salvage(folder, out):
    return CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, ["embedding", "salvage", str(folder), "--out", str(out)])


def read(out, held):
    """The keys of a file, all of whose rows are as the variable held them."""
    table = pq.read_table(out)
    assert table.schema.names == ["key", "numbers", "frequency", "last_step"]
    for row in table.to_pylist():
        assert (row["numbers"], row["frequency"], row["last_step"]) == held[row["key"]]
    return set(table["key"].to_pylist())


def test_of_a_whole_storage_everything(storage, tmp_path):
    folder, held = storage
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = salvage(folder, tmp_path / "rows.parquet")
    assert found.exit_code == 0, found.output
    keys = read(tmp_path / "rows.parquet", held)
    assert len(keys) > 10_000 and f"rows.parquet: {len(keys):,} rows. Nothing was damaged." in found.stdout
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_of_a_damaged_one_all_but_what_is_damaged(damaged, tmp_path):
    folder, held = damaged
    salvage(folder, tmp_path / "whole.parquet")
    path = min(folder.glob("*.seg"))
    content = bytearray(path.read_bytes())
    lost = [np.frombuffer(content, "<i8", 1, HEADER.itemsize + RECORD * r + 16)[0] for r in (3, 7)]
    for record in (3, 7):
        content[HEADER.itemsize + RECORD * record + 30] ^= 1
    path.write_bytes(content)
    found = salvage(folder, tmp_path / "rows.parquet")
    assert found.exit_code == 0, found.output
    assert read(tmp_path / "whole.parquet", held) - read(tmp_path / "rows.parquet", held) == set(lost)
    damage = (
        f"Damaged: A record must be as it was written; that in {path} at byte {HEADER.itemsize + RECORD * 3} is not. What 2 of "
    )
    assert (
        damage in found.stdout
        and "held is lost." in found.stdout
        and "Rows may be older than those that are lost" in found.stdout
    )


def test_of_a_file_without_a_header_and_a_missing_one(tmp_path):
    folder, size = tmp_path / "items", RECORD - 24
    with Store(folder, size, np.uint8, segment_bytes=600, compaction="sync") as store:
        store.put(np.arange(30), np.zeros((30, size), np.uint8))
    first, second = sorted(folder.glob("*.seg"))[:2]
    content = bytearray(first.read_bytes())
    content[3] ^= 1
    first.write_bytes(content)
    second.unlink()
    found = salvage(folder, tmp_path / "rows.parquet")
    assert found.exit_code == 0, found.output
    assert f"{second} is missing." in found.stdout
    assert f"{first} has none at byte 0, or a damaged one. All that it held is lost." in found.stdout
    assert 0 < len(read(tmp_path / "rows.parquet", dict.fromkeys(range(30), ([0] * 2 * DIM, 0, 0)))) < 30


def rewritten(path, dtype, offset, **changes):
    """A file's header, footer or manifest with other numbers; the checksum is right."""
    content = bytearray(path.read_bytes())
    found = np.frombuffer(content, dtype, 1, offset % len(content))
    for name, value in changes.items():
        found[name] = value
    of = content[16:] if dtype is MANIFEST else found.tobytes()[:-4]
    found["crc"] = _crc(bytes(of))
    path.write_bytes(content)


def longer(path):
    path.write_bytes(path.read_bytes() + b"abc")
    rewritten(path, MANIFEST, 0)


def for_the_manifest(folder):
    (folder / "MANIFEST").unlink()
    (folder / "MANIFEST").mkdir()


ODD = {
    "a folder": (lambda folder: (folder / "0000000099.seg").mkdir(), "0000000099.seg can't be read"),
    "a link to nothing": (lambda folder: (folder / "0000000099.seg").symlink_to("/nothing"), "0000000099.seg can't be read"),
    "a pipe": (lambda folder: os.mkfifo(folder / "0000000099.seg"), "0000000099.seg can't be read"),
    "notes": (lambda folder: (folder / "notes.seg").write_text("notes" * 20), "notes.seg has none at byte 0"),
    "a copy": (lambda folder: shutil.copy(min(folder.glob("*.seg")), folder / "copy (1).seg"), "Nothing was damaged"),
    "a folder for the manifest": (for_the_manifest, "MANIFEST can't be read"),
    "a longer manifest": (lambda folder: longer(folder / "MANIFEST"), "MANIFEST is not"),
    "too many records": (lambda folder: rewritten(min(folder.glob("*.seg")), FOOTER, -32, records=2**62), "Nothing was damaged"),
    "rows of 2^40 bytes": (
        lambda folder: rewritten(min(folder.glob("*.seg")), HEADER, 0, row_bytes=2**40),
        "0000000001.seg says 1,099,511,627,776. All that it held is lost",
    ),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make, says", ODD.values(), ids=ODD)
def test_one_odd_file_costs_no_other(tmp_path, make, says):
    folder, size = tmp_path / "items", RECORD - 24
    with Store(folder, size, np.uint8, segment_bytes=600, compaction="sync") as store:
        store.put(np.arange(30), np.zeros((30, size), np.uint8))
    make(folder)
    found = salvage(folder, tmp_path / "rows.parquet")
    assert found.exit_code == 0 and says in found.stdout, found.output
    keys = read(tmp_path / "rows.parquet", dict.fromkeys(range(30), ([0] * 2 * DIM, 0, 0)))
    assert keys == set(range(30)) or ("held is lost" in says and 0 < len(keys) < 30)


def test_of_a_storage_whose_rows_were_all_removed(tmp_path):
    with Store(tmp_path / "items", RECORD - 24, np.uint8) as store:
        store.put([1, 2], np.zeros((2, RECORD - 24), np.uint8))
        store.erase([1, 2])
    found = salvage(tmp_path / "items", tmp_path / "rows.parquet")
    assert found.exit_code == 0 and read(tmp_path / "rows.parquet", {}) == set(), found.output


@pytest.mark.parametrize(
    ("makes", "out", "says"),
    [
        (lambda folder: None, "rows.parquet", r"items has none"),
        (lambda folder: folder.mkdir(), "rows.parquet", r"items has none"),
        (lambda folder: rows_of_6_bytes(folder), "rows.parquet", r"numbers of 4 bytes and 8 of counts"),
        (lambda folder: None, "no/rows.parquet", r"existing folder"),
        (lambda folder: rows_of_6_bytes(folder), "items/0000000001.seg", r"stays as it is; items/0000000001.seg would be in it"),
        (lambda folder: inside(folder), "items/sub/deep/rows", r"stays as it is; items/sub/deep/rows would be in it"),
        (lambda folder: rows_of_6_bytes(folder), "items/MANIFEST", r"stays as it is; items/MANIFEST would be in it"),
    ],
)
def test_what_can_t_be_salvaged_is_one_sentence(tmp_path, monkeypatch, makes, out, says):
    monkeypatch.chdir(tmp_path)
    makes(tmp_path / "items")
    found = salvage("items", out)
    assert found.exit_code == 1 and len(found.stderr.splitlines()) == 1 and says in found.stderr, found.output
    assert not list(tmp_path.glob("*.parquet"))


def inside(folder):
    rows_of_6_bytes(folder)
    (folder / "sub" / "deep").mkdir(parents=True)


def rows_of_6_bytes(folder):
    with Store(folder, 8, np.uint8) as store:
        store.put([1], np.zeros((1, 8), np.uint8))


def test_it_needs_no_tensorflow(storage, tmp_path):
    code = """
import sys
from ctrlab import cli
try:
    cli.app(["embedding", "salvage", *sys.argv[1:]])
except SystemExit as end:
    assert not end.code, end.code
sys.exit("TensorFlow was imported" if "tensorflow" in sys.modules else 0)
"""
    arguments = [storage[0], "--out", tmp_path / "rows.parquet"]
    found = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
