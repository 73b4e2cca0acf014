"""The wheel for other machines, installed where only its requirements are: it takes the best kernels that a CPU can run."""

import os
import site
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PROGRAM = """
import os, re, sys
import numpy as np, tensorflow as tf
import ctrlab
from ctrlab.ops import dot_interaction
from ctrlab.serving import processor
assert ctrlab.__file__.startswith(sys.prefix), ctrlab.__file__
fields = tf.constant(np.random.default_rng(1).standard_normal((70, 5 * 17)), tf.float32)
found = dot_interaction.fused(None, fields, 17)
np.testing.assert_allclose(found, dot_interaction.baseline(None, fields, 17), rtol=1e-4, atol=1e-4)
processor._library()
maps = open("/proc/self/maps").read()
print(sorted(set(re.findall(r"ctrlab/(?:glibc-hwcaps/)?([\\w.-]*?)/?libctrlab_(?:kernels|engine).so", maps))))
"""


@pytest.mark.long
def test_the_wheel_runs_and_takes_what_the_cpu_can_run(tmp_path):
    subprocess.run(["make", "wheel"], cwd=ROOT, check=True)
    [wheel] = (ROOT / "dist").glob("ctrlab-*.whl")
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    there = ["--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run([sys.executable, "-m", "pip", *there], check=True)
    [packages] = (tmp_path / "venv").glob("lib/python*/site-packages")
    # The requirements, from this environment; as a path, it does not bring the checkout along.
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    flags = Path("/proc/cpuinfo").read_text()
    best = "x86-64-v4" if " avx512vl" in flags else "x86-64-v3" if " avx2" in flags else ""
    levels = {"": best, "-AVX512F": min(best, "x86-64-v3"), "-AVX512F,-AVX2": ""}
    for masked, level in levels.items():
        environment = os.environ | {"GLIBC_TUNABLES": f"glibc.cpu.hwcaps={masked}"}
        ran = subprocess.run([python, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert (ran.returncode, ran.stdout.strip()) == (0, f"['{level}']"), ran.stdout + ran.stderr
    refused = subprocess.run([python, "-m", "ctrlab", "bench", "peers"], cwd=tmp_path, capture_output=True, text=True)
    assert refused.returncode == 1 and "comes with a checkout of the repository" in refused.stderr, refused.stderr
