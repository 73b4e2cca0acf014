"""The fastest number of workers, over models, clusters and batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ctrlab.distributed import require
from ctrlab.distributed.simulator.cluster import Cluster, Link
from ctrlab.distributed.simulator.model import FLOPS, Model
from ctrlab.distributed.simulator.step import step

MOST = 64


def best(model: Model, cluster: Cluster, examples: Sequence[float], most: int = MOST) -> np.ndarray:
    """The number of workers, at most `most`, with the least seconds per step: int64, one for each number of examples. Of two
    equally fast numbers, the smaller one.

    Raises:
        CtrlabError: `most` is not a whole number of at least 1; or as in `step`.
    """
    require.numbers("The most workers", most, 1, whole=True, single=True)
    workers = np.arange(1, most + 1)[:, None]
    return 1 + np.argmin(step(model, cluster, workers, np.atleast_1d(examples)[None, :]).seconds, 0)


def wider(model: Model, dense: float, rate: float) -> Model:
    """The same model with another number of dense weights, on workers that attain this many FLOP/s."""
    require.numbers("A worker's FLOP/s", rate, 0, above=True, single=True)
    require.numbers("Dense weights", dense, 0, single=True)
    more = FLOPS * (dense - model.dense) / rate
    return replace(model, dense=dense, per_example=max(0.0, model.per_example + more))


def over_dense(
    model: Model, cluster: Cluster, rate: float, dense: Sequence[float], examples: Sequence[float], most: int = MOST
) -> np.ndarray:
    """`best` for each number of dense weights: int64 [dense, examples]."""
    return np.stack([best(wider(model, n, rate), cluster, examples, most) for n in dense])


def over_bandwidth(
    model: Model, cluster: Cluster, megabits: Sequence[float], examples: Sequence[float], most: int = MOST
) -> np.ndarray:
    """`best` for links between nodes of each rate: int64 [megabits, examples]."""
    links = [Link.of(megabits=each, latency=cluster.between.latency) for each in megabits]
    return np.stack([best(model, replace(cluster, between=link), examples, most) for link in links])


def speedup(model: Model, cluster: Cluster, more: int, fewer: int, examples: Sequence[float]) -> np.ndarray:
    """The speed of `more` workers relative to `fewer`, per step: float64, one for each number of examples.

    Raises:
        CtrlabError: a step takes no time; or as in `step`.
    """
    slow, fast = (step(model, cluster, workers, np.atleast_1d(examples)).seconds for workers in (fewer, more))
    require.numbers("Seconds of steps that are compared", np.stack([slow, fast]), 0, above=True)
    return slow / fast
