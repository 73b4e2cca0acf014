"""Measures how long a checkpoint stops training: `ctrlab bench checkpoints`.

Two times are measured in pairs. `call` is the duration of `save()`: the next step can't begin before it returns. `stall` is the
extra duration of a series of steps when a save runs in it. It includes the time that the writing thread takes from the steps,
so on a machine with few cores it is larger than `call`. Variants:

    synchronous         `Checkpoints(asynchronous=False)`: writes the same file in the loop
    asynchronous        `Checkpoints()`
    tensorflow          tf.train.CheckpointManager
    tensorflow async    the same with experimental_enable_async_checkpoint
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from ctrlab.profiling.timing import Comparison, Interval, compare, timed
from ctrlab.training.checkpoint import Checkpoints

BASELINE = "synchronous"
NO_SAVE = "no save"


@dataclass(frozen=True)
class Stall:
    """The cost of saves.

    Attributes:
        megabytes: size of one checkpoint.
        steps: number of steps in a series.
        calls: seconds per save(), by variant.
        stretch: seconds for `steps` steps, by variant and without a save.
    """

    megabytes: float
    steps: int
    calls: Comparison
    stretch: Comparison

    def call_share(self, variant: str) -> Interval:
        """Duration of save() as a fraction of a synchronous one's."""
        return _shares(self.calls[variant].samples, self.calls[BASELINE].samples)

    def stall(self, variant: str) -> Interval:
        """Extra seconds of a series of steps with a save in it."""
        return Interval.of(self._stalls(variant))

    def stall_share(self, variant: str) -> Interval:
        """The same as a fraction of a synchronous save's."""
        return _shares(self._stalls(variant), self._stalls(BASELINE))

    def _stalls(self, variant: str) -> list[float]:
        return [a - b for a, b in zip(self.stretch[variant].samples, self.stretch[NO_SAVE].samples)]


def measure_stall(model, optimizer, step: Callable[[], object], folder: Path, repetitions: int | None = None) -> Stall:
    """Measures a model in training.

    Args:
        step: one training step.
        folder: on the disk that checkpoints go to; restored at the end.
    """
    with tempfile.TemporaryDirectory(prefix="stall-", dir=folder) as place:
        savers = {name: make(model, optimizer, Path(place, name)) for name, make in _SAVERS.items()}
        step()
        for save, wait in savers.values():
            save(), wait()
        calls = compare(
            {name: save for name, (save, _) in savers.items()},
            lambda call: _settle(savers, step),
            baseline=BASELINE,
            repetitions=repetitions,
            min_seconds=0.0,
        )
        # Twice the time of writing a file, so that the whole cost of writing falls into the series.
        steps = max(2, math.ceil(2 * calls[BASELINE].median / _seconds(step)))

        def stretch(save: Callable[[], object]) -> Callable[[], None]:
            def run() -> None:
                step()
                save()
                for _ in range(steps - 1):
                    step()

            return run

        saves = {NO_SAVE: lambda: None} | {name: save for name, (save, _) in savers.items()}
        stretches = compare(
            {name: stretch(save) for name, save in saves.items()},
            lambda call: _settle(savers),
            baseline=NO_SAVE,
            repetitions=repetitions,
            min_seconds=0.0,
        )
        _settle(savers)
        size = max(file.stat().st_size for file in Path(place, BASELINE).iterdir())
    return Stall(size / 1e6, steps, calls, stretches)


def _ours(asynchronous: bool):
    def make(model, optimizer, folder: Path):
        saver = Checkpoints(folder, model, optimizer, keep=1, asynchronous=asynchronous)
        return saver.save, saver.wait

    return make


def _tensorflows(asynchronous: bool):
    def make(model, optimizer, folder: Path):
        variables = [v.value for v in (*model.weights, *optimizer.variables)]
        manager = tf.train.CheckpointManager(tf.train.Checkpoint(variables=variables), str(folder), max_to_keep=1)
        options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=asynchronous)

        def wait() -> None:
            if asynchronous:
                manager.sync()

        return lambda: manager.save(options=options), wait

    return make


_SAVERS = {
    BASELINE: _ours(asynchronous=False),
    "asynchronous": _ours(asynchronous=True),
    "tensorflow": _tensorflows(asynchronous=False),
    "tensorflow async": _tensorflows(asynchronous=True),
}


def _settle(savers, step: Callable[[], object] = lambda: None) -> tuple:
    """Waits for writes to end and takes a step, so that all variables have changed: TensorFlow does not copy unchanged ones."""
    for _, wait in savers.values():
        wait()
    step()
    return ()


def _seconds(step: Callable[[], object]) -> float:
    return min(timed(step)[0] for _ in range(3))


def _shares(parts, wholes) -> Interval:
    return Interval.of([part / whole for part, whole in zip(parts, wholes)])
