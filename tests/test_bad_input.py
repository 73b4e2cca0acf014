"""Every bad input is one clear sentence and an exit code that is not 0, and leaves nothing half-written behind."""

import contextlib
import errno
import gzip
import os
import re
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ctrlab import cli, data

CRITEO = "\t".join(["1", *["2"] * 13, *["68fd1e64"] * 26]) + "\n"
TRAIN = ["train", "deepfm", "--profile", "tiny", "--format"]
FULL_DISK = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass
class Place:
    """Where one case happens: a working folder, a cache of its own with the tiny sets in it, and the means to break things."""

    folder: Path
    cache: Path
    patch: pytest.MonkeyPatch

    def raw(self, content: bytes, name: str = "train.tsv") -> None:
        (self.folder / name).write_bytes(content)

    def cached(self, file: str, data_set: str = "food_delivery") -> Path:
        """A file of the cache, to be broken."""
        return self.cache / f"{data_set}-tiny" / file

    def edit(self, file: str, change, line: int = 3, data_set: str = "food_delivery") -> None:
        """Changes the fields of a cached CSV file from one line (from 1) to the end, so that its first batch has some of them."""
        path = self.cached(file, data_set)
        lines = path.read_bytes().splitlines()
        changed = [b",".join(change(text.split(b","))) for text in lines[line - 1 :]]
        path.write_bytes(b"\n".join(lines[: line - 1] + changed) + b"\n")

    def full(self, where: str) -> None:
        def fail(*args, **kwargs):
            raise FULL_DISK

        self.patch.setattr(where, fail)


def with_field(number: int, value: bytes):
    return lambda fields: [*fields[:number], value, *fields[number + 1 :]]


def field(data_set: str, name: str) -> int:
    return [c.name for c in data.schema(data_set).columns].index(name)


def cut(place: Place, file: str, keep: float) -> None:
    path = place.cached(file)
    path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])


def no_rows(place: Place) -> None:
    path = place.cached("parquet/train.parquet")
    pq.write_table(pq.read_table(path).slice(0, 0), path)


def library_of(place: Place, content: bytes) -> None:
    from ctrlab import _native

    library = place.folder / "_ctrlab.so"
    library.write_bytes(content)
    _native.library.cache_clear()
    place.patch.setattr(_native, "LIBRARY", library)


def taken_port(place: Place) -> None:
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    place.patch.setattr(cli, "_taken_for_a_test", taken, raising=False)  # keeps the socket open as long as the test
    place.patch.setenv("A_TAKEN_PORT", str(taken.getsockname()[1]))


