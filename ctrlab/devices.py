"""The device on which a model computes, and the blocks in which TensorFlow places variables and ops.

    cpu    all variables and ops of the model are on the CPU, whatever TensorFlow sees
    gpu    TensorFlow places them: on the GPU if it has a kernel there. Our ops are compiled for the CPU; they stay on it, and so
           do the variables that they change and the parsing of text
    auto   gpu if TensorFlow sees one and no rung and no embedding variable of the model would stay on the CPU; otherwise cpu

A checkpoint, a .keras file and an export know no device. On a machine without a GPU only our ops are placed.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Collection, Iterator

import tensorflow as tf

from ctrlab.errors import CtrlabError, choose
from ctrlab.optimizations import RUNGS

DEVICES = ("auto", "cpu", "gpu")
CPU = "CPU:0"

log = logging.getLogger(__name__)


def gpus() -> list[str]:
    """The GPUs that TensorFlow may use in this process."""
    return [gpu.name for gpu in tf.config.get_visible_devices("GPU")]


def staying(model: str, rungs: Collection[str], variables: bool) -> list[str]:
    """What of a model a GPU can't take, in words.

    Args:
        model: its name. rungs: of level "model". variables: whether it has embedding variables.
    """
    ours = [name for name in rungs if RUNGS[name].cpu_only and model in RUNGS[name].models]
    said = [f"the ops of {', '.join(ours)} and the variables that they change"] if ours else []
    return said + ["embedding variables, whose rows come and go"] * variables


def chosen(device: str, stays: Collection[str]) -> str:
    """The device, "cpu" or "gpu", that `device` stands for. If a GPU is there, one line in the log says what is not on it.

    Args:
        stays: as `staying` gives it.
    Raises:
        UnknownName: no such device. CtrlabError: "gpu", and TensorFlow sees none.
    """
    found, sentence = _resolved(device, stays)
    if sentence:
        log.warning(sentence)
    return found


def _resolved(device: str, stays: Collection[str]) -> tuple[str, str]:
    if choose("device", device, DEVICES) == "cpu":
        return "cpu", ""
    if not gpus():
        if device == "auto":
            return "cpu", ""
        raise CtrlabError(
            'The device "gpu" needs one that TensorFlow sees; it sees none: `ctrlab doctor` says what this machine has; "auto" '
            "takes the CPU where there is no GPU."
        )
    if device == "auto" and stays:
        return (
            "cpu",
            f'The model is on the CPU, though there is a GPU, for it can\'t take {" and ".join(stays)}; device="gpu" splits it.',
        )
    return "gpu", f"The model is on the GPU; on the CPU stay the parsing of text and {' and '.join(stays)}." if stays else ""


def use(device: str, stays: Collection[str]) -> str:
    """As `chosen`, for a process with one model: on the CPU it takes no memory of a GPU, on a GPU what it needs.

    Raises:
        As `chosen`; CtrlabError: as in `hide`.
    """
    if _resolved(device, stays)[0] == "gpu":
        share()
        return "gpu"
    chosen(device, stays)
    hide()
    return "cpu"


def share() -> None:
    """Lets this process take a GPU's memory as it needs it, and not all at once.

    Raises:
        CtrlabError: as in `hide`.
    """
    with _before_it_runs():
        for gpu in tf.config.get_visible_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)


def hide() -> None:
    """Lets TensorFlow see no GPU in this process, nor in those that it starts.

    Raises:
        CtrlabError: TensorFlow has run something already, and holds the GPU's memory.
    """
    if gpus():
        with _before_it_runs():
            tf.config.set_visible_devices([], "GPU")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


@contextlib.contextmanager
def _before_it_runs() -> Iterator[None]:
    try:
        yield
    except RuntimeError:
        raise CtrlabError(
            "A GPU is hidden or shared before TensorFlow runs anything, and in this process it has: start anew (in a notebook: "
            "Kernel, Restart), or set CUDA_VISIBLE_DEVICES=-1."
        ) from None


def on(device: str) -> contextlib.AbstractContextManager:
    """A block whose variables and ops are where a model on `device`, "cpu" or "gpu", has them."""
    return ours(device == "cpu" and bool(gpus()))


def of(model) -> contextlib.AbstractContextManager:
    """A block whose variables and ops are where those of `model` are. TensorFlow places those of a model that is not ours."""
    return on(getattr(model, "device", "gpu"))


def ours(needed: bool = True) -> contextlib.AbstractContextManager:
    """A block for ops that are compiled for the CPU alone, and for variables that they change; an empty one if not `needed`."""
    return tf.device(CPU) if needed else contextlib.nullcontext()


def is_ours(variable: tf.Variable) -> bool:
    """Whether our ops can read and change the variable."""
    return variable.device == "" or variable.device.endswith(CPU)


def require_ours(variable: tf.Variable) -> None:
    """Raises CtrlabError if the variable is where our ops can't change it."""
    if not is_ours(variable):
        raise CtrlabError(
            f"Ops of ctrlab are compiled for the CPU, and so the variables that they read must be there; received "
            f'{variable.name} on {variable.device}: make it in a block of tf.device("{CPU}").'
        )
