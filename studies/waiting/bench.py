"""Latency of lookups in memory while the table's storage is busy, and of reads from the store while it compacts.

    opens      a killed process left rows in the storage, and the first update of another table opens that storage
    updates    steps on keys whose rows are on disk: these rows move up to memory, and others move down
    evicts     nine of ten rows are evicted, most of them on disk
    compacts   many rows were evicted from the disk, so the store compacts its files
    compacting (the store alone, without the page cache) three of five rows are erased, then all garbage is collected

Each phase is paired with an idle phase right before it, or right after it if the table is new. The keys looked up have a row
in memory, except for keys of a new table before its first update. ASKED holds the limits that the engine must meet.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from ctrlab import profiles
from ctrlab.embedding.options import GlobalStepEviction, Options, Storage
from ctrlab.embedding.store import Store
from ctrlab.embedding.table import ops as table_ops
from ctrlab.embedding.table_state import TableState
from ctrlab.embedding.variable import EmbeddingVariable
from ctrlab.ops.lookup import Layout
from ctrlab.ops.sparse_update import Rule
from ctrlab.paths import cache_folder
from ctrlab.profiling.progress import track
from ctrlab.profiling.timing import now
from ctrlab.profiling.waiting import Pair, Waits, Watch, watch

ASKED = {phase: (2.0, 0.050) for phase in ("opens", "evicts", "compacts")} | {"compacting": (3.0, 0.100)}
"""{phase: upper limits for p99 / idle p99, and for the seconds beyond the control}."""
HOT, DIM, STORE_DIM, READ = 256, 64, 16, 32
"""Keys per lookup, numbers per table row, numbers per row of the store, keys per read of the store."""
RULE, RATE = Rule("adagrad"), 0.01
LIVE = 1_000_000
NOW, FREQUENT = 1_000, 1 << 20  # a hot row's last step and frequency: it is neither moved to disk nor evicted
AT_A_TIME = 100_000
SETTLED, AT_MOST = 0.5, 120  # seconds without a change in the storage's folder that count as idle; the longest wait for them


@dataclass(frozen=True)
class Size:
    """Rows of the table and of the store, bytes per file of the store, seconds per idle phase, rounds."""

    rows: int
    store_rows: int
    segment_bytes: int
    seconds: float
    rounds: int

    @property
    def memory_rows(self) -> int:
        return self.rows // 20


SIZES = {
    "tiny": Size(20_000, 20_000, 1 << 19, 0.2, 2),
    "lesson": Size(300_000, 1_200_000, 16 << 20, 2, 3),
    "full": Size(3_000_000, 12_000_000, 128 << 20, 5, 3),
}


def bench_waiting(profile: str | None = None, folder: Path | None = None) -> list[Waits]:
    """Watches lookups in a table and reads from a store in `folder` (default: the cache folder), whose disk is measured.

    Raises:
        UnknownName: no such profile. CtrlabError: the disk refuses. NativeLibraryError: the compiled library is missing.
    """
    size = SIZES[profiles.current(profile).name]
    with _scratch(folder) as work:
        reads = bench_reads(size, work)  # first, because the disk stays busy for a while after the other bench deletes its files
        return [bench_lookups(size, work), reads]


def bench_lookups(size: Size, folder: Path) -> Waits:
    """Lookups of HOT keys in a table with size.rows rows, of which size.memory_rows are in memory."""
    rounds, removed, below, left, own = [], 0, 0, 0, []
    for number in range(size.rounds):
        with _scratch(folder) as storage:
            table = _Table(storage, size)
            table.fill(f"Filling a table, round {number + 1}")
            own.append(watch(table.look_up_nothing, lambda: time.sleep(size.seconds / 4)).percentile(50))
            pairs = {}
            for phase, step in {"updates": table.update, "compacts": table.shrink, "evicts": table.evict}.items():
                if phase == "compacts":
                    table.evict_percent(30)  # too few to start a compaction
                elif phase == "evicts":
                    table.fill("Filling it again")
                table.settle()
                files = table.files()
                quiet = table.quiet()
                pairs[phase] = Pair(quiet, watch(table.look_up, step, table.settle))
                removed += len(files - table.files()) if phase == "compacts" else 0
            table.fill("Filling it again")
            below += table.read_below()
            table = table.reopened_by_another()
            left += table.bytes()
            busy = watch(table.look_up, table.open, table.settle)
            pairs = {"opens": Pair(table.quiet(), busy), **pairs}
            rounds.append(pairs)
            del table
    title = f"Lookups of {HOT} keys in memory, {size.rows:,} rows below it"
    facts = {"rows": size.rows, "dim": DIM, "files_compacted": removed, "hot_keys_read_below": below, "bytes_left": left}
    return Waits(title, rounds, float(np.median(own)), ASKED, facts)


def bench_reads(size: Size, folder: Path) -> Waits:
    """Reads of READ random keys from a store with size.store_rows rows."""
    rounds, facts, own = [], dict.fromkeys(("files_compacted", "records_live", "records_left"), 0), []
    kept = np.arange(3, size.store_rows, 5)
    draws = itertools.cycle(np.random.default_rng(0).choice(kept, (1_000, READ)))
    gone = np.setdiff1d(np.arange(size.store_rows), np.concatenate([kept, kept[kept < size.store_rows - 1] + 1]))
    for number in range(size.rounds):
        with _scratch(folder) as place, Store(place, STORE_DIM, segment_bytes=size.segment_bytes, direct=True) as store:
            for first in track(range(0, size.store_rows, AT_A_TIME), f"Filling a store, round {number + 1}"):
                keys = np.arange(first, min(first + AT_A_TIME, size.store_rows))
                store.put(keys, np.repeat(keys.astype(np.float32), STORE_DIM).reshape(-1, STORE_DIM))
            own.append(watch(lambda store=store: store.get(()), lambda: time.sleep(size.seconds / 4)).percentile(50))

            def read(store=store) -> None:
                store.get(next(draws))

            def erase(store=store) -> None:
                for piece in np.array_split(gone, -(-len(gone) // AT_A_TIME)):
                    store.erase(piece)
                store.compact()

            quiet = watch(read, lambda: time.sleep(size.seconds))
            rounds.append({"compacting": Pair(quiet, watch(read, erase))})
            stats = store.stats()
            for name, figure in zip(facts, (stats.compactions, stats.live, stats.total)):
                facts[name] += figure
    title = f"Reads of {READ} random keys of a store, {size.store_rows:,} rows, {len(gone):,} of them erased meanwhile"
    return Waits(title, rounds, float(np.median(own)), ASKED, {"rows": size.store_rows, **facts})


class _Table:
    """A table with storage. Key k's last step is 1 + k mod 100, so an eviction by step can remove an exact percentage of rows."""

    def __init__(self, storage: Path, size: Size):
        self.storage, self.size = storage, size
        options = Options(storage=Storage(str(storage), size.memory_rows), eviction=GlobalStepEviction(LIVE))
        self.variable = EmbeddingVariable("waiting", DIM, options)
        self.variable.set_slots(RULE.slots)
        self.hot, self.nothing = tf.range(HOT, dtype=tf.int64), tf.zeros([0], tf.int64)

    def reopened_by_another(self) -> _Table:
        """Another table over this one's files. A table that is deleted removes its files, so this stands for a killed process."""
        self.settle()
        place, left = self.storage / "waiting", self.storage / "left"
        shutil.copytree(place, left, copy_function=os.link)
        del self.variable
        shutil.rmtree(place)
        left.rename(place)
        return _Table(self.storage, self.size)

    def fill(self, what: str) -> None:
        """Gives each key below size.rows a row; existing rows are kept."""
        missing = np.setdiff1d(np.arange(HOT, self.size.rows), self._keys())
        for first in track(range(0, len(missing), AT_A_TIME), what):
            keys = missing[first : first + AT_A_TIME]
            self._load(keys, np.ones(len(keys), np.int64), 1 + keys % 100)
        self._load(np.arange(HOT), np.full(HOT, FREQUENT), np.full(HOT, NOW))
        self.read_before = self.variable.stats().hits_below

    def _keys(self) -> np.ndarray:
        return self.variable.state().keys if self.variable.rows() else np.zeros(0, np.int64)

    def _load(self, keys: np.ndarray, frequencies: np.ndarray, steps: np.ndarray) -> None:
        values = np.repeat(keys.astype(np.float32), DIM).reshape(-1, DIM)
        self.variable.load_state(TableState(keys, values, {}, frequencies, steps), how="more")

    def look_up(self) -> None:
        table_ops.grouped([self.variable], [self.hot], Layout((0,), ("rows",), (0,)), False)

    def look_up_nothing(self) -> None:
        table_ops.grouped([self.variable], [self.nothing], Layout((0,), ("rows",), (0,)), False)

    def read_below(self) -> int:
        """Hot keys that a lookup found on disk; if there are any, the bench did not measure memory."""
        return self.variable.stats().hits_below - self.read_before

    def quiet(self) -> Watch:
        return watch(self.look_up, lambda: time.sleep(self.size.seconds))

    def step(self, keys: tf.Tensor) -> None:
        slices = tf.IndexedSlices(tf.zeros([len(keys), DIM]), keys, tf.constant([0, DIM], tf.int64))
        table_ops.step(RULE, [(self.variable, slices)], tf.constant(RATE), tf.constant(NOW, tf.int64))

    def open(self) -> None:
        self.step(self.hot)

    def update(self) -> None:
        n = min(4_096, self.size.memory_rows // 4)
        draws = np.random.default_rng(0).integers(HOT, self.size.rows, (64, n))
        batches, until = itertools.cycle([tf.constant(keys) for keys in draws]), now() + self.size.seconds
        while now() < until:
            self.step(next(batches))

    def evict_percent(self, percent: int) -> None:
        self.variable.evict(LIVE + 1 + percent)

    def shrink(self) -> None:
        self.evict_percent(40)

    def evict(self) -> None:
        self.evict_percent(90)

    def files(self) -> set[str]:
        return {path.name for path in self.storage.rglob("*.seg")}

    def bytes(self) -> int:
        return sum(size for _, size, _ in self._traces())

    def settle(self) -> float:
        """Waits until the storage's files stop changing; returns the time of the last change, by `timing.now`."""
        began = changed = now()
        seen = None
        while (at := now()) - changed < SETTLED and at - began < AT_MOST:
            time.sleep(SETTLED / 10)
            if (found := self._traces()) != seen:
                changed, seen = at, found
        return changed

    def _traces(self) -> list[tuple]:
        found = []
        for path in self.storage.rglob("*.seg"):
            try:
                about = path.stat()
            except FileNotFoundError:  # compaction removed it after it was listed
                continue
            found.append((path.name, about.st_size, about.st_mtime_ns))
        return sorted(found)


@contextmanager
def _scratch(folder: Path | None):
    made = Path(tempfile.mkdtemp(prefix="waiting-bench-", dir=folder or cache_folder()))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
