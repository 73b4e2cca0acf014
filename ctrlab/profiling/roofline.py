"""The measured ceilings of this machine: upper limits for all code, with which every measurement is compared.

    sgemm         float32 matrix multiplication (GEMM), 2048 x 2048: the better of TensorFlow's and NumPy's
    bf16          TensorFlow's bfloat16 matrix multiplication, 2048 x 2048
    stream        the best of copying, reading and updating arrays much larger than the caches, bytes read plus written
    random_rows   a gather of 64-byte rows (one cache line) from random positions of a table much larger than the caches
    sigmoids      the better of the kernels' sigmoid and tanh (one function on two scales), in arrays that stay in the L1 caches

A ceiling is the fastest block, not the median, because noise can only slow a block down. The measurement uses the CPU in this
process, with as many threads as TensorFlow's intra-op pool.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from ctrlab import _native
from ctrlab.paths import cache_folder, write_atomically
from ctrlab.profiling.machine import Machine, machine
from ctrlab.profiling.progress import track
from ctrlab.profiling.timing import measure
from ctrlab.profiling.work import Ceilings, Work, bound, parts

__all__ = ["Ceilings", "Work", "bound", "ceilings", "parts"]

MATMUL = 2048
STREAM_BYTES = 128 * 2**20  # per array; the largest shared caches hold tens of MB
TABLE_BYTES = 512 * 2**20
ROW_BYTES = 64
GATHERED_ROWS = 2**18
SIGMOIDS = 2**12  # per thread, in 16 KiB
SIGMOID_TIMES = 256
BLOCKS = 5


def ceilings(*, measure_again: bool = False) -> Ceilings:
    """This machine's ceilings: cached from earlier runs with the same CPU, threads and TensorFlow, or measured now.

    Args:
        measure_again: measure in any case, so that ceilings and compared results come from the same run. The cache keeps the
            highest values of all runs, so a busy machine can't lower them.
    """
    here = machine()
    path = _cache_path(here)
    known = _read(path)
    if known and not measure_again:
        return known
    found = _measure(here)
    kept = _higher(known, found) if known else found
    write_atomically(path, json.dumps(kept.to_json(), indent=1))
    return found


def _higher(one: Ceilings, other: Ceilings) -> Ceilings:
    """The higher value of each ceiling, for two measurements of one machine."""
    pairs = {name: (value, getattr(other, name)) for name, value in one.to_json().items() if name != "device"}
    return Ceilings(**{name: max(pair) for name, pair in pairs.items()}, device=other.device)


def _measure(here: Machine) -> Ceilings:
    found: dict[str, float] = {}
    steps = {
        "sgemm": lambda: max(_tensorflow_matmul("float32"), _numpy_matmul()),
        "bf16": lambda: _tensorflow_matmul("bfloat16"),
        "stream_one_thread": lambda: _stream(1),
        "stream": lambda: max(_stream(here.threads), found["stream_one_thread"]),
        "random_rows": lambda: _random_rows(here.threads),
        "sigmoids": lambda: _sigmoids(here.threads),
    }
    for name in track(list(steps), "Measuring this machine's ceilings"):
        found[name] = steps[name]()
    return Ceilings(**found, device=here.line)


def _quickest(fn: Callable, make_inputs: Callable[[int], tuple] = lambda i: ()) -> float:
    return min(measure(fn, make_inputs, repetitions=BLOCKS, min_seconds=0).samples)


def _tensorflow_matmul(dtype: str) -> float:
    """FLOP/s of a square matrix multiplication on the CPU."""
    import tensorflow as tf

    with tf.device("CPU:0"):
        a = tf.cast(tf.random.stateless_normal([MATMUL, MATMUL], seed=[0, 1]), dtype)
        return 2 * MATMUL**3 / _quickest(lambda: tf.matmul(a, a))


def _numpy_matmul() -> float:
    a = np.random.default_rng(0).standard_normal((MATMUL, MATMUL), dtype=np.float32)
    return 2 * MATMUL**3 / _quickest(lambda: a @ a)


def _stream(threads: int) -> float:
    """Bytes/s read plus written. NumPy releases the GIL, so Python threads stream in parallel."""
    size = STREAM_BYTES // 4
    source, target = np.ones(size, np.float32), np.ones(size, np.float32)
    shares = _shares(size, threads)
    kernels = {
        (lambda s: np.copyto(target[s], source[s])): 2 * STREAM_BYTES,
        (lambda s: source[s].max()): STREAM_BYTES,
        (lambda s: np.multiply(source[s], 1.0, out=source[s])): 2 * STREAM_BYTES,
    }
    with ThreadPoolExecutor(threads) as pool:
        return max(moved / _quickest(lambda k=kernel: list(pool.map(k, shares))) for kernel, moved in kernels.items())


def _random_rows(threads: int) -> float:
    """Rows/s gathered from uniformly random positions, new ones in each call."""
    rows = TABLE_BYTES // ROW_BYTES
    table = np.ones((rows, ROW_BYTES // 4), np.float32)  # written once, so that every page has physical memory
    out = np.empty((GATHERED_ROWS, ROW_BYTES // 4), np.float32)
    rng = np.random.default_rng(0)

    def gather(share: slice, ids: np.ndarray) -> None:
        np.take(table, ids[share], axis=0, out=out[share], mode="clip")

    shares = _shares(GATHERED_ROWS, threads)
    with ThreadPoolExecutor(threads) as pool:
        seconds = _quickest(
            lambda ids: list(pool.map(gather, shares, [ids] * threads)),
            lambda i: (rng.integers(0, rows, GATHERED_ROWS),),
        )
    return GATHERED_ROWS / seconds


def _sigmoids(threads: int) -> float:
    """Sigmoids/s. ctypes releases the GIL, so Python threads compute in parallel."""
    arrays = np.ones((threads, SIGMOIDS), np.float32)

    def repeat(function: Callable, array: np.ndarray) -> None:
        function(ctypes.c_void_p(array.ctypes.data), ctypes.c_int64(SIGMOIDS), ctypes.c_int64(SIGMOID_TIMES))

    functions = _native.library().c.ctrlab_sigmoids, _native.library().c.ctrlab_tanhs
    with ThreadPoolExecutor(threads) as pool:
        seconds = min(_quickest(lambda f=f: list(pool.map(partial(repeat, f), arrays))) for f in functions)
    return threads * SIGMOIDS * SIGMOID_TIMES / seconds


def _shares(size: int, threads: int) -> list[slice]:
    """Splits `size` items into one contiguous slice per thread."""
    return [slice(i * size // threads, (i + 1) * size // threads) for i in range(threads)]


def _cache_path(here: Machine) -> Path:
    how = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()  # what another version measured is no ceiling of this one
    key = json.dumps([here.device, here.threads, here.versions.get("tensorflow"), how])
    return cache_folder() / f"ceilings-{hashlib.sha256(key.encode()).hexdigest()[:12]}.json"


def _read(path: Path) -> Ceilings | None:
    """The cached ceilings; None if there are none or the file is damaged (they are then measured again)."""
    try:
        return Ceilings.from_json(json.loads(path.read_text()))
    except (OSError, ValueError):
        return None
