"""A file of tensors gives back what was written, byte by byte, and whatever happened to it is told in one sentence."""

import errno
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from ctrlab.embedding.formats import tensor_file as tensors
from ctrlab.embedding.formats.crc import joined
from ctrlab.errors import BadData, CtrlabError

ARRAYS = {
    "table": np.arange(600, dtype=np.float32).reshape(200, 3),
    "step": np.array(7, np.int64),
    "seed": np.array([1, 2**32 - 1], np.uint32),
    "none": np.zeros((0, 5), np.float32),
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file.safetensors"
    tensors.write_tensors(path, ARRAYS, {"format": "test", "note": 'says "crc32":"00000000"'})
    return path


def test_what_was_written_comes_back(file):
    found, metadata = tensors.read_tensors(file)
    assert metadata["note"] == 'says "crc32":"00000000"'
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
        assert not found[name].flags.writeable


def test_the_file_is_a_safetensors_file(file):
    """Read by the format's description alone: github.com/huggingface/safetensors, "Format"."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0 and set(header.pop("__metadata__")) == {"format", "note", "crc32"}
    end = 0
    for entry in header.values():
        begin, last = entry["data_offsets"]
        assert begin == end and set(entry) == {"dtype", "shape", "data_offsets"}
        end = last
    assert 8 + length + end == len(content)
    begin, end = header["table"]["data_offsets"]
    assert header["table"]["dtype"] == "F32"
    np.testing.assert_array_equal(np.frombuffer(content[8 + length :][begin:end], "<f4").reshape(200, 3), ARRAYS["table"])


def test_the_safetensors_library_reads_it(file):
    for found in (safetensors.numpy.load_file(file), safetensors.numpy.load(file.read_bytes())):
        assert set(found) == set(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array, strict=True)
    with safetensors.safe_open(file, "numpy") as opened:
        assert opened.metadata() == tensors.read_metadata(file)


@settings(max_examples=50, deadline=None)
@given(
    array=arrays_of.arrays(st.sampled_from([np.dtype(c) for c in tensors.DTYPES.values()]), arrays_of.array_shapes(min_side=0))
)
def test_any_array(array, tmp_path_factory):
    path = tmp_path_factory.mktemp("any") / "file"
    tensors.write_tensors(path, {"a": array}, {})
    found = tensors.read_tensors(path)[0]["a"]
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_every_flipped_byte_is_seen(file):
    content = file.read_bytes()
    for place in [*range(0, 200, 3), *range(200, len(content), 97), len(content) - 1]:
        file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(BadData, match=r"file\.safetensors"):
            tensors.read_tensors(file)


def test_every_cut_is_seen(file):
    content = file.read_bytes()
    for length in [0, 1, 7, 8, 9, 100, len(content) // 2, len(content) - 1]:
        file.write_bytes(content[:length])
        with pytest.raises(BadData, match=r"file\.safetensors"):
            tensors.read_tensors(file)
    file.write_bytes(content + b"x")
    with pytest.raises(BadData, match="damaged"):
        tensors.read_tensors(file)


@settings(max_examples=200, deadline=None)
@given(content=st.binary(max_size=200))
def test_foreign_bytes(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("foreign") / "file"
    for foreign in (content, len(content).to_bytes(8, "little") + content):
        path.write_bytes(foreign)
        with pytest.raises(BadData):
            tensors.read_tensors(path)


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}},
        {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 7]}},
        {"a": {"dtype": "object", "shape": [1], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2]}},
        {"a": {"dtype": "F32", "shape": "2", "data_offsets": "08"}},
        {"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}},
        {"a": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}},
        {"a": 3},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "__metadata__": 3},
        [1],
    ],
    ids=str,
)
def test_foreign_headers(tmp_path, header):
    text = json.dumps(header).encode()
    path = tmp_path / "file"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(BadData, match=str(path)):
        tensors.read_tensors(path)


A = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
B = {"dtype": "I64", "shape": [1], "data_offsets": [8, 16]}
CRAFTED = {
    "overlapping": ({"a": A, "b": {**B, "data_offsets": [4, 12]}}, {}, "end to end, but one at 4 to 12"),
    "the same bytes": ({"a": A, "b": {**B, "data_offsets": [0, 8]}}, {}, "end to end, but one at 0 to 8"),
    "a gap": ({"a": {**A, "shape": [1], "data_offsets": [0, 4]}, "b": B}, {}, "end to end, but one at 8 to 16"),
    "bytes before": ({"b": B}, {}, "end to end, but one at 8 to 16"),
    "offsets of floats": ({"a": {**A, "data_offsets": [0.0, 8.0]}, "b": B}, {}, "lies at 0.0 to 8.0"),
    "offsets of booleans": ({"z": {**A, "shape": [0], "data_offsets": [False, False]}, "a": A, "b": B}, {}, "lies at False"),
    "100 axes": ({"a": {**A, "shape": [2] + [1] * 99}, "b": B}, {}, "at most 64 sizes"),
    "a size of 10^30": ({"z": {**A, "shape": [0, 10**30], "data_offsets": [0, 0]}, "a": A, "b": B}, {}, "below 2\\^63"),
    "a size of 2^62": ({"z": {**A, "shape": [0, 2**62], "data_offsets": [0, 0]}, "a": A, "b": B}, {}, "is said to be F32"),
    "a size of a boolean": ({"a": {**A, "shape": [2, True]}, "b": B}, {}, "at most 64 sizes"),
    "a shape of text": ({"a": {"dtype": "U8", "shape": "", "data_offsets": [0, 1]}}, {}, "at most 64 sizes"),
    "a type of others": ({"a": {**A, "dtype": "BF16", "shape": [4]}, "b": B}, {}, "has an array of 'BF16'; files of"),
    "a number": ({"a": A, "b": B}, {"step": 3}, "metadata must be texts, and step is not"),
    "a list": ({"a": A, "b": B}, {"step": ["3"]}, "metadata must be texts, and step is not"),
}


def craft(path, text, data=bytes(16)):
    """A file with this header, in which the checksum is `NO_CHECKSUM`; it gets the right one."""
    blank = len(text).to_bytes(8, "little") + text + data
    path.write_bytes(blank.replace(tensors.NO_CHECKSUM.encode(), f"{zlib.crc32(blank):08x}".encode(), 1))


def header(arrays, metadata=()):
    return json.dumps(
        {"__metadata__": {"crc32": tensors.NO_CHECKSUM, **dict(metadata)}, **arrays}, separators=(",", ":")
    ).encode()


@pytest.mark.parametrize("arrays, metadata, sentence", CRAFTED.values(), ids=CRAFTED)
def test_headers_that_lie_below_a_right_checksum(tmp_path, arrays, metadata, sentence):
    path = tmp_path / "file"
    craft(path, header({"a": A, "b": B}))
    assert tensors.read_tensors(path)[0]["b"] == 0
    craft(path, header(arrays, metadata))
    with pytest.raises(BadData, match=f"{path} .*{sentence}"):
        tensors.read_tensors(path)


@pytest.mark.parametrize("again", [json.dumps({"a": A})[1:], '"__metadata__":{}}', json.dumps({"b": {**A, "dtype": "I64"}})[1:]])
def test_a_name_that_comes_twice(tmp_path, again):
    craft(tmp_path / "file", header({"a": A, "b": B})[:-1] + b"," + again.encode())
    with pytest.raises(BadData, match="a name comes twice"):
        tensors.read_tensors(tmp_path / "file")


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "folder", "device"]
)
def test_what_is_no_regular_file(tmp_path, make):
    make(tmp_path / "file")
    with pytest.raises(BadData, match="no regular file"):
        tensors.read_tensors(tmp_path / "file")


def test_a_header_of_brackets(tmp_path):
    text = b'{"a":' + b"[" * 100_000
    path = tmp_path / "file"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(BadData, match=f"{path} is no file of tensors"):
        tensors.read_tensors(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadData, match="No such file"):
        tensors.read_tensors(tmp_path / "file")


@pytest.mark.parametrize("call", ["open", "pwrite", "fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file_and_nothing_else(file, call, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    before = file.read_bytes()
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="Input/output"):
        tensors.write_tensors(file, {"a": np.ones(3)}, {})
    monkeypatch.undo()
    assert file.read_bytes() == before and [p.name for p in file.parent.iterdir()] == [file.name]


def test_a_disk_that_takes_a_little_at_a_time(tmp_path, monkeypatch):
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, piece, place: write(file, piece[:100], place))
    tensors.write_tensors(tmp_path / "file", ARRAYS, {})
    np.testing.assert_array_equal(tensors.read_tensors(tmp_path / "file")[0]["table"], ARRAYS["table"])


def test_the_metadata_alone(file):
    assert tensors.read_metadata(file) == tensors.read_tensors(file)[1]
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(BadData, match="only the beginning"):
        tensors.read_metadata(file)


@settings(max_examples=50, deadline=None)
@given(cuts=st.lists(st.tuples(st.sampled_from(["table", "seed", "ids"]), st.integers(0, 80)), max_size=20))
def test_arrays_filled_side_by_side_are_those_written_whole(cuts, tmp_path_factory):
    """Byte by byte, checksum included; and each slice of an array is that slice."""
    folder, arrays = tmp_path_factory.mktemp("parts"), ARRAYS | {"ids": np.arange(100)}
    shapes = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    begun = dict.fromkeys(arrays, 0)
    tensors.write_tensors(folder / "whole", arrays, {"a": "b"})
    with tensors.writing(folder / "parts", shapes, {"a": "b"}) as put:
        for name, rows in cuts:
            put(name, arrays[name][begun[name] : begun[name] + rows])
            begun[name] += rows
        for name, array in arrays.items():
            put(name, array[begun[name] :] if begun[name] else array)
        assert not (folder / "parts").exists()
    assert (folder / "parts").read_bytes() == (folder / "whole").read_bytes()
    file = tensors.TensorFile(folder / "parts")
    for name, rows in cuts:
        np.testing.assert_array_equal(file[name][rows : 2 * rows], arrays[name][rows : 2 * rows], strict=True)
        for odd in (np.s_[0:10:2], np.s_[::-1], 3):
            with pytest.raises(TypeError, match=r"array\[a:b\]; received array\["):
                file[name][odd]
    assert (file["table"].shape, file["table"].dtype, file["table"].size, len(file["table"])) == ((200, 3), np.float32, 600, 200)


@given(a=st.binary(max_size=300), b=st.binary(max_size=300))
def test_a_checksum_of_two_pieces(a, b):
    assert joined(zlib.crc32(a), zlib.crc32(b), len(b)) == zlib.crc32(a + b)


@pytest.mark.parametrize(
    "parts, sentence",
    [
        ([np.zeros(3)], "said to have 32 bytes; received 24"),
        ([np.zeros(3), np.zeros(2)], r"said to be float64 \[4\]; received float64 \[2\] after 24 bytes"),
        ([np.zeros(4, np.float32)], r"said to be float64 \[4\]; received float32 \[4\]"),
    ],
)
def test_an_array_of_another_size_than_was_said(file, parts, sentence):
    before = file.read_bytes()
    with pytest.raises(CtrlabError, match=sentence), tensors.writing(file, {"a": (np.dtype("f8"), (4,))}, {}) as put:
        for part in parts:
            put("a", part)
    assert file.read_bytes() == before and [p.name for p in file.parent.iterdir()] == [file.name]


def test_what_fails_between_two_parts_leaves_the_old_file(file):
    before = file.read_bytes()
    with pytest.raises(ZeroDivisionError), tensors.writing(file, {"a": (np.dtype("f8"), (2,))}, {}) as put:
        put("a", np.ones(1))
        put("a", 1 / 0)
    assert file.read_bytes() == before and [p.name for p in file.parent.iterdir()] == [file.name]


IN_LITTLE_MEMORY = """
import resource, sys
import numpy as np
from pathlib import Path
from ctrlab.embedding.formats import tensor_file as tensors
path, size = Path(sys.argv[1]), 400 << 20
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (64 << 20),) * 2)
with tensors.writing(path, {"a": (np.dtype("f4"), (size // 1024, 256))}, {}) as put:
    for first in range(0, size // 1024, 4096):
        put("a", np.full((4096, 256), first, np.float32))
array = tensors.TensorFile(path)["a"]
assert all((array[first : first + 4096] == first).all() for first in range(0, len(array), 4096))
try:
    tensors.read_tensors(path)
except MemoryError:
    sys.exit(0)
sys.exit("the limit does not hold")
"""


def test_a_file_of_six_times_the_memory(tmp_path):
    """A program that reads the whole file at once fails, which shows that the limit holds."""
    ran = subprocess.run([sys.executable, "-c", IN_LITTLE_MEMORY, tmp_path / "file"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_new_folder_is_forced_to_the_disk(tmp_path, monkeypatch):
    """Each folder that got a new name in it: without that, a loss of power takes the name, and all that lies below."""
    synced = synced_folders(monkeypatch)
    tensors.make_folder(tmp_path / "a" / "b" / "c")
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    tensors.make_folder(tmp_path / "a")
    assert len(synced) == 3
    tensors.write_tensors(tmp_path / "a" / "b" / "c" / "file", ARRAYS, {})
    assert synced[3:] == [tmp_path / "a" / "b" / "c"]


def synced_folders(monkeypatch):
    """The folders that are forced to the disk, in their order."""
    synced, fsync = [], os.fsync

    def record(file):
        path = Path(os.readlink(f"/proc/self/fd/{file}"))
        fsync(file)
        if path.is_dir():
            synced.append(path)

    monkeypatch.setattr(os, "fsync", record)
    return synced