CONVERT = ["data", "convert", "criteo", "train.tsv", "--out", "out.parquet"]
ALL = {
    # name: (how it is broken, the command, what the sentence must say)
    "missing raw file": (None, CONVERT, r"train\.tsv"),
    "missing measured file": (None, ["data", "statistics", "criteo", "no.parquet"], r"no\.parquet"),
    "no folder of real data": (None, ["train", "deepfm", "--data", "real"], "set CTRLAB_REAL_DATA"),
    "real data elsewhere": (
        lambda p: p.patch.setenv("CTRLAB_REAL_DATA", "/no/such/folder"),
        ["train", "deepfm", "--data", "real"],
        "CTRLAB_REAL_DATA must name a folder; /no/such/folder",
    ),
    "real data not there": (
        lambda p: p.patch.setenv("CTRLAB_REAL_DATA", str(p.folder)),
        ["train", "deepfm", "--data", "real"],
        r"criteo_kaggle/train\.tsv",
    ),
    "missing file of the cache": (lambda p: p.cached("csv/train.csv").unlink(), [*TRAIN, "csv"], r"train\.csv"),
    "truncated gzip": (
        lambda p: p.raw(gzip.compress(CRITEO.encode() * 9_000)[:-9], "train.tsv.gz"),
        ["data", "convert", "criteo", "train.tsv.gz", "--out", "out.parquet"],
        "truncated or damaged gzip",
    ),
    "truncated TFRecord": (lambda p: cut(p, "tfrecord/train.tfrecord", 0.5), [*TRAIN, "tfrecord"], "damaged or cut off"),
    "truncated Parquet": (lambda p: cut(p, "parquet/train.parquet", 0.5), [*TRAIN, "parquet"], r"train\.parquet"),
    "corrupt Parquet": (
        lambda p: p.cached("parquet/train.parquet").write_bytes(b"PAR1" + bytes(range(256)) * 99 + b"PAR1"),
        [*TRAIN, "parquet"],
        r"train\.parquet",
    ),
    "a field too few": (lambda p: p.edit("csv/train.csv", lambda f: f[:-1]), [*TRAIN, "csv"], r"line 3: .*39 fields.*found 38"),
    "a field too many": (lambda p: p.edit("csv/train.csv", lambda f: [*f, b"x"]), [*TRAIN, "csv"], "39 fields.*found 40"),
    "raw rows of another width": (lambda p: p.raw(b"1\t2\t3\n" * 99), CONVERT, "doesn't look like raw criteo data"),
    "a word for a number": (
        lambda p: p.edit("csv/train.csv", with_field(field("food_delivery", "avg_price"), b"cheap")),
        [*TRAIN, "csv"],
        "line 3: column 'avg_price' must be a number; received 'cheap'",
    ),
    "a word for a label": (lambda p: p.edit("csv/train.csv", with_field(0, b"yes")), [*TRAIN, "csv"], "'clicked'.*'yes'"),
    "not UTF-8": (
        lambda p: p.edit("csv/train.csv", with_field(field("food_delivery", "city_id"), b"\xff\xfe")),
        [*TRAIN, "csv"],
        "line 3: text must be UTF-8; byte 0xff",
    ),
    "an id out of range": (
        lambda p: p.edit("csv/train.csv", with_field(field("taobao", "price"), b"77"), data_set="taobao"),
        ["train", "mmoe", "--profile", "tiny", "--format", "csv"],
        r"'price'.*\[0, 50\)",
    ),
    "empty raw file": (lambda p: p.raw(b""), CONVERT, "is empty"),
    "empty CSV": (lambda p: p.cached("csv/train.csv").write_bytes(b""), [*TRAIN, "csv"], r"train\.csv is empty"),
    "Parquet without rows": (no_rows, [*TRAIN, "parquet"], r"train\.parquet"),
    "unknown model": (None, ["train", "deepfn"], "'deepfn'.*Did you mean 'deepfm'"),
    "unknown model in a race": (None, ["race", "--models", "wdl,dinn"], "'dinn'.*Did you mean 'din'"),
    "no model": (None, ["race", "--models", ","], "at least one model"),
    "unknown optimization": (None, ["train", "deepfm", "--optimizations", "indicater"], "'indicater'.*Did you mean 'indicator'"),
    "unknown optimization in a race": (None, ["race", "--optimizations", "none,indicater"], "Did you mean 'indicator'"),
    "unknown profile": (None, ["race", "--profile", "tinny"], "'tinny'.*Did you mean 'tiny'"),
    "unknown profile in the environment": (lambda p: p.patch.setenv("CTRLAB_PROFILE", "ful"), ["race"], "Did you mean 'full'"),
    "unknown data set": (None, ["data", "generate", "critio"], "'critio'.*Did you mean 'criteo'"),
    "unknown raw format": (None, ["data", "convert", "critio", "x", "--out", "y"], "'critio'.*Did you mean 'criteo'"),
    "unknown bench": (None, ["bench", "ops", "indicatr"], "Did you mean 'indicator'"),
    "rows without a file": (None, ["data", "generate", "criteo", "--rows", "10"], "--rows and --out together"),
    "file of no known format": (None, ["data", "generate", "criteo", "--rows", "10", "--out", "x.doc", "--format", "doc"], "doc"),
    "file of no known ending": (None, ["data", "generate", "criteo", "--rows", "10", "--out", "x.doc"], "which say its format"),
    "full disk while converting": (
        lambda p: (p.raw(CRITEO.encode() * 99), p.full("pyarrow.parquet.ParquetWriter.write_table")),
        CONVERT,
        "No space left.*Free some space",
    ),
    "full disk while generating": (
        lambda p: p.full("pyarrow.parquet.ParquetWriter.write_table"),
        ["data", "generate", "criteo", "--rows", "9", "--out", "out.parquet"],
        "No space left.*Free some space",
    ),
    "full disk while filling the cache": (
        lambda p: p.full("pyarrow.parquet.ParquetWriter.write_table"),
        ["data", "generate", "criteo", "--profile", "tiny"],
        "No space left.*Free some space",
    ),
    "model into no folder": (None, ["train", "deepfm", "--save", "nowhere/deepfm.keras"], "nowhere is not one"),
    "model as another file": (None, ["train", "deepfm", "--save", "deepfm.h5"], r"\.keras file.*deepfm\.h5"),
    "report into no folder": (None, ["race", "--html", "nowhere/race.html"], "nowhere is not one"),
    "measurements into no folder": (None, ["bench", "ops", "--json", "nowhere/ops.json"], "nowhere is not one"),
    "rows into no folder": (
        None,
        ["data", "generate", "criteo", "--rows", "10", "--out", "nowhere/rows.csv"],
        "nowhere is not one",
    ),
    "conversion into no folder": (
        lambda p: p.raw(CRITEO.encode() * 9),
        ["data", "convert", "criteo", "train.tsv", "--out", "nowhere/out.parquet"],
        "nowhere is not one",
    ),
    "race into no folder": (None, ["race", "--json", "nowhere/race.json"], "nowhere is not one"),
    "race into a place that can't be written": (
        lambda p: p.full("tempfile.TemporaryFile"),
        ["race", "--json", "race.json"],
        r"race\.json can't be written: No space left",
    ),
    "race into a folder": (lambda p: (p.folder / "race").mkdir(), ["race", "--json", "race"], "race"),
    "rubbish to resume": (
        lambda p: p.raw(b"{}", "race.json"),
        ["race", "--models", "deepfm", "--profile", "tiny", "--json", "race.json", "--resume"],
        r"race\.json has None",
    ),
    "library of another TensorFlow": (
        lambda p: library_of(p, b"\0ctrlab built for TensorFlow <1.15.5>\0"),
        [*TRAIN, "csv", "--optimizations", "indicator"],
        "built for TensorFlow 1.15.5.*pip install -e",
    ),
    "library that says nothing": (
        lambda p: library_of(p, b"\x7fELF"),
        [*TRAIN, "csv", "--optimizations", "indicator"],
        "no compiled library of ctrlab.*pip install -e",
    ),
    "admission without a variable": (None, ["train", "dlrm", "--admission", "2"], r"--admission.*add --embedding variable\.$"),
    "deltas without a variable": (
        None,
        ["train", "dlrm", "--embedding", "multihash", "--checkpoint", "run", "--full-every", "4"],
        r"--full-every.*add --embedding variable\.$",
    ),
    "storage without a size": (None, ["train", "dlrm", "--embedding", "variable", "--storage", "rows"], "go together.*give both"),
    "eviction without saves": (
        None,
        ["train", "dlrm", "--embedding", "variable", "--evict-after", "9"],
        "at each save; give a folder.*--checkpoint",
    ),
    "fewer rows than a batch": (
        None,
        [*TRAIN, "csv", "--batch-size", "5000"],
        r"at least one batch of 5,000 rows; food_delivery has 4,096 rows to train on: give a smaller --batch-size",
    ),
    "fewer rows than a batch, and validation": (
        None,
        [*TRAIN, "parquet", "--batch-size", "4000", "--validation", "10%", "--epochs", "9"],
        r"at least one batch of 4,000 rows; .* has 3,6\d\d rows to train on",
    ),
    "epochs without end": (None, ["train", "deepfm", "--epochs", "9" * 20], "1000000"),
    "rows without end": (None, ["data", "generate", "criteo", "--rows", "9" * 23, "--out", "x.csv"], "1000000000000"),
    "another optimizer": (
        None,
        ["train", "deepfm", "--optimizer", "sgd"],
        r"--optimizer sgd without --learning-rate, and the preset's [0-9.]+ is for \w+: give both",
    ),
    "unknown optimizer": (None, ["train", "deepfm", "--optimizer", "adagard"], "Did you mean 'adagrad'"),
    "nearly an embedding": (None, ["train", "dlrm", "--embedding", "varable"], r"(?s)Did\b.*you.*mean.*'variable'"),
    "nearly a size": (None, ["train", "dlrm", "--size", "smal"], r"(?s)Did\b.*you.*mean.*'small'"),
    "nearly a format": (None, ["train", "dlrm", "--format", "Parket"], r"(?s)Did\b.*you.*mean.*'parquet'"),
    "no optimizations": (None, ["train", "deepfm", "--optimizations", ""], "Unknown optimization ''; known are none, all"),
    "nothing between commas": (None, ["train", "deepfm", "--optimizations", "lookup,,parsing"], "Unknown optimization ''"),
    "one folder for a whole join": (
        lambda p: (p.folder / "d").mkdir(),
        ["data", "join", "d", "d", "--out", "../here/d"],
        r"three folders; received d, d and --out \.\./here/d: name another",
    ),
    "unknown embedding": (None, ["train", "dlrm", "--embedding", "dynamic"], "'dynamic' is not one of"),
    "storage in a file": (
        lambda p: p.raw(b"", "rows"),
        ["train", "dlrm", "--embedding", "variable", "--storage", "rows", "--memory-rows", "9"],
        r"(?s)rows.*is a file",
    ),
    "taken port": (taken_port, ["lab", "--no-browser", "--port", "$A_TAKEN_PORT"], r"Port \d+ is taken.*--port"),
    "no port": (None, ["lab", "--no-browser", "--port", "70000"], "from 1 to 65535; 70000"),
}


