"""The on-disk store of rows (native/store/segment_store.h) from Python: put, get, erase, flush, compact, iterate.

An embedding variable keeps its lower tier in it. Its files can be read without this module and without TensorFlow: see
`ctrlab.embedding.store.segments`.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ctrlab import _native
from ctrlab.embedding.store import COMPACTIONS
from ctrlab.errors import CtrlabError, choose

_INT = ctypes.c_int64


class _Problem(ctypes.Structure):
    _fields_ = (("sentence", ctypes.c_char * 2048),)


@dataclass(frozen=True)
class StoreStats:
    """Statistics of a store since it was opened.

    Attributes:
        live: keys with a row. total: records on the disk; records that are not live are garbage.
        memory_bytes: memory of the store and its snapshots.
        user_bytes, compaction_bytes: bytes written for put and erase; bytes copied by compaction.
        compactions: segments that compaction removed. reads: read requests to the system.
        dropped_records: records removed from a torn tail when the store was opened.
        pending_bytes: bytes that were put but are not flushed yet. compacting: 1 while a compaction runs, else 0.
    The order of the fields is that of StoreNumbers in native/store/segment_store_c.h.
    """

    live: int
    total: int
    segments: int
    disk_bytes: int
    memory_bytes: int
    user_bytes: int
    compaction_bytes: int
    compactions: int
    reads: int
    dropped_records: int
    pending_bytes: int
    compacting: int

    @property
    def write_amplification(self) -> float:
        """Bytes of records written to disk per byte that the user wrote; 1 if compaction copied nothing."""
        return (self.user_bytes + self.compaction_bytes) / self.user_bytes if self.user_bytes else 1.0


class Store:
    """Rows of `dim` numbers by int64 key, in the folder `path`. Any int64 is a key. Close it, or use it in a `with` statement.

    Args:
        path: a folder; made if missing. dim: numbers per row. dtype: type of the numbers.
        segment_bytes: size of a file. write_buffer: bytes kept in memory before they are written.
        compaction: "async", in the store's own thread, or "sync", in the thread that writes.
        direct: bypass the page cache, with many reads in flight.
    Raises:
        CtrlabError: the folder can't be made, is open in another process, or holds files that are damaged or of another kind.

    >>> import tempfile
    >>> with Store(tempfile.mkdtemp(), dim=2) as store:
    ...     store.put([7, -1], np.float32([[1, 2], [3, 4]]))
    ...     store.get([-1, 5])
    (array([[3., 4.],
           [0., 0.]], dtype=float32), array([ True, False]))
    """

    def __init__(
        self,
        path: str | os.PathLike,
        dim: int,
        dtype=np.float32,
        *,
        segment_bytes: int = 128 << 20,
        write_buffer: int = 1 << 20,
        compaction: str = "async",
        direct: bool = False,
    ):
        self._handle = _INT()
        self._c = _native.library().c
        self._dim, self._dtype = dim, np.dtype(dtype)
        choose("compaction", compaction, COMPACTIONS)
        sizes = (
            _INT(n) for n in (dim * self._dtype.itemsize, segment_bytes, write_buffer, COMPACTIONS.index(compaction), direct)
        )
        _checked(self._c.ctrlab_store_open, os.fsencode(path), *sizes, ctypes.byref(self._handle))

    def put(self, keys, rows) -> None:
        """Stores rows [n, dim] under keys [n]; the last row of a repeated key wins."""
        keys = _keys(keys)
        rows = np.ascontiguousarray(rows, self._dtype)
        if rows.shape != (len(keys), self._dim):
            raise CtrlabError(f"A store's rows must be [{len(keys)}, {self._dim}], one row per key; received {list(rows.shape)}.")
        self._call("put", _pointer(keys), _pointer(rows), _INT(len(keys)))

    def get(self, keys) -> tuple[np.ndarray, np.ndarray]:
        """Rows [n, dim], zeros for keys without a row, and bool [n]: whether each key has a row.

        Raises:
            CtrlabError: a row is damaged; the message names the file and the byte.
        """
        keys = _keys(keys)
        rows, found = np.zeros((len(keys), self._dim), self._dtype), np.zeros(len(keys), np.bool_)
        self._call("get", _pointer(keys), _INT(len(keys)), _pointer(rows), _pointer(found))
        return rows, found

    def erase(self, keys) -> None:
        """Removes the rows of keys [n]. Keys without a row are allowed."""
        keys = _keys(keys)
        self._call("erase", _pointer(keys), _INT(len(keys)))

    def flush(self) -> None:
        """When this returns, earlier puts and erases survive the end of the process and a loss of power."""
        self._call("flush")

    def compact(self) -> None:
        """Removes all garbage now. Otherwise compaction starts at 1.5 records per live row."""
        self._call("compact")

    def stats(self) -> StoreStats:
        numbers = _Numbers()
        self._call("stats", ctypes.byref(numbers))
        return StoreStats(**{name: getattr(numbers, name) for name, _ in _Numbers._fields_})

    def warnings(self) -> list[str]:
        """What was dropped or found damaged since the store was opened, one sentence each."""
        sentence, found = _Problem(), []
        while True:
            self._call("warning", _INT(len(found)), ctypes.byref(sentence))
            if not sentence.sentence:
                return found
            found.append(sentence.sentence.decode(errors="replace"))

    def items(self, batch: int = 4096) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields keys [n] and rows [n, dim] as of the first batch, even if the store changes or is closed meanwhile."""
        snapshot, size, count = _INT(), _INT(), _INT()
        self._call("snapshot", ctypes.byref(snapshot), ctypes.byref(size))
        try:
            while True:
                keys, rows = np.empty(batch, np.int64), np.empty((batch, self._dim), self._dtype)
                arguments = _INT(batch), _pointer(keys), _pointer(rows), ctypes.byref(count)
                _checked(self._c.ctrlab_store_next, snapshot, *arguments)
                if count.value == 0:
                    return
                yield keys[: count.value], rows[: count.value]
        finally:
            self._c.ctrlab_store_release(snapshot)

    def close(self) -> None:
        """Flushes if possible, ends the compaction and releases the folder. A second call does nothing.

        Calls of other threads that have begun finish first; later calls raise CtrlabError.
        """
        self._c.ctrlab_store_close(self._handle)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _call(self, name: str, *arguments) -> None:
        _checked(self._c[f"ctrlab_store_{name}"], self._handle, *arguments)


class _Numbers(ctypes.Structure):
    _fields_ = tuple((field.name, _INT) for field in dataclasses.fields(StoreStats))


def _checked(function, *arguments) -> None:
    problem = _Problem()
    if function(*arguments, ctypes.byref(problem)):
        raise CtrlabError(problem.sentence.decode(errors="replace"))


def _keys(keys) -> np.ndarray:
    keys = np.asarray(keys)
    if keys.ndim != 1 or (keys.size and keys.dtype.kind not in "iu"):
        raise CtrlabError(f"A store's keys must be int64 [n]; received {keys.dtype} {list(keys.shape)}.")
    return np.ascontiguousarray(keys, np.int64)


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
