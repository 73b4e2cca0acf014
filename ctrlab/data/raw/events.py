"""Converts event logs to DIN's rows: given a user's earlier events, tell the user's last event from a random item.

The rules are those of the original DIEN scripts. Events are sorted by time. Users with one event are left out. The last event is
the positive row. The negative row has the same history with another item, drawn by its number of occurrences; it comes first.
Each position of the history gets a negative item of the same kind (DIEN's auxiliary loss).

Users are distributed over partition files by a hash of their name, so that only one partition is in memory at a time. Only the
catalogue of items grows with the data.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.data.arrow import arrow_schema
from ctrlab.data.raw.catalogue import Catalogue
from ctrlab.schema import Schema

EVENT = pa.schema([("user", pa.string()), ("item", pa.int64()), ("time", pa.int64())])
PARTITION_BYTES = 16 << 20  # per partition file, maybe gzip; its events take several times as much memory
MOST_PARTITIONS = 256
ROWS = 16_384


class Events:
    """Collects events. Call `add` for each block inside a `with`; then `rows` yields the tables.

    Args:
        folder: for the partition files.
        size: bytes of the raw files; determines the number of partitions.
        catalogue: the items; items in events are added.
        schema: the schema of the rows, with the columns of `amazon_reviews`.
    """

    def __init__(self, folder: Path, size: int, catalogue: Catalogue, schema: Schema):
        count = min(max(1, size // PARTITION_BYTES), MOST_PARTITIONS)
        self._paths = [folder / f"{i:03}.arrow" for i in range(count)]
        self._catalogue, self._schema = catalogue, schema
        self._open = ExitStack()

    def __enter__(self) -> Events:
        self._writers = [self._open.enter_context(pa.ipc.new_file(str(path), EVENT)) for path in self._paths]
        return self

    def __exit__(self, *error) -> None:
        self._open.__exit__(*error)

    def add(self, user: pa.Array, item: pa.Array, category: pa.Array, time: pa.Array) -> None:
        """Adds events: users, items and categories as text, times as int64; all [N]."""
        codes = self._catalogue.add(item, category)
        self._catalogue.see(codes)
        events = pa.record_batch([user, pa.array(codes), time], schema=EVENT)
        users = user.dictionary_encode()
        hashes = np.array([zlib.crc32(name.encode()) for name in users.dictionary.to_pylist()], np.int64)
        partition = hashes[users.indices.to_numpy()] % len(self._writers) if len(user) else hashes
        for i in np.unique(partition):
            self._writers[i].write_batch(events.filter(pa.array(partition == i)))

    def rows(self) -> Iterator[pa.Table]:
        """Two rows for each user with two or more events, in the schema's columns."""
        for i, path in enumerate(self._paths):
            with pa.ipc.open_file(str(path)) as file:
                events = file.read_all()
            path.unlink()
            yield from self._pairs(events, seed=i)

    def _pairs(self, events: pa.Table, seed: int) -> Iterator[pa.Table]:
        events = events.append_column("order", pa.array(np.arange(len(events))))
        events = events.sort_by([("user", "ascending"), ("time", "ascending"), ("order", "ascending")])
        items = events["item"].to_numpy()
        user = events["user"].combine_chunks()
        last = np.append(pc.not_equal(user[1:], user[:-1]).to_numpy(zero_copy_only=False), True) if len(items) else items > 0
        ends = np.flatnonzero(last)
        lengths = np.diff(ends, prepend=-1) - 1  # of the histories, which exclude the last event
        kept = lengths > 0
        positives = items[ends[kept]]
        negatives = self._catalogue.draw_other_than(positives, 2 * seed)
        past = items[~last]
        others = self._catalogue.draw_other_than(past, 2 * seed + 1)
        offsets = np.concatenate([[0], np.cumsum(lengths[kept])])
        for start in range(0, len(positives), ROWS):
            part = slice(start, min(start + ROWS, len(positives)))
            span = slice(offsets[part.start], offsets[part.stop])
            yield self._table(
                user.take(pa.array(ends[kept][part])),
                negatives[part],
                positives[part],
                offsets[part.start : part.stop + 1] - span.start,
                past[span],
                others[span],
            )

    def _table(self, users, negatives, positives, offsets, past, others) -> pa.Table:
        """Rows in pairs, the negative first. Users [P]; codes: negatives, positives [P], past, others [N]; offsets [P+1]."""
        twice = pa.array(np.repeat(np.arange(len(users)), 2))
        targets = np.stack([negatives, positives], axis=1).ravel()  # [P, 2] -> [2P]
        lists = [
            pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), words(codes)).take(twice)
            for codes in (past, others)
            for words in (self._catalogue.items, self._catalogue.categories)
        ]
        arrays = [
            pa.array(np.tile(np.float32([0, 1]), len(users))),
            users.take(twice).dictionary_encode(),
            self._catalogue.items(targets).dictionary_encode(),
            self._catalogue.categories(targets).dictionary_encode(),
            *lists,
        ]
        return pa.Table.from_arrays(arrays, schema=arrow_schema(self._schema))
