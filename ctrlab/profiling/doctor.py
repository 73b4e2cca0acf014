"""Examines this machine: what it has, what lessons need, and how to fix or override the rest."""

from __future__ import annotations

import functools
import json
import platform
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ctrlab.compiling import compiler
from ctrlab.errors import CtrlabError
from ctrlab.paths import cache_folder
from ctrlab.profiling import workbook
from ctrlab.profiling.machine import cores, cpu_model

State = Literal["ok", "limited", "absent", "missing"]

MEMORY_GB = 4
DISK_GB = 2
PORT = 8888
# TensorFlow and the compiled library are tried in a process of their own: an illegal instruction there is a finding here.
_TRY = """
import json, sys
found = {"native": "", "error": "", "gpus": 0, "step": ""}
import tensorflow as tf
found["tensorflow"] = tf.__version__
try:
    from ctrlab import _native
    _native.library()
    found["native"] = str(_native.LIBRARY)
except Exception as error:
    found["error"] = str(error)
from ctrlab import devices
found["gpus"] = len(devices.gpus())
if found["gpus"] and not found["error"]:
    try:
        import ctrlab
        devices.share()
        from ctrlab.schema import Categorical, Label, Schema
        from ctrlab.training import make_optimizer, train_step
        model = ctrlab.build("wdl", Schema("doctor", (Categorical("id", buckets=8), Label("label"))), device="gpu", size="small")
        train_step(model, make_optimizer(model))({"id": tf.constant(["a", "b"])}, tf.constant([[0.0], [1.0]])).numpy()
    except Exception as error:
        found["step"] = (str(error).strip().splitlines() or [type(error).__name__])[0]
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        found, needed: the state of the machine, and the lessons' requirement, as text.
        state: "limited" works with less speed or comfort; "missing" blocks the lessons that need it; so does "absent", but
            nothing is wrong.
        cure: how to fix it, or how to set ctrlab to something else.
        need: the name in a lesson's `needs` that this finding answers, or "" for all lessons.
    """

    name: str
    found: str
    needed: str
    state: State
    cure: str = ""
    need: str = ""


@dataclass(frozen=True)
class Report:
    """All findings, and their consequences for a lesson."""

    findings: tuple[Finding, ...]

    def reasons_against(self, needs: tuple[str, ...]) -> list[str]:
        """One sentence for each missing thing that a lesson with these needs requires."""
        missing = [f for f in self.findings if f.state in ("absent", "missing") and (not f.need or f.need in needs)]
        return [f"{f.name}: {f.needed} is needed, {f.found}. {f.cure}".strip() for f in missing]

    @property
    def healthy(self) -> bool:
        """Whether nothing is missing that every lesson needs."""
        return not self.reasons_against(())


def examine(quick: bool = False) -> Report:
    """Examine this machine; `quick` leaves out checks that take seconds or mean nothing inside a running lesson."""
    looks = [_python, _workbook, _cpu, _memory, _disk, _compiler]
    if not quick:
        looks += [_tensorflow, _native, _gpu, _port]
    return Report(tuple(look() for look in looks))


def _python() -> Finding:
    version = platform.python_version()
    ok = (3, 11) <= sys.version_info[:2] <= (3, 13)
    cure = "Make the environment with another: make clean, then make lab PYTHON=/path/to/python3.12."
    return Finding("Python", version, "3.11 to 3.13", "ok" if ok else "missing", cure)


def _workbook() -> Finding:
    names = workbook.missing()
    found = f"{', '.join(names)} not installed" if names else "installed"
    return Finding("workbook", found, "the extra ctrlab[lab]", "missing" if names else "ok", f"{workbook.CURE}.")


def _cpu() -> Finding:
    features = [name for name in ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16") if name in _cpu_flags()]
    ok = platform.machine() != "x86_64" or "avx" in _cpu_flags()
    found = f"{cpu_model()}, {cores()} cores, {' '.join(features) or 'no AVX2'}"
    cure = "TensorFlow's wheel was compiled for AVX: use another machine, or build TensorFlow for this one."
    return Finding("CPU", found, "AVX; AVX2 for speed", ("ok" if features else "limited") if ok else "missing", cure)


@functools.cache
def _cpu_flags() -> frozenset[str]:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(errors="replace").splitlines() if cpuinfo.is_file() else []
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), ()))


