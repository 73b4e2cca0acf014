"""Which number of workers is the fastest, over models, clusters and batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ctrlab.distributed.simulator.cluster import Cluster
from ctrlab.distributed.simulator.model import FLOPS, Model
from ctrlab.distributed.simulator.step import step

MOST = 64


def best(model: Model, cluster: Cluster, examples: Sequence[float], most: int = MOST, overlap: float = 0.0) -> np.ndarray:
    """The number of workers, at most so many, with the least seconds per step: int64, one for each number of examples.

    Of two that are as fast, the smaller one.
    """
    workers = np.arange(1, most + 1)[:, None]
    return 1 + np.argmin(step(model, cluster, workers, np.asarray(examples, float)[None, :], overlap).seconds, 0)


def wider(model: Model, dense: float, rate: float) -> Model:
    """The same model with another number of dense weights, on workers that attain so many FLOP/s."""
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
    links = [replace(cluster.between, per_byte=8e-6 / each) for each in megabits]
    return np.stack([best(model, replace(cluster, between=link), examples, most) for link in links])


def speedup(model: Model, cluster: Cluster, more: int, fewer: int, examples: Sequence[float]) -> np.ndarray:
    """How many times as fast `more` workers take a step as `fewer` do: float64, one for each number of examples."""
    examples = np.asarray(examples, float)
    return step(model, cluster, fewer, examples).seconds / step(model, cluster, more, examples).seconds
