"""The store of rows on a disk (native/store/segment_store.h), from Python: put, get, erase, flush, compact, iterate.

It is what an embedding variable keeps its lower tier in. Its files need neither this nor TensorFlow: see
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
    """What a store holds and has done since it was opened.

    Attributes:
        live: keys with a row. total: records on the disk; those that are not live are garbage.
        memory_bytes: all that the store and its snapshots hold.
        user_bytes, compaction_bytes: records written for put and erase, and copied by compaction.
        compactions: segments that compaction removed. reads: requests to the system for rows.
        dropped_records: cut off a torn tail when the store was opened.
        pending_bytes: put and not flushed yet. compacting: 1 while a compaction runs, else 0.
    Its order is that of StoreNumbers in native/store/segment_store_c.h.
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
        """Bytes of records written to the disk for each byte that the user wrote; 1 is none."""
        return (self.user_bytes + self.compaction_bytes) / self.user_bytes if self.user_bytes else 1.0


class Store:
    """Rows of `dim` numbers by int64 key, in the folder `path`; any int64 is a key. Close it, or use it as a context.

    Args:
        path: a folder; made where there is none. dim: numbers a row. dtype: theirs.
        segment_bytes: size of a file. write_buffer: bytes kept in memory before they are written.
        compaction: "async", in the store's own thread, or "sync", in the thread that writes.
        direct: read and write past the page cache, many reads at a time.
    Raises:
        CtrlabError: the folder can't be made, another process has it open, or its files are damaged, of other rows, or not ours.

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
        """Rows [n, dim] of keys [n]; of a key that comes twice the last one stays."""
        keys = _keys(keys)
        rows = np.ascontiguousarray(rows, self._dtype)
        if rows.shape != (len(keys), self._dim):
            raise CtrlabError(f"A store's rows must be [{len(keys)}, {self._dim}], one a key; received {list(rows.shape)}.")
        self._call("put", _pointer(keys), _pointer(rows), _INT(len(keys)))

    def get(self, keys) -> tuple[np.ndarray, np.ndarray]:
        """Rows [n, dim], zeros where there is none, and whether there is one, bool [n].

        Raises:
            CtrlabError: a row is damaged; the message names file and byte.
        """
        keys = _keys(keys)
        rows, found = np.zeros((len(keys), self._dim), self._dtype), np.zeros(len(keys), np.bool_)
        self._call("get", _pointer(keys), _INT(len(keys)), _pointer(rows), _pointer(found))
        return rows, found

    def erase(self, keys) -> None:
        """Takes their rows from keys [n]; a key without one may be among them."""
        keys = _keys(keys)
        self._call("erase", _pointer(keys), _INT(len(keys)))

    def flush(self) -> None:
        """What was put and erased before outlives the process and the machine's power when this returns."""
        self._call("flush")

    def compact(self) -> None:
        """All garbage goes now; without this it goes when there are 1.5 records for each live row."""
        self._call("compact")

    def stats(self) -> StoreStats:
        numbers = _Numbers()
        self._call("stats", ctypes.byref(numbers))
        return StoreStats(**{name: getattr(numbers, name) for name, _ in _Numbers._fields_})

    def warnings(self) -> list[str]:
        """What was dropped or found damaged since the store was opened, a sentence each."""
        sentence, found = _Problem(), []
        while True:
            self._call("warning", _INT(len(found)), ctypes.byref(sentence))
            if not sentence.sentence:
                return found
            found.append(sentence.sentence.decode(errors="replace"))

    def items(self, batch: int = 4096) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Keys [n] and rows [n, dim] as they were when the first batch was asked for, whatever is written or closed meanwhile."""
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
        """Flushes what it can, ends the compaction, lets the folder go. Nothing happens the second time.

        Calls of other threads that are inside finish first; later ones raise CtrlabError.
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
