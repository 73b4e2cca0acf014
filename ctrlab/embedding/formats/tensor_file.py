"""Named arrays in one file that any framework can read: the safetensors format, with a checksum added.

    8 bytes    length of the header, little-endian
    header     JSON: {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets": [begin, end]}, ...}
    data       the arrays' bytes, one after the other

Reading never executes code. The metadata's "crc32" is computed over the whole file, with eight zeros in place of the checksum. A
file is written next to its path, synced and renamed: a reader sees the old file or the complete new one.

Arrays may be larger than memory. `writing` takes each array in parts, in any order; `TensorFile` reads rows. The file is read,
not mapped, so that arrays take no address space and a file that is truncated meanwhile is refused. The library `safetensors`
reads and writes the same files. It is not used here, because it maps files, has no checksum, and accepts a header with duplicate
names.

This module does not know what the arrays mean; see `ctrlab.training.checkpoint` and `ctrlab.embedding.formats.table_arrays`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from ctrlab.embedding.formats.crc import joined
from ctrlab.errors import BadData, CtrlabError, unreadable
from ctrlab.paths import replacing

DTYPES = {
    "F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1",
    "U64": "u8", "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
CODES = {np.dtype(code): name for name, code in DTYPES.items()}
NO_CHECKSUM = "0" * 8
MOST_HEADER = 100_000_000  # bytes; the format's own limit
MOST_AXES = 64  # per array; NumPy's own limit
ALIGNMENT = 8
PIECE = 8 << 20  # bytes per read while a whole file is checked


def write_tensors(path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Writes the file atomically.

    Raises:
        OSError: the disk refused. KeyError: a dtype that the format lacks.
    """
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with writing(path, {name: (array.dtype, array.shape) for name, array in arrays.items()}, metadata) as put:
        for name, array in arrays.items():
            put(name, array)


@contextlib.contextmanager
def writing(
    path: Path, shapes: Mapping[str, tuple[np.dtype, tuple[int, ...]]], metadata: Mapping[str, str]
) -> Iterator[Callable[[str, np.ndarray], None]]:
    """A context manager. Inside it `put(name, rows)` appends rows to an array, in any order of arrays. At its end the file
    appears.

    After an exception inside it, the old content of `path` remains.

    Args:
        shapes: {name: (dtype, shape)} of all arrays.
    Raises:
        OSError: the disk refused. CtrlabError: an array did not get the declared number of rows. KeyError: a dtype that the
            format lacks.

    >>> with writing(path, {"keys": (np.dtype("i8"), (4,))}, {}) as put:     # doctest: +SKIP
    ...     put("keys", np.arange(3))
    ...     put("keys", np.array([9]))
    """
    shapes = {name: (np.dtype(dtype), tuple(shape)) for name, (dtype, shape) in shapes.items()}
    blank = _header(shapes, {**metadata, "crc32": NO_CHECKSUM})
    begins, end = {}, len(blank)
    for name, (dtype, shape) in shapes.items():
        begins[name], end = end, end + dtype.itemsize * math.prod(shape)
    ends = dict(zip(begins, [*list(begins.values())[1:], end]))
    places, checksums = dict(begins), dict.fromkeys(begins, 0)
    with _synced(path) as file:

        def put(name: str, rows: np.ndarray) -> None:
            data = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
            if rows.dtype != shapes[name][0] or places[name] + data.size > ends[name]:
                raise CtrlabError(
                    f"Array {name} of {path} was said to be {shapes[name][0]} {list(shapes[name][1])}; received {rows.dtype} "
                    f"{list(np.shape(rows))} after {places[name] - begins[name]:,} bytes of it."
                )
            _write_at(file, places[name], data)
            places[name] += data.size
            checksums[name] = zlib.crc32(data, checksums[name])

        yield put
        if short := [name for name in shapes if places[name] != ends[name]]:
            received, said = (at[short[0]] - begins[short[0]] for at in (places, ends))
            raise CtrlabError(f"Array {short[0]} of {path} was said to have {said:,} bytes; received {received:,}.")
        whole = zlib.crc32(blank)
        for name in shapes:
            whole = joined(whole, checksums[name], ends[name] - begins[name])
        _write_at(file, 0, _header(shapes, {**metadata, "crc32": f"{whole:08x}"}))


