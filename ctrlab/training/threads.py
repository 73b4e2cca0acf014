"""The number of threads and of prefetched batches in training: the rungs "threads" and "stage".

`ctrlab tune` (`ctrlab.training.tune`) finds the best setting of a machine. The cache keeps it in one file per machine.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from ctrlab.errors import CtrlabError
from ctrlab.paths import cache_folder, write_atomically
from ctrlab.profiling.machine import cores, cpu_model, versions


@dataclass(frozen=True)
class Setting:
    """A setting that can be tuned.

    Attributes:
        intra: threads that one op may use; 0: one per core.
        inter: ops that may run at the same time; 0: one per core.
        prefetch: batches that the reader keeps ready.
        stage: batches that the stage keeps ready; 0: no stage.
    """

    intra: int = 0
    inter: int = 0
    prefetch: int = 2
    stage: int = 0


STOCK = Setting()
STAGED = Setting(stage=2)


@dataclass(frozen=True)
class Choice:
    """A setting and its origin, in words."""

    setting: Setting
    source: str


def choose_setting(model: str, rungs: Collection[str]) -> Choice:
    """The setting for a run of `model` with `rungs`.

    Without the rung "threads" it is TensorFlow's own, with two staged batches if "stage" is on. With "threads" it is what
    `ctrlab tune` found on this machine, or TensorFlow's own if it has not run.
    """
    own = STAGED if "stage" in rungs else STOCK
    if "threads" not in rungs:
        return Choice(own, "TensorFlow's own")
    found = stored().get(model)
    if found is None:
        return Choice(own, f"TensorFlow's own: this machine has not been tuned for {model} (ctrlab tune {model})")
    setting = Setting(**found["setting"])
    if "stage" not in rungs:
        setting = dataclasses.replace(setting, stage=0)
    return Choice(setting, f"tuned on this machine on {found['when']}")


def apply_threads(setting: Setting) -> None:
    """Sets the process's threads. Call it before TensorFlow runs anything.

    Raises:
        CtrlabError: TensorFlow has already run with other numbers, which are fixed then.
    """
    threading = tf.config.threading
    wanted = setting.intra, setting.inter
    if (threading.get_intra_op_parallelism_threads(), threading.get_inter_op_parallelism_threads()) == wanted:
        return
    try:
        threading.set_intra_op_parallelism_threads(setting.intra)
        threading.set_inter_op_parallelism_threads(setting.inter)
    except RuntimeError:
        raise CtrlabError(
            f"Threads are set before TensorFlow runs anything; {wanted[0]} and {wanted[1]} were asked for when it already had. "
            "Start a new process (in a notebook: restart the kernel) and set them first."
        ) from None


def fingerprint() -> str:
    """The conditions for which a tuned setting is valid: the processor, its cores, the version of TensorFlow."""
    known = f"{cpu_model()}, {cores()} cores, TensorFlow {versions().get('tensorflow', 'none')}"
    return hashlib.sha256(known.encode()).hexdigest()[:12]


def stored() -> dict[str, dict]:
    """The tuned settings of this machine, by model; empty if there are none or the file can't be parsed."""
    try:
        found = json.loads(_file().read_text())
        return {model: entry for model, entry in found.items() if Setting(**entry["setting"]) and "when" in entry}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def store(model: str, entry: dict) -> Path:
    """Stores the result of tuning `model` on this machine: {"setting": ..., "when": date, ...}."""
    path = _file()
    write_atomically(path, json.dumps(stored() | {model: entry}, indent=1) + "\n")
    return path


def _file() -> Path:
    return cache_folder() / f"tuned-{fingerprint()}.json"