def _memory() -> Finding:
    cure = "Close other notebooks (Kernel, Shut Down All), or work at CTRLAB_PROFILE=tiny."
    meminfo = Path("/proc/meminfo")
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines()) if meminfo.is_file() else {}
    if "MemAvailable" not in lines:
        return Finding("memory", "unknown", f"{MEMORY_GB} GB", "limited", cure)
    free = int(lines["MemAvailable"].split()[0]) / 2**20  # from kB
    return Finding("memory", f"{free:.0f} GB free", f"{MEMORY_GB} GB", "ok" if free >= MEMORY_GB else "limited", cure)


def _disk() -> Finding:
    folder = cache_folder()
    free = shutil.disk_usage(folder).free / 2**30
    cure = "Free some space, or set CTRLAB_CACHE to a folder on a bigger disk."
    return Finding("disk", f"{free:.0f} GB free at {folder}", f"{DISK_GB} GB", "ok" if free >= DISK_GB else "limited", cure)


def _compiler() -> Finding:
    try:
        state, found = "ok", shutil.which(compiler()[0])
    except CtrlabError:
        state, found = "missing", "none"
    cure = "Install one (apt-get install g++), or name one with CXX=clang++."
    return Finding("compiler", found, "a C++20 compiler, to edit kernels", state, cure, need="compiler")


@functools.cache
def _tried() -> dict[str, str]:
    try:
        ran = subprocess.run([sys.executable, "-c", _TRY], capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return {"failure": "did not start within two minutes"}
    if ran.returncode:
        return {"failure": (ran.stderr.strip().splitlines() or [f"it ended with code {ran.returncode}"])[-1]}
    return json.loads(ran.stdout.splitlines()[-1])


def _tensorflow() -> Finding:
    version = _tried().get("tensorflow", "")
    cure = "Set the environment up again: make clean, then make lab."
    state = "ok" if version.startswith("2.21.") else "missing"
    return Finding("TensorFlow", version or _tried()["failure"], "2.21", state, cure, need="tensorflow")


def _native() -> Finding:
    path, error = _tried().get("native", ""), _tried().get("error", "")
    found = Path(path).name if path else error or "not tried: TensorFlow does not start"
    cure = "Build it again: pip install -e . --no-deps --no-build-isolation."
    return Finding("compiled library", found, "built for this TensorFlow", "ok" if path else "missing", cure, need="native")


def _gpu() -> Finding:
    gpus = _nvidia_smi("--query-gpu=name,memory.total,memory.used")
    if not gpus:
        cure = "Nothing to mend: cells for a GPU show recorded measurements here."
        return Finding("GPU", "none", "only cells marked so", "absent", cure, need="gpu")
    holders = ", ".join(_nvidia_smi("--query-compute-apps=pid,process_name,used_memory")) or "nobody"
    found, tried = f"{'; '.join(gpus)}; held by {holders}", _tried()
    if not tried.get("gpus"):
        cure = (
            "pip install tensorflow[and-cuda] brings the libraries that TensorFlow needs; CUDA_VISIBLE_DEVICES may hide the GPU."
        )
        return Finding("GPU", f"{found}; TensorFlow sees none", "only cells marked so", "absent", cure, need="gpu")
    if tried["step"]:
        cure = "Until it is mended: CUDA_VISIBLE_DEVICES=-1."
        return Finding("GPU", f"{found}; a step fails: {tried['step']}", "only cells marked so", "missing", cure, need="gpu")
    free = "To hide it: CUDA_VISIBLE_DEVICES=-1. To free it: end the processes that hold it."
    return Finding("GPU", f"{found}; a training step runs on it", "only cells marked so", "ok", free, need="gpu")


def _nvidia_smi(query: str) -> list[str]:
    try:
        command = ["nvidia-smi", query, "--format=csv,noheader"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in ran.stdout.splitlines() if line.strip()] if ran.returncode == 0 else []


def _port() -> Finding:
    free = port_is_free(PORT)
    state, found = ("ok", f"{PORT} is free") if free else ("limited", f"{PORT} is taken")
    return Finding("port", found, "one on loopback, for JupyterLab", state, "Choose another: ctrlab lab --port 8890.")


def port_is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
