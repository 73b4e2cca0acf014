"""Checkpoints that don't stop training: a snapshot between two steps, written to the disk by a thread of its own.

    folder/latest.json                      {"file": "step-000000200.safetensors", "step": 200}
    folder/step-000000100.safetensors       weights, slots, step count, generators, the reader's position
    folder/step-000000200.safetensors

A synchronous save holds training up until the disk has everything. An asynchronous one holds it up for one copy in memory
(`ctrlab.ops.snapshot`), and once more if the next save is due before the last one is on the disk. It needs memory for one more
copy of the state. A file appears whole, then the pointer `latest.json` moves on, then the oldest file is deleted: a process that
is killed at any moment loses the checkpoint it was writing, and nothing else. What the disk refuses is raised by the next step
or by `close`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from ctrlab.errors import BadData, CtrlabError
from ctrlab.ops import snapshot
from ctrlab.tensors import read_tensors, write_durably, write_tensors
from ctrlab.training.generators import get_generators, set_generators
from ctrlab.training.state import variables_of

FORMAT = "ctrlab checkpoint 1"
POINTER = "latest.json"
NAME = "step-{:09d}.safetensors"
PATTERN = re.compile(r"step-(\d{9,})\.safetensors")
THREAD = "ctrlab-checkpoint"


class CheckpointError(CtrlabError):
    """A checkpoint that could not be written."""


@dataclass(frozen=True)
class Restored:
    """What was restored: the file, the optimizer's step, the batches read until then, and one sentence a file passed over."""

    path: Path
    step: int
    position: int
    passed_over: tuple[str, ...] = ()


class Checkpoints:
    """Saves a training run every so many steps, and takes it up again. A hook of `train` and a context manager.

    The state is the model's variables, its seeds, the optimizer's slots and step count, the process's random generators and
    the position: the number of batches that were trained on. With the same seed a reader yields the rest of them after
    `read(..., start=position)`.

    Args:
        folder: made if it is not there. It belongs to one run.
        every: save whenever so many batches have been trained on; None: only when `save` is called.
        keep: how many checkpoints stay, the newest.
        asynchronous: write in the thread "ctrlab-checkpoint"; else in the training loop.
        resume: start from the last whole checkpoint, if there is one: see `restored`.
        run: what must be the same when the run is taken up again, e.g. {"seed": "2021"}.
    Raises:
        CtrlabError: the folder holds another run's checkpoints and `resume` was not asked for; they are of another model; the
            folder can't be made.

    >>> with Checkpoints("run", model, optimizer, every=1_000) as checkpoints:     # doctest: +SKIP
    ...     train(model, optimizer, batches, on_step=checkpoints)
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        model,
        optimizer,
        *,
        every: int | None = None,
        keep: int = 3,
        asynchronous: bool = True,
        resume: bool = False,
        run: Mapping[str, str] | None = None,
    ):
        if (every is not None and every < 1) or keep < 1:
            raise CtrlabError(f"`every` and `keep` must be at least 1; received every={every}, keep={keep}.")
        self.folder, self.every, self.keep, self.run = Path(folder), every, keep, dict(run or {})
        self.model, self.optimizer = model, optimizer
        self.position = 0
        self.restored: Restored | None = None
        self._open(resume)
        variables = state_variables(model, optimizer)
        self._sources = {name: v.value for name, v in variables.items()}
        if asynchronous:
            with tf.device("CPU:0"):  # made here, so that their memory is there before the first save
                self._buffers = {name: tf.Variable(tf.zeros_like(v), trainable=False) for name, v in self._sources.items()}
        on_gpu = any("GPU" in v.device for v in self._sources.values())
        self._copy = snapshot.stock if on_gpu else snapshot.fused
        self._thread = ThreadPoolExecutor(1, THREAD) if asynchronous else None
        self._writing: Future | None = None
        self._saved = self.position if self.restored else None

    def __call__(self, number: int, loss: float) -> None:
        """After a step: counts its batch, raises what the thread could not write, saves if it is time."""
        self.advance(1)

    def advance(self, batches: int) -> None:
        """`batches` more have been trained on."""
        before, self.position = self.position, self.position + batches
        if self._writing and self._writing.done():
            self.wait()
        if self.every and before // self.every < self.position // self.every:
            self.save()

    def save(self) -> None:
        """Saves the present state. Asynchronous: it returns when the copy is taken, after the last save is on the disk.

        Raises:
            CheckpointError: the disk refused this one (synchronous) or the last one (asynchronous).
        """
        self.wait()
        self._saved = self.position
        if self._thread is None:
            self._write(_views(self._sources), *self._now())
            return
        self._copy(list(self._sources.values()), list(self._buffers.values()))
        self._writing = self._thread.submit(lambda now: self._write(_views(self._buffers), *now), self._now())

    def save_last(self) -> None:
        """Saves the present state, unless the last save has it; waits until it is on the disk.

        Raises:
            CheckpointError: the disk refused it.
        """
        if self._saved != self.position:
            self.save()
        self.wait()

    def wait(self) -> None:
        """Until the last save is on the disk.

        Raises:
            CheckpointError: the disk refused it.
        """
        writing, self._writing = self._writing, None
        if writing:
            writing.result()

    def close(self) -> None:
        """Waits for the last save and ends the thread.

        Raises:
            CheckpointError: the disk refused the last save.
        """
        if self._thread:
            self._thread.shutdown()
        self.wait()

    def callback(self) -> tf.keras.callbacks.Callback:
        """The same for `model.fit(batches, callbacks=[checkpoints.callback()])`."""
        from ctrlab.training.callback import CheckpointCallback

        return CheckpointCallback(self)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind, exception, trace) -> None:
        try:
            self.close()
        except CheckpointError as problem:
            if exception is None:
                raise
            exception.add_note(str(problem))  # what ended the training comes first

    def _open(self, resume: bool) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for left in self.folder.glob(".*.part"):
                left.unlink()
        except OSError as error:
            raise CheckpointError(f"Folder {self.folder} can't take checkpoints: {error.strerror}; name another.") from None
        found = files_in(self.folder)
        if found and not resume:
            raise CheckpointError(
                f"Folder {self.folder} holds checkpoints of an earlier run, up to step {max(found)}; resume it, or name another."
            )
        if found:
            self.restored = restore(self.folder, self.model, self.optimizer, self.run)
            self.position = self.restored.position

    def _now(self) -> tuple[dict[str, np.ndarray], int, int]:
        return get_generators(), int(self.optimizer.iterations), self.position

    def _write(self, arrays: dict[str, np.ndarray], generators: dict[str, np.ndarray], step: int, position: int) -> None:
        name = NAME.format(step)
        arrays = arrays | {f"generators/{key}": value for key, value in generators.items()}
        metadata = {"format": FORMAT, "step": str(step), "position": str(position), "run": json.dumps(self.run, sort_keys=True)}
        try:
            write_tensors(self.folder / name, arrays, metadata)
            write_durably(self.folder / POINTER, [json.dumps({"file": name, "step": step}).encode()])
            self._delete_old(step)
        except OSError as error:
            raise CheckpointError(
                f"The checkpoint of step {step} could not be written to {self.folder}: {error.strerror}. "
                "Earlier ones are as they were; free some space or name another folder, and resume."
            ) from None

    def _delete_old(self, step: int) -> None:
        """All but the newest. Those of later steps were left by a run that was taken up again from before them."""
        found = files_in(self.folder)
        kept = sorted(s for s in found if s <= step)[-self.keep :]
        for other in set(found) - set(kept):
            found[other].unlink(missing_ok=True)


def restore(folder: str | os.PathLike, model, optimizer=None, run: Mapping[str, str] | None = None) -> Restored:
    """Puts the last whole checkpoint of `folder` into the model, the optimizer and the random generators.

    A damaged file is passed over for the one before it. Without an optimizer only the model's part is taken.

    Raises:
        BadData: there is no whole checkpoint. CtrlabError: it is of another model, or of a run with other facts than `run`.
    """
    passed_over = []
    for path in _candidates(Path(folder)):
        try:
            arrays, metadata = read_tensors(path)
            if metadata.get("format") != FORMAT:
                raise BadData(f"{path} holds tensors, but is no checkpoint of this version ({FORMAT!r}).")
            step, position, known = int(metadata["step"]), int(metadata["position"]), json.loads(metadata["run"])
        except BadData as problem:
            passed_over.append(str(problem))
            continue
        for name, value in (run or {}).items():
            if known.get(name) != value:
                raise CtrlabError(f"A run goes on with the same {name}; {path} has {known.get(name)}, now it is {value}.")
        _put(arrays, model, optimizer, path)
        return Restored(path, step, position, tuple(passed_over))
    reason = " ".join(passed_over) or "It has none."
    raise BadData(f"Folder {folder} has no whole checkpoint. {reason}")


def files_in(folder: Path) -> dict[int, Path]:
    """{step: file} of the checkpoints that lie in a folder."""
    matches = ((PATTERN.fullmatch(path.name), path) for path in folder.glob("step-*"))
    return {int(match[1]): path for match, path in matches if match}


def state_variables(model, optimizer=None) -> dict[str, object]:
    """{path: Keras variable}: weights, slots and step count, and the states of the model's seed generators."""
    metrics = {id(v) for v in getattr(model, "metrics_variables", ())}
    weights = {id(v) for v in model.weights}
    seeds = [v for v in model.variables if id(v) not in metrics | weights]
    return variables_of(model, optimizer) | {f"seed/{i}": v for i, v in enumerate(seeds)}