def write_durably(path: Path, pieces: Iterable) -> None:
    """Writes bytes-like pieces to `path` atomically, and syncs them to disk.

    Raises:
        OSError: the disk refused.
    """
    with _synced(path) as file:
        place = 0
        for piece in pieces:
            _write_at(file, place, piece)
            place += len(piece)


def make_folder(folder: Path) -> None:
    """Makes a folder and its parents, and syncs each new name to disk; otherwise a loss of power could remove the content.

    Raises:
        OSError: the disk refused.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in reversed(made):
        sync_folder(place.parent)


class Stored:
    """An array in a `TensorFile`: `array[a:b]` and `read()` read from disk each time.

    Raises:
        BadData: the disk does not give the rows. TypeError: the index is not a slice of consecutive rows.
    """

    def __init__(self, content: _Content, begin: int, dtype: np.dtype, shape: tuple[int, ...]):
        self._content, self._begin, self.dtype, self.shape = content, begin, dtype, shape

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> np.ndarray:
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise TypeError(f"An array in a file gives rows that follow each other, array[a:b]; received array[{rows}].")
        first, last, _ = rows.indices(len(self))
        row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        count = max(0, last - first)
        return self._array(self._begin + first * row_bytes, count * row_bytes, (count, *self.shape[1:]))

    def read(self) -> np.ndarray:
        """The whole array."""
        return self._array(self._begin, self.size * self.dtype.itemsize, self.shape)

    def parts(self) -> Iterator[np.ndarray]:
        """The whole array, flat, in pieces of some megabytes."""
        flat, step = Stored(self._content, self._begin, self.dtype, (self.size,)), PIECE // self.dtype.itemsize
        return (flat[first : first + step] for first in range(0, self.size, step))

    def _array(self, begin: int, size: int, shape: tuple[int, ...]) -> np.ndarray:
        array = self._content.at(begin, size).view(self.dtype).reshape(shape)
        array.flags.writeable = False
        return array


class TensorFile(Mapping[str, Stored]):
    """A file of tensors. It stays open as long as this object or one of its arrays exists. Opening reads the whole file once, in
    pieces, and verifies its checksum.

    Raises:
        BadData: the file does not exist, has another format, is truncated, or fails the checksum.
        CtrlabError: it can't be opened now: too many files are open, or permission is missing.
    """

    def __init__(self, path: Path):
        self.path, content = path, _Content(path)
        header = content.header()
        described, self.metadata = _described(path, header)
        try:
            self._arrays = {name: _stored(content, len(header), **entry) for name, entry in described.items()}
            end = len(header)
            for first, last in sorted(entry["data_offsets"] for entry in described.values()):
                if len(header) + first != end:
                    raise ValueError(f"its arrays don't lie end to end, but one at {first} to {last}")
                end = len(header) + last
        except KeyError as dtype:
            raise BadData(f"{path} has an array of {dtype}; files of tensors have {', '.join(DTYPES)}: convert it.") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise BadData(f"{path} is no file of tensors, or a damaged one: {error}.") from None
        if end != content.size:
            raise BadData(f"{path} is damaged: it should have {end:,} bytes and has {content.size:,}.")
        _check(content, header, self.metadata["crc32"])

    def __getitem__(self, name: str) -> Stored:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class _Content:
    """The bytes of an open file. Raises BadData if they can't be read, CtrlabError if the file may be intact but can't be
    opened."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # does not block on a pipe
            weakref.finalize(self, os.close, self._file)
            about = os.fstat(self._file)
        except OSError as error:
            raise unreadable(str(path), error) from None
        if not stat.S_ISREG(about.st_mode):
            raise BadData(f"{path} can't be read: it is a folder, a pipe or a device, and no regular file.")
        self.size = about.st_size

    def at(self, begin: int, size: int) -> np.ndarray:
        """uint8 [size], starting at the byte `begin`."""
        out, place = np.empty(size, np.uint8), 0
        while place < size:
            try:
                count = os.preadv(self._file, [memoryview(out)[place:]], begin + place)
            except OSError as error:
                raise BadData(f"{self.path} can't be read: {error.strerror}.") from None
            if not count:
                raise BadData(f"{self.path} is damaged: it ends at byte {begin + place:,}, within an array.")
            place += count
        return out

    def header(self) -> bytes:
        """All bytes before the data."""
        length = int.from_bytes(self.at(0, min(8, self.size)).tobytes(), "little")
        if self.size < 8 or not 2 <= length <= min(MOST_HEADER, self.size - 8):
            raise BadData(f"{self.path} is no file of tensors, or only the beginning of one: its header does not fit into it.")
        return self.at(0, 8 + length).tobytes()


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """All arrays, read-only, and the metadata.

    Raises:
        BadData: as in `TensorFile`.
    """
    file = TensorFile(path)
    return {name: array.read() for name, array in file.items()}, file.metadata


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata alone, from the file's first bytes. Only `TensorFile` checks the rest of the file.

    Raises:
        BadData: the file does not exist, or does not begin like a file of this format with a checksum.
    """
    return _described(path, _Content(path).header())[1]


def _described(path: Path, header: bytes) -> tuple[dict[str, dict], dict[str, str]]:
    """The header's description of each array, and the metadata."""
    try:
        described = json.loads(header[8:], object_pairs_hook=_once)
        metadata = described.pop("__metadata__", {})
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadData(f"{path} is no file of tensors, or a damaged one: {error}.") from None
    if not (isinstance(metadata, dict) and "crc32" in metadata):
        raise BadData(f"{path} holds tensors, but no checksum of them: it is damaged, or was written by something else.")
    if odd := [name for name, value in metadata.items() if not isinstance(value, str)]:
        raise BadData(f"{path} is damaged, or was written by something else: its metadata must be texts, and {odd[0]} is not.")
    return described, metadata


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Makes a JSON object from pairs; refuses duplicate names."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice in its header")
    return found


