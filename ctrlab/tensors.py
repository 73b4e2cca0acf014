"""Named arrays in one file that any framework can read: the safetensors format, with a checksum.

    8 bytes    length of the header, little-endian
    header     JSON: {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets": [begin, end]}, ...}
    data       the arrays' bytes, one after the other

Reading never runs code. The metadata's "crc32" is that of the whole file with eight zeros in its own place. A file is written
beside its place, forced to the disk and renamed: whoever reads sees the old file or the new one, whole.

This file refuses to know what the arrays mean; see `ctrlab.training.checkpoint` and `ctrlab.embedding.checkpoint`.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ctrlab.errors import BadData

DTYPES = {
    "F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1",
    "U64": "u8", "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
CODES = {np.dtype(code): name for name, code in DTYPES.items()}
NO_CHECKSUM = "0" * 8
MOST_HEADER = 100_000_000  # bytes; the format's own limit
ALIGNMENT = 8


def write_tensors(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Writes the file whole or not at all.

    Raises:
        OSError: the disk refused; what was at `path` is still there. KeyError: a dtype that the format does not have.
    """
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    data = [array.reshape(-1).view(np.uint8) for array in arrays.values()]
    blank = _header(arrays, {**metadata, "crc32": NO_CHECKSUM})
    checksum = zlib.crc32(blank)
    for piece in data:
        checksum = zlib.crc32(piece, checksum)
    write_durably(path, [_header(arrays, {**metadata, "crc32": f"{checksum:08x}"}), *data])


def write_durably(path: Path, pieces: Iterable) -> None:
    """Writes bytes-like pieces beside `path`, forces them to the disk and moves them there in one step.

    Raises:
        OSError: the disk refused; what was at `path` is still there.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays, read-only views of the file, and the metadata.

    Raises:
        BadData: the file is not there, is none of this format, is cut off, or its bytes are not those that were written.
    """
    content = _content(path)
    length, described, metadata = _described(path, content)
    try:
        arrays = {name: _array(content, 8 + length, **entry) for name, entry in described.items()}
        end = max((entry["data_offsets"][1] for entry in described.values()), default=0)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadData(f"{path} is no file of tensors, or a damaged one: {error}.") from None
    if 8 + length + end != len(content):
        raise BadData(f"{path} is damaged: it should have {8 + length + end:,} bytes and has {len(content):,}.")
    _check(path, content, length, metadata["crc32"])
    return arrays, metadata


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata alone, from the file's first bytes; whether the rest is whole only `read_tensors` knows.

    Raises:
        BadData: the file is not there, or does not begin as one of this format with a checksum does.
    """
    return _described(path, _content(path))[2]


def _content(path: Path) -> mmap.mmap:
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # mmap refuses an empty file with a ValueError
        raise BadData(f"{path} can't be read: {getattr(error, 'strerror', None) or 'it is empty'}.") from None


def _described(path: Path, content: mmap.mmap) -> tuple[int, dict[str, dict], dict[str, str]]:
    """The header's length, what it says of each array, and the metadata."""
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or not 2 <= length <= min(MOST_HEADER, len(content) - 8):
        raise BadData(f"{path} is no file of tensors, or only the beginning of one: its header does not fit into it.")
    try:
        described = json.loads(content[8 : 8 + length])
        metadata = described.pop("__metadata__", {})
    except (ValueError, TypeError, AttributeError) as error:
        raise BadData(f"{path} is no file of tensors, or a damaged one: {error}.") from None
    if not (isinstance(metadata, dict) and isinstance(metadata.get("crc32"), str)):
        raise BadData(f"{path} holds tensors, but no checksum of them: it is damaged, or was written by something else.")
    return length, described, metadata


def _header(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, dict] = {"__metadata__": dict(metadata)}
    begin = 0
    for name, array in arrays.items():
        end = begin + array.nbytes
        entries[name] = {"dtype": CODES[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _array(content: mmap.mmap, start: int, dtype: str, shape: list[int], data_offsets: list[int]) -> np.ndarray:
    begin, end = data_offsets
    if not 0 <= begin <= end <= len(content) - start:
        raise ValueError(f"an array lies at {begin} to {end}, beyond the file's end")
    return np.frombuffer(content, np.uint8, end - begin, start + begin).view(DTYPES[dtype]).reshape(shape)


def _check(path: Path, content: mmap.mmap, length: int, expected: str) -> None:
    mark = '"crc32":"{}"'
    blank = content[: 8 + length].replace(mark.format(expected).encode(), mark.format(NO_CHECKSUM).encode(), 1)
    with memoryview(content) as whole:
        found = f"{zlib.crc32(whole[8 + length :], zlib.crc32(blank)):08x}"
    if found != expected:
        raise BadData(f"{path} is damaged: its checksum is {found}, and {expected} was noted when it was written.")


def _sync_folder(folder: Path) -> None:
    """A rename is on the disk only when the folder is."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
