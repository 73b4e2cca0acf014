"""Measures the simulator's inputs on this machine: a step of one process, by number of examples, and the distinct ids of its
batches.

distinct    distinct ids of batches of generated rows, counted
seconds     a step of one process, by examples: the line through them is `fixed` and `per_example`

The rest of `Parts` is measured by `ctrlab bench simulator`, whose record it is.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ctrlab.lessons.topics.more_workers.fitting import line_through
from ctrlab.lessons.topics.more_workers.traffic import least

from ctrlab import profiles, whole_batch
from ctrlab.distributed import require
from ctrlab.distributed.simulator.model import Distinct
from ctrlab.models import MODELS, build
from ctrlab.plain import Plain
from ctrlab.profiling.timing import compare
from ctrlab.training.run import Run
from ctrlab.training.spec import Spec
from ctrlab.whole_batch import Shard

BATCHES = 8
COUNTED = (64, 256, 1_024, 4_096, 16_384)
"""Numbers of examples whose distinct ids are counted."""


@dataclass(frozen=True)
class Job:
    """A training whose steps are measured.

    Attributes:
        model, embedding, profile: names.
        optimizations: names of rungs.
        seed: determines weights and rows.
    """

    model: str
    optimizations: list[str]
    embedding: str
    profile: str
    seed: int

    def spec(self, batch: int) -> Spec:
        sizes = MODELS[self.model].presets["contest"]
        sizes = dataclasses.replace(sizes, hyper=dataclasses.replace(sizes.hyper, batch_size=batch))
        given = {"embedding": self.embedding, "profile": self.profile, "size": sizes, "seed": self.seed}
        return Spec(self.model, self.optimizations, format="parquet", epochs=-1, **given)


@dataclass(frozen=True)
class Launches(Plain):
    """The number of ops of a step, forward and backward, that launch work: in the graph, and after XLA has fused them for a CPU.
    Inputs, constants and views are not counted. XLA fuses more for a GPU, so fewer may be left there.
    """

    ops: int
    compiled: int

    def __post_init__(self):
        require.attributes("A step", self, ops=1, compiled=0)

    @property
    def left(self) -> float:
        return self.compiled / self.ops


@dataclass(frozen=True)
class Parts(Plain):
    """The measured inputs of the simulator.

    Attributes:
        model: the model whose step was timed.
        examples: the numbers of examples of the timed steps.
        seconds: for each of them, seconds per step by repetition.
        distinct: the distinct ids of the model's own data.
        tensor: seconds that a Python thread takes to pass a small tensor to TensorFlow, as a loop over devices does for each
            column.
        launches: those of DLRM on Criteo's columns, which have no lists, because XLA does not compile ragged tensors.
    """

    model: str
    examples: tuple[int, ...]
    seconds: tuple[tuple[float, ...], ...]
    distinct: Distinct
    tensor: float
    launches: Launches

    @property
    def line(self) -> tuple[float, float]:
        """(fixed, per_example): seconds per step, and per example."""
        return line_through(dict(zip(self.examples, self.seconds)))


def step_seconds(job: Job, examples: Sequence[int]) -> tuple[tuple[float, ...], ...]:
    """Seconds of steps of one process, in rounds over all sizes; their batches were read before."""
    runs = {n: Run(job.spec(n)) for n in examples}
    batches = {n: list(run.read().take(BATCHES)) for n, run in runs.items()}

    def stepper(n: int):
        return lambda number: runs[n].train(1, batches=batches[n][number % len(batches[n]) :])

    found = compare({str(n): stepper(n) for n in examples}, lambda number: (number,), baseline=str(examples[0]))
    return tuple(found[str(n)].samples for n in examples)


def counted(job: Job) -> Distinct:
    """The distinct ids in the first rows of the model's data, over all tables."""
    sizes = [n for n in COUNTED if n <= profiles.current(job.profile).rows]
    run = Run(job.spec(sizes[-1]))
    features, _ = next(iter(run.read()))
    fresh = functools.partial(build, job.model, None, run.rungs["model"], size=run.spec.size)
    model = functools.cache(fresh)
    ids = [least(model, [{name: column[:n] for name, column in features.items()}] * 2).distinct for n in sizes]
    return Distinct(tuple(map(float, sizes)), tuple(map(float, ids)), vocabulary(fresh) if job.embedding == "hashed" else None)


def vocabulary(model: Callable[[], object]) -> float:
    """The number of rows of all tables of a model with hashed ids; no batch has more distinct ids.

    Args:
        model: a function that builds the model.
    """
    rows = 0
    for index in range(2):
        with whole_batch.sharded(Shard(index, 2)):
            rows += sum(v.shape[0] for v in model().trainable_variables if whole_batch.is_sharded(v))
    return float(rows)
