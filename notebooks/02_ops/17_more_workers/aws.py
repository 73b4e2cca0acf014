"""The trainings of "Optimizing CTR Model Training on 1B+ Datapoints", AWS, 2024, as models and clusters to simulate."""

from __future__ import annotations

from collections.abc import Mapping

from ctrlab.lessons.topics.more_workers import constants as c

from ctrlab.distributed.simulator.cluster import Cluster, Host, Link
from ctrlab.distributed.simulator.model import FLOPS, Model

BASE = {
    "examples per step": c.AWS_BATCH,
    "dense weights": c.AWS_PARAMETERS[1],
    "FLOP/s of a GPU": c.V100,
    "bytes per second of its memory": c.V100_MEMORY,
    "kernels per step": c.KERNELS,
    "share of them that XLA leaves": c.COMPILED,
    "columns": c.COLUMNS,
    "bytes per example": c.AWS_EXAMPLE_BYTES,
    "ids per example": c.CRITEO_IDS,
    "numbers per row": c.CRITEO_DIM,
    "seconds per launch": c.LAUNCH,
    "seconds per tensor": c.TENSOR,
    "seconds per copied byte": c.COPY,
    "cores": 8 * c.CORES_PER_GPU,
    "input threads": c.INPUT_THREADS,
    "seconds per message": c.NVLINK_V100.latency,
    "seconds per byte": c.NVLINK_V100.per_byte,
    "seconds per message between nodes": c.NETWORK_25G.latency,
    "seconds per byte between nodes": c.NETWORK_25G.per_byte,
}
"""The constants of AWS's trainings: cited, measured or assumed, see `constants`."""


def aws_model(dense: float = c.AWS_PARAMETERS[1], compiled: bool = False) -> Model:
    """Their model on V100, as TensorFlow's MirroredStrategy trains it: each GPU has whole tables, and all gradients of rows."""
    return model_of(BASE | {"dense weights": dense}, compiled)


def aws_cluster(inside: Link = c.NVLINK_V100, per_node: int = 8) -> Cluster:
    """One process per node, whose loop feeds all of its GPUs."""
    values = {"seconds per message": inside.latency, "seconds per byte": inside.per_byte}
    return cluster_of(BASE | values, per_node)


def model_of(of: Mapping[str, float], compiled: bool = False) -> Model:
    dim, dense = of["numbers per row"], of["dense weights"]
    per_row = c.per_row(dim, of["bytes per second of its memory"])
    kernels = of["kernels per step"] * (of["share of them that XLA leaves"] if compiled else 1.0)
    inputs = {"tensors": of["columns"], "bytes": of["bytes per example"]}
    tables = {"ids": of["ids per example"], "dim": dim, "sharded": False, "per_row": per_row}
    return Model(dense, 0.0, FLOPS * dense / of["FLOP/s of a GPU"], kernels=kernels, **tables, **inputs)


def cluster_of(of: Mapping[str, float], per_node: int = 8) -> Cluster:
    costs = {"launch": of["seconds per launch"], "tensor": of["seconds per tensor"], "copy": of["seconds per copied byte"]}
    host = Host(of["cores"], busy=of["input threads"], loop=True, **costs)
    inside = Link(of["seconds per message"], of["seconds per byte"])
    between = Link(of["seconds per message between nodes"], of["seconds per byte between nodes"])
    return Cluster(per_node, inside, between, host)