def _candidates(folder: Path) -> list[Path]:
    """The file that the pointer names, then the others, newest first."""
    found = files_in(folder)
    ordered = [found[step] for step in sorted(found, reverse=True)]
    try:
        named = folder / json.loads((folder / POINTER).read_text())["file"]
    except (OSError, ValueError, KeyError, TypeError):
        return ordered
    return sorted(ordered, key=lambda path: path != named)


def _put(arrays: dict[str, np.ndarray], model, optimizer, path: Path) -> None:
    variables = state_variables(model, optimizer)
    kept = {n: a for n, a in arrays.items() if not n.startswith("generators/") and (optimizer or not n.startswith("optimizer/"))}
    if odd := sorted(set(kept) ^ set(variables)):
        where = "the checkpoint" if odd[0] in kept else "the model"
        raise CtrlabError(f"{path} is of another model: {odd[0]!r} is only in {where} ({len(odd)} such names).")
    for name, v in variables.items():
        if tuple(v.shape) != kept[name].shape or np.dtype(v.dtype) != kept[name].dtype:
            there, here = f"{kept[name].dtype} {kept[name].shape}", f"{v.dtype} {tuple(v.shape)}"
            raise CtrlabError(f"{path} is of another model: {name} is {there} in the checkpoint and {here} in the model.")
    for name, v in variables.items():
        v.assign(kept[name])
    if optimizer:
        set_generators({n.removeprefix("generators/"): a for n, a in arrays.items() if n.startswith("generators/")})


def _views(variables: Mapping[str, tf.Variable]) -> dict[str, np.ndarray]:
    """The variables' values, without a copy of ours."""
    return {name: np.asarray(memoryview(v.read_value())) for name, v in variables.items()}
