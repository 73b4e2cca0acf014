"""The Parquet reader's rows under AddressSanitizer and UBSan, on whole files and on damaged ones. Arrow itself is not watched."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compiled import NATIVE, sanitized, units
from compiled import program as compiled

FLAGS = ["-std=c++20", *sanitized("address,undefined")]

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def program():
    arrow = Path(pa.__file__).parent
    sources = [NATIVE / "check" / "check_reader.cc", NATIVE / "reader" / "rows.cc", NATIVE / "reader" / "columns.cc"]
    libraries = [*arrow.glob("libarrow.so.*"), *arrow.glob("libparquet.so.*"), f"-Wl,-rpath,{arrow}"]
    return compiled("check_reader", units(sources, ["-isystem", arrow / "include"]), FLAGS, libraries=libraries)


@pytest.fixture
def files(tmp_path):
    """Two files of several row groups, and of each row what the program says of it."""
    rng = np.random.default_rng(0)
    past = [rng.integers(0, 1_000, n).tolist() or None for n in rng.integers(0, 9, 500)]
    x = [None if i % 7 == 0 else float(i % 5) for i in range(500)]
    word = [None if i % 11 == 0 else "a" * (i % 30) for i in range(500)]
    table = pa.table({"x": pa.array(x, pa.float32()), "past": pa.array(past, pa.list_(pa.int32())), "word": word})
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    pq.write_table(table.slice(0, 333), paths[0], row_group_size=64, write_page_checksum=True)
    pq.write_table(table.slice(333), paths[1], row_group_size=50, compression="lz4", use_dictionary=False)
    sums = [(0.5 if x is None else x) + sum(p or []) + max(1, len(w or "")) for x, p, w in zip(x, past, word)]
    return paths, sums


def run(program, *arguments):
    # Arrow's memory is given back at the end of the process, or not at all; its containers are not instrumented.
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0:detect_container_overflow=0"}
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, env=environment, timeout=300)


@pytest.mark.parametrize("mode", ["order", "mixed"])
@pytest.mark.parametrize("shard", [(0, 1), (2, 3), (6, 7)], ids=str)
def test_rows_of_two_epochs(program, files, mode, shard):
    paths, sums = files
    ran = run(program, mode, *shard, *paths)
    assert ran.returncode == 0, ran.stdout[-500:] + ran.stderr
    received = [line.split() for line in ran.stdout.splitlines()]
    wanted = [row for row in range(2 * len(sums)) if row % len(sums) % shard[1] == shard[0]]
    assert sorted(int(row) for row, _ in received) == wanted
    assert all(float(value) == sums[int(row) % len(sums)] for row, value in received)


def test_damaged_files_end_in_a_sentence(program, files, tmp_path):
    """Bytes changed, files cut: never a crash. What still decodes may be wrong, where the file has no checksums."""
    whole, rng = files[0][0].read_bytes(), np.random.default_rng(1)
    refused = 0
    for case in range(30):
        content = bytearray(whole)
        if case % 3 == 0:
            content = content[: rng.integers(0, len(whole))]
        else:
            at = int(rng.integers(0, len(whole) - 8))
            content[at : at + 8] = rng.bytes(8)
        path = tmp_path / "damaged.parquet"
        path.write_bytes(content)
        ran = run(program, "order", 0, 1, path)
        assert ran.returncode in (0, 1) and not ran.stderr, ran.stderr
        if ran.returncode == 1:
            refused += 1
            assert str(path) in ran.stdout.splitlines()[-1]
    assert refused >= 20
