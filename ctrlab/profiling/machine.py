"""The machine on which a number was measured: every measurement, chart and report carries this line."""

from __future__ import annotations

import functools
import os
import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """The hardware and software of a run.

    Attributes:
        device: CPU model and cores, and the GPU if TensorFlow has one: "AMD EPYC, 2 cores".
        threads: threads that one TensorFlow op may use (the intra-op pool).
        versions: the versions of "python", "tensorflow", "numpy" and "ctrlab", if installed.
    """

    device: str
    threads: int
    versions: dict[str, str]

    @property
    def line(self) -> str:
        """One line under every chart: "AMD EPYC, 2 cores · 2 threads · TensorFlow 2.21.0"."""
        tensorflow = f" · TensorFlow {self.versions['tensorflow']}" if "tensorflow" in self.versions else ""
        return f"{self.device} · {self.threads} thread{'s' * (self.threads != 1)}{tensorflow}"


def machine() -> Machine:
    """The current machine; imports no module that is not loaded already."""
    names = ", ".join(filter(None, [f"{cpu_model()}, {cores()} core{'s' * (cores() != 1)}", _gpu_names()]))
    return Machine(device=names, threads=threads(), versions=versions())


@functools.cache
def cpu_model() -> str:
    """The processor's own name, e.g. "AMD EPYC"."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.lower().startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine() or "unknown CPU"


def cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Threads of TensorFlow's intra-op pool; the number of cores if TensorFlow is not loaded or uses its default."""
    tf = sys.modules.get("tensorflow")
    return (tf.config.threading.get_intra_op_parallelism_threads() if tf else 0) or cores()


def versions() -> dict[str, str]:
    """Versions of the libraries that affect times; packages that are not installed are left out."""
    found = {"python": platform.python_version()}
    for name in ("tensorflow", "numpy", "ctrlab"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _gpu_names() -> str:
    tf = sys.modules.get("tensorflow")
    if tf is None:
        return ""
    gpus = tf.config.get_visible_devices("GPU")
    return ", ".join(tf.config.experimental.get_device_details(gpu).get("device_name", "GPU") for gpu in gpus)