@pytest.fixture(scope="session")
def tiny_cache(tmp_path_factory) -> Path:
    """The tiny sets that the cases break, made once."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTRLAB_CACHE", str(cache))
        for name, format in (("food_delivery", "csv"), ("food_delivery", "tfrecord"), ("taobao", "csv")):
            data.prepare(name, profile="tiny", format=format, progress=False)
    return cache


@pytest.fixture
def place(tmp_path, tiny_cache, monkeypatch) -> Place:
    folder, cache = tmp_path / "here", tmp_path / "cache"
    folder.mkdir()
    shutil.copytree(tiny_cache, cache)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("CTRLAB_REAL_DATA", raising=False)
    monkeypatch.setenv("CTRLAB_CACHE", str(cache))
    monkeypatch.setenv("CTRLAB_WORK", str(tmp_path / "work"))
    return Place(folder, cache, monkeypatch)


def files_under(folder: Path) -> dict[str, int]:
    """Every file but locks, which are empty and stay, with its size."""
    return {str(p): p.stat().st_size for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"}


@pytest.mark.parametrize("case", ALL)
def test_bad_input_is_one_sentence(place, tmp_path, case):
    breaks, command, says = ALL[case]
    if breaks:
        breaks(place)
    before = files_under(tmp_path)
    found = CliRunner().invoke(cli.app, [os.path.expandvars(part) for part in command])
    with contextlib.suppress(ImportError):  # a library that a case has replaced must not be remembered
        from ctrlab import _native

        _native.library.cache_clear()
    assert found.exit_code not in (0, None)
    assert isinstance(found.exception, SystemExit), found.exception
    assert "Traceback" not in found.output
    if found.exit_code == 1:  # 2 is a wrong option, which the parser explains in a frame of its own
        assert len(found.stderr.splitlines()) == 1, found.stderr
    assert re.search(says, found.stderr), found.stderr
    assert files_under(tmp_path) == before, "something was left behind"
