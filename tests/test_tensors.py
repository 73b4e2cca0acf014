"""A file of tensors gives back what was written, byte by byte, and whatever happened to it is told in one sentence."""

import errno
import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from ctrlab import tensors
from ctrlab.errors import BadData

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


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadData, match="No such file"):
        tensors.read_tensors(tmp_path / "file")


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
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
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, piece: write(file, piece[:100]))
    tensors.write_tensors(tmp_path / "file", ARRAYS, {})
    np.testing.assert_array_equal(tensors.read_tensors(tmp_path / "file")[0]["table"], ARRAYS["table"])


def test_the_metadata_alone(file):
    assert tensors.read_metadata(file) == tensors.read_tensors(file)[1]
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(BadData, match="only the beginning"):
        tensors.read_metadata(file)
