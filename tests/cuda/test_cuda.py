"""The CUDA twins without a GPU: in emulation against float64 under sanitizers; and through nvcc where it is found."""

import os
import re
import subprocess
import sys
from ctypes import byref
from pathlib import Path

import numpy as np
import pytest

from ctrlab import compiling
from ctrlab.cuda import __main__, devices, library
from ctrlab.errors import CtrlabError

ROOT = Path(__file__).parents[2]
SANITIZERS = {"asan": "address,undefined", "tsan": "thread"}
SEEDS = {"asan": 2, "tsan": 1}  # the threads' accesses are the same whatever the numbers are


def runtime(name: str) -> str:
    """A library of the compiler, by its file name; the name itself where it has none."""
    command = [*compiling.compiler(), f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def sanitized(name: str) -> dict:
    """The environment of a process whose libraries may have been compiled with the sanitizer."""
    found = runtime(f"lib{name}.so")
    if not os.path.isabs(found):
        pytest.skip(f"no library of the sanitizer {name} for {compiling.compiler()[0]}")
    # Exceptions are thrown through the C++ library, which must be there before the sanitizer looks for it.
    return {
        "LD_PRELOAD": f"{found} {runtime('libstdc++.so.6')}",
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "halt_on_error=1",
        "TSAN_OPTIONS": "ignore_noninstrumented_modules=1",
    }


def run(*command, **environment):
    ran = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=280, cwd=ROOT, env=os.environ | environment
    )
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("ThreadSanitizer of this compiler does not run under this system's address space layout")
    return ran


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_twins_agree_with_float64(sanitizer):
    options = ["--sanitizer", SANITIZERS[sanitizer], "--seeds", str(SEEDS[sanitizer])]
    ran = run("-m", "ctrlab.cuda", "--emulated", *options, **sanitized(sanitizer))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.endswith("results agree with float64 (emulated)\n")
    assert int(ran.stdout.split()[0]) > 50 * SEEDS[sanitizer]


@pytest.mark.parametrize("op", __main__.OPS)
def test_a_wrong_twin_is_noticed(op):
    code = f"""
import sys
from ctrlab.cuda import {op}, __main__
right = {op}._expected
{op}._expected = lambda *a: {{k: v * 1.0001 for k, v in right(*a).items()}}
sys.exit(__main__.main(["--emulated"]))
"""
    ran = run("-c", code)
    assert ran.returncode == 1
    assert f"A twin must agree with float64 to 1e-05; {op}, case 'odd" in ran.stderr


# In a word of the bitmap the ids from the last to the first: sums and tables are right, only the order is not.
DESCENDING = {
    "& ((1u << id % kWordBits) - 1);": "& ~((2u << id % kWordBits) - 1);",
    "for (int bit = 0; bit < kWordBits; ++bit)": "for (int bit = kWordBits - 1; bit >= 0; --bit)",
}


def test_merged_ids_out_of_order_are_noticed(tmp_path):
    source = (ROOT / "native" / "kernels" / "lookup" / "lookup.cu").read_text()
    for right, wrong in DESCENDING.items():
        assert source.count(right) == 1
        source = source.replace(right, wrong)
    (tmp_path / "lookup.cu").write_text(source)
    code = f"""
import sys
from pathlib import Path
from ctrlab import compiling
from ctrlab.cuda import __main__, library
right = library.sources()
library.sources = lambda: [Path({str(tmp_path)!r}, p.name) if p.name == "lookup.cu" else p for p in right]
__main__.OPS = {{"lookup": __main__.OPS["lookup"]}}
sys.exit(__main__.main(["--emulated"]))
"""
    ran = run("-c", code)
    assert ran.returncode == 1
    assert "lookup, case 'odd_sgd', seed 0: merged ids 0 is off by inf" in ran.stderr


def test_every_twin_is_run():
    called = set()

    class Recording(library.Library):
        def __getattr__(self, name):
            called.add(name)
            return super().__getattr__(name)

    device, twins = devices.Emulated(), Recording(emulated=True)
    for module in __main__.OPS.values():
        sizes = next(sizes for sizes in module.CASES.values() if sizes["small"])
        module.case(device, twins, np.random.default_rng(0), **sizes).run()
    symbols = subprocess.run(["nm", "-D", "--defined-only", library.build(emulated=True)], capture_output=True, text=True)
    assert called and called == set(re.findall(r" ctrlab_cuda_(\w+)$", symbols.stdout, re.M)), symbols.stderr


def test_attention_of_other_than_three_layers_is_refused():
    given = library.AttentionInput(layer_count=2)
    with pytest.raises(CtrlabError, match="attention was refused with cudaError 1"):
        library.Library(emulated=True).attention(byref(given), *[None] * 5)


@pytest.mark.parametrize(
    "kernel,name,seen",
    [
        ("if (threadIdx.x == 0) shared[0] = 1; __syncthreads(); out[threadIdx.x] = shared[0];", "tsan", ""),
        ("if (threadIdx.x == 0) shared[0] = 1; out[threadIdx.x] = shared[0];", "tsan", "data race"),
        ("shared[threadIdx.x + 1] = 1; __syncthreads(); out[threadIdx.x] = 1;", "asan", "heap-buffer-overflow"),
        ("out[threadIdx.x] = WarpSum(1.0f) / blockDim.x;", "asan", ""),
    ],
)
def test_the_emulation_sees_what_a_gpu_would_stumble_over(tmp_path, kernel, name, seen):
    environment = sanitized(name)
    source = tmp_path / "probe.cc"
    source.write_text(f"""
#include "kernels/cuda.h"
using namespace ctrlab;
__global__ void Probe(float* out) {{ [[maybe_unused]] CTRLAB_SHARED(shared); {kernel} }}
int main() {{ float out[8]; Launch(Probe, 2, 8, 8 * sizeof(float), nullptr, out); return out[7] != 1; }}
""")
    command = [
        *compiling.compiler(),
        "-std=c++20",
        "-g",
        "-O1",
        f"-fsanitize={SANITIZERS[name]}",
        "-I",
        ROOT / "native",
    ]
    subprocess.run([*command, source, "-o", tmp_path / "probe"], check=True)
    del environment["LD_PRELOAD"]
    ran = subprocess.run([tmp_path / "probe"], capture_output=True, text=True, timeout=60, env=os.environ | environment)
    if "unexpected memory mapping" in ran.stderr:
        pytest.skip("ThreadSanitizer of this compiler does not run under this system's address space layout")
    assert (ran.returncode != 0) == bool(seen), ran.stderr
    assert seen in ran.stderr


def test_nvcc_compiles_the_twins(tmp_path, monkeypatch):
    try:
        library.nvcc()
    except CtrlabError as missing:
        pytest.skip(str(missing))
    monkeypatch.setenv("CTRLAB_CACHE", str(tmp_path))
    assert library.build(emulated=False, arch="sm_90").stat().st_size > 0


def test_a_machine_without_a_gpu_is_told_so():
    ran = run("-m", "ctrlab.cuda", CUDA_VISIBLE_DEVICES="")
    assert ran.returncode == 1
    assert "A GPU and torch or CuPy are needed" in ran.stderr and "--emulated" in ran.stderr