def _stored(content: _Content, start: int, dtype: str, shape: list[int], data_offsets: list[int]) -> Stored:
    begin, end = data_offsets
    kind = np.dtype(DTYPES[dtype])
    if not (type(begin) is type(end) is int and 0 <= begin <= end <= content.size - start):
        raise ValueError(f"an array lies at {begin} to {end}, beyond the file's end")
    if type(shape) is not list or len(shape) > MOST_AXES or not all(type(n) is int and 0 <= n < 1 << 63 for n in shape):
        raise ValueError(f"an array's shape is at most {MOST_AXES} sizes below 2^63; one has another")
    size, most = (math.prod(sizes) * kind.itemsize for sizes in (shape, [n or 1 for n in shape]))  # NumPy counts 0 as 1
    if size != end - begin or most >= 1 << 63:
        raise ValueError(f"an array of {end - begin} bytes is said to be {dtype} {shape}")
    return Stored(content, start + begin, kind, tuple(shape))


def _check(content: _Content, header: bytes, expected: str) -> None:
    mark = '"crc32":"{}"'
    crc = zlib.crc32(header.replace(mark.format(expected).encode(), mark.format(NO_CHECKSUM).encode(), 1))
    for begin in range(len(header), content.size, PIECE):
        crc = zlib.crc32(content.at(begin, min(PIECE, content.size - begin)), crc)
    if (found := f"{crc:08x}") != expected:
        raise BadData(f"{content.path} is damaged: its checksum is {found}, and {expected} was noted when it was written.")


def _header(shapes: Mapping[str, tuple[np.dtype, tuple[int, ...]]], metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, dict] = {"__metadata__": dict(metadata)}
    begin = 0
    for name, (dtype, shape) in shapes.items():
        end = begin + dtype.itemsize * math.prod(shape)
        entries[name] = {"dtype": CODES[dtype], "shape": list(shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


@contextlib.contextmanager
def _synced(path: Path) -> Iterator[int]:
    """A new file that replaces `path` when the block ends: it is synced before it is renamed, and its folder after that."""
    with replacing(path) as part:
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            yield file
            os.fsync(file)
        finally:
            os.close(file)
    sync_folder(path.parent)


def _write_at(file: int, place: int, piece) -> None:
    rest = memoryview(piece)
    while rest:
        count = os.pwrite(file, rest, place)
        rest, place = rest[count:], place + count


def sync_folder(folder: Path) -> None:
    """Syncs a folder: only then is a new or renamed file durable."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
