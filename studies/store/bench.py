"""Compares our store with LevelDB and RocksDB in native code: compiles, runs and evaluates native/bench/store_bench.cc.

The top of that file says how all stores bypass the page cache and get the same memory.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ctrlab import compiling, profiles
from ctrlab.errors import CtrlabError
from ctrlab.paths import cache_folder, checkout
from ctrlab.profiling.timing import Interval

PEERS = {"rocksdb": ("rocksdb/db.h", "librocksdb-dev"), "leveldb": ("leveldb/db.h", "libleveldb-dev")}
PHASES = ("mixed", "compacting", "read")
BATCH = 1024
_SIZES = {"tiny": (5_000, 2, 0.05), "lesson": (1_000_000, 7, 2.0), "full": (10_000_000, 9, 5.0)}  # keys, rounds, s per phase


@dataclass(frozen=True)
class StoreBench:
    """The measurements of one run of the program.

    Attributes:
        row_bytes, keys: size and number of the stored rows.
        memory: bytes that our full store held, and that a peer's block cache gets.
        rounds: for each round, results by store: by phase {"rows_per_second", "reads": [[at, seconds per batch], ..],
            "updates"}, and the store's facts. "disk" has the rate of random 4096-byte reads per second: "iops" with 128 in
            flight, "iops_alone" one at a time.
        missing: peers whose libraries are not installed.
    """

    row_bytes: int
    keys: int
    memory: int
    rounds: list[dict]
    missing: tuple[str, ...] = ()

    @property
    def stores(self) -> list[str]:
        return sorted(name for name in self.rounds[0] if name != "disk")

    def rows_per_second(self, store: str, phase: str) -> Interval:
        return Interval.of([each[store][phase]["rows_per_second"] for each in self.rounds])

    def ratio(self, peer: str, phase: str) -> Interval:
        """Our rows per second over the peer's, by rounds."""
        of = [(each["ctrlab"][phase], each[peer][phase]) for each in self.rounds]
        return Interval.of([ours["rows_per_second"] / its["rows_per_second"] for ours, its in of])

    def reads(self, store: str, phase: str) -> np.ndarray:
        """Seconds per batch of reads, in all rounds."""
        return np.array([seconds for each in self.rounds for _, seconds in each[store][phase]["reads"]])

    def stall(self, store: str) -> Interval:
        """The p99 time of a batch of reads during compaction over the p99 when the store is idle, by rounds."""

        def p99(one: dict, phase: str) -> float:
            return float(np.percentile([seconds for _, seconds in one[store][phase]["reads"]], 99))

        return Interval.of([p99(each, "compacting") / p99(each, "read") for each in self.rounds])

    def percent_of_bound(self, store: str) -> Interval:
        """Rows read per second over the disk's random reads per second (128 in flight), by rounds; a read may return two rows."""
        return Interval.of([100 * each[store]["read"]["rows_per_second"] / each["disk"]["iops"] for each in self.rounds])

    def write_amplification(self) -> float:
        return max(each["ctrlab"]["write_amplification"] for each in self.rounds)

    def to_json(self) -> dict:
        return {
            "row_bytes": self.row_bytes,
            "keys": self.keys,
            "memory": self.memory,
            "rounds": self.rounds,
            "missing": self.missing,
        }


@functools.cache
def program() -> tuple[Path, tuple[str, ...]]:
    """Compiles native/bench/store_bench.cc once per version of its sources; the program and the peers that it contains.

    Raises:
        CtrlabError: there is no checkout or compiler, or it does not compile.
    """
    root = checkout()
    if root is None:
        raise CtrlabError("The bench of the store is compiled from a checkout; ctrlab is installed without one.")
    native = root / "native"
    units = sorted((native / "store").glob("*.cc"))  # the store needs nothing else of ours but one header
    source = native / "bench" / "store_bench.cc"
    headers = [*(native / "bench").glob("*.h"), *(native / "store").glob("*.h")]
    peers = tuple(name for name, (header, _) in PEERS.items() if _has(header))
    flags = ["-std=c++20", "-O3", "-DNDEBUG", "-march=native", "-I", native, "-pthread"]
    libraries = [f"-l{name}" for name in peers]
    return compiling.cached("store_bench", flags, [source, *units], reads=headers, libraries=libraries), peers


def _has(header: str) -> bool:
    command = [*compiling.compiler(), "-std=c++20", "-fsyntax-only", "-x", "c++", "-include", header, "/dev/null"]
    return compiling.run(command, compiling.SECONDS)[0] == 0


def bench_store(
    row_bytes: int = 64, profile: str | None = None, stores: Sequence[str] | None = None, folder: Path | None = None
) -> StoreBench:
    """Fills and measures each store, round by round, in `folder` (default: the cache folder). The disk of `folder` is measured.

    Args:
        row_bytes: bytes per row, a multiple of 8.
        stores: "ctrlab" and peers; default: all that are installed.
    Raises:
        CtrlabError: the program can't be compiled, or it fails.
    """
    made, peers = program()
    keys, rounds, seconds = _SIZES[profiles.current(profile).name]
    work = Path(tempfile.mkdtemp(prefix="store-bench-", dir=folder or cache_folder()))
    arguments = (keys, row_bytes, BATCH, rounds, seconds, *(stores or ("ctrlab", *peers)))
    try:
        ran = subprocess.run([made, work, *map(str, arguments)], capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if ran.returncode != 0:
        raise CtrlabError(f"The bench of the store ended with {ran.returncode}: {ran.stderr.strip()[-300:]}")
    found = json.loads(ran.stdout)
    return StoreBench(row_bytes, keys, found["memory"], found["rounds"], tuple(name for name in PEERS if name not in peers))
