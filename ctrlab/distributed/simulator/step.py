"""The seconds of a step, part by part. Workers and examples may be arrays: they are broadcast against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ctrlab.distributed import require
from ctrlab.distributed.simulator.cluster import Cluster, Numbers
from ctrlab.distributed.simulator.model import FLOAT, Model
from ctrlab.errors import CtrlabError


@dataclass(frozen=True)
class Step:
    """Seconds of one step; float64, of the shape of workers and examples together.

    Attributes:
        compute, launches, copies, reduce, exchange: see the package.
    """

    compute: np.ndarray
    launches: np.ndarray
    copies: np.ndarray
    reduce: np.ndarray
    exchange: np.ndarray

    @property
    def seconds(self) -> np.ndarray:
        return self.compute + self.launches + self.copies + self.reduce + self.exchange

    @property
    def launch_share(self) -> np.ndarray:
        """The fraction of the step in which the device waits for the next launch; 0 if the step takes no time."""
        return np.divide(self.launches, self.seconds, out=np.zeros_like(self.launches), where=self.seconds > 0)


def step(model: Model, cluster: Cluster, workers: Numbers, examples: Numbers) -> Step:
    """Simulates one step with `examples` examples in total, dealt out evenly.

    Args:
        workers: at least 1; nodes are filled one after the other.
    Raises:
        CtrlabError: the number of workers is not a whole number of at least 1, or the number of examples is negative.
    """
    examples = require.numbers("Examples of a step", examples, 0)
    workers, examples = _together(_workers(workers), examples)
    host, each = cluster.host, examples / workers
    slower = host.slower(np.minimum(workers, cluster.per_node))
    several = workers > 1
    own = several * (model.sharing + model.per_id * model.distinct(each * several))
    compute = (model.fixed + model.per_example * each + own) * (slower if host.computes else 1.0)
    if not model.sharded:
        compute = compute + model.per_row * model.ids * (examples - each)
    launches = np.maximum(model.kernels * host.launch * slower - compute, 0.0)
    fed = np.minimum(workers, cluster.per_node) if host.loop else 1.0
    copies = fed * (model.tensors * host.tensor * slower + model.bytes * each * host.copy)
    reduce = all_reduce(FLOAT * model.dense, model.reductions, cluster, workers)
    exchange = (_exchanged if model.sharded else _gathered)(model, cluster, workers, each)
    return Step(compute, launches, copies, reduce, exchange)


def sent(model: Model, workers: Numbers, examples: Numbers) -> np.ndarray:
    """Bytes that a worker sends per step of `examples` in total: (W - 1) / W of its data, because its own part is not sent.

    Args:
        workers: at least 1; may be an array, as `examples` may.
    Raises:
        CtrlabError: the number of workers is not a whole number of at least 1, or the number of examples is negative.
    """
    workers, examples = _together(_workers(workers), require.numbers("Examples of a step", examples, 0))
    own = _exchanged_bytes(model, workers, examples / workers) if model.sharded else _gathered_bytes(model, examples)
    return (workers - 1) / workers * (2 * FLOAT * model.dense + own)


def all_reduce(size: Numbers, times: float, cluster: Cluster, workers: Numbers) -> np.ndarray:
    """Seconds of `times` ring all-reduces of `size` bytes together.

        T = 2 (W - 1) alpha + 2 (W - 1) / W bytes beta

    The ring passes each node's own link once in each direction. The slowest link sets the rate of all.

    Source: Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009; the sum of latencies
    over both kinds of links is that of NCCL's own model (src/graph/tuning.cc).
    """
    workers, size = _together(_workers(workers), _bytes(size, times))
    nodes = _nodes(cluster, workers)
    between, steps = 2 * (nodes - 1), 2 * (workers - 1)
    near, far = links(cluster, workers)
    latency = (steps - between) * near.latency + between * far.latency
    per_byte = np.where(nodes > 1, np.maximum(near.per_byte, far.per_byte), near.per_byte)
    return times * latency + steps / workers * size * per_byte


def all_to_all(size: Numbers, times: float, cluster: Cluster, workers: Numbers) -> np.ndarray:
    """Seconds of `times` exchanges in which each worker gives every worker its equal part of `size` bytes together.

        T = alpha + (W - 1) message + (W - 1) / W bytes beta

    All messages are sent at once, so their latencies overlap; a host handles one after the other. Workers of a node
    send to other nodes over one link.

    Source: TensorFlow's tensorflow/core/common_runtime/all_to_all.cc, which posts all sends and receives of a worker together.
    """
    workers, size = _together(_workers(workers), _bytes(size, times))
    here = np.minimum(workers, cluster.per_node)
    away = workers - here
    near, far = links(cluster, workers)
    inside, between = cluster.inside.latency, cluster.between.latency
    latency = np.where(away > 0, np.maximum(inside, between), np.where(here > 1, inside, 0.0))
    latency = latency + (workers - 1) * (near.latency - inside)  # the link's own, once; a message's, of each
    return times * latency + size / workers * ((here - 1) * near.per_byte + here * away * far.per_byte)


def _exchanged(model: Model, cluster: Cluster, workers: np.ndarray, each: np.ndarray) -> np.ndarray:
    """Seconds of the exchanges: a worker's distinct ids to their owners, their rows back, and the rows' gradients."""
    if not model.dim:
        return np.zeros_like(workers)
    return all_to_all(_exchanged_bytes(model, workers, each), model.exchanges, cluster, workers)


def _gathered(model: Model, cluster: Cluster, workers: np.ndarray, each: np.ndarray) -> np.ndarray:
    """Seconds to send the gradient of every id of every example to every worker: a ring all-gather, half of an all-reduce."""
    return all_reduce(_gathered_bytes(model, workers * each), 1.0, cluster, workers) / 2


def _exchanged_bytes(model: Model, workers: np.ndarray, each: np.ndarray) -> np.ndarray:
    return model.padding * model.distinct(each * (workers > 1)) * _bytes_of_row(model, 2)


def _gathered_bytes(model: Model, examples: np.ndarray) -> np.ndarray:
    return examples * model.ids * _bytes_of_row(model, 1)


def _bytes_of_row(model: Model, times: int) -> float:
    """Bytes of an id, and of its row or gradient this many times; 0 for a model without tables."""
    return model.id_bytes + times * FLOAT * model.dim if model.dim else 0.0


def _workers(workers: Numbers) -> np.ndarray:
    return require.numbers("The number of workers", workers, 1, whole=True)


def _bytes(size: Numbers, times: float) -> np.ndarray:
    require.numbers("How often workers talk", times, 0, single=True)
    return require.numbers("Bytes that workers send", size, 0)


def _together(workers: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, ...]:
    try:
        return np.broadcast_arrays(workers, other)
    except ValueError:
        shapes = f"received the shapes {workers.shape} and {other.shape}"
        raise CtrlabError(f"Arrays of workers and of examples or bytes must be broadcast against each other; {shapes}.") from None


def _nodes(cluster: Cluster, workers: np.ndarray) -> np.ndarray:
    return np.ceil(workers / cluster.per_node)


def links(cluster: Cluster, workers: Numbers) -> tuple[Costs, Costs]:
    """The costs of the links inside a node and between nodes, including the host's own time."""
    host = cluster.host
    message = host.message * host.slower(np.minimum(workers, cluster.per_node))
    both = (cluster.inside, cluster.between)
    return tuple(Costs(link.latency + message, max(link.per_byte, host.byte)) for link in both)


class Costs(NamedTuple):
    """Seconds per message and per byte."""

    latency: Numbers
    per_byte: float
