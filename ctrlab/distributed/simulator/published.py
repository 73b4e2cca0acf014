"""What others published of more workers, simulated with `constants`; and for which numbers each conclusion holds.

A case that does not come out stays in the list. What a source leaves open is varied: see `ranges` and `flips`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctrlab.distributed.simulator import constants as c
from ctrlab.distributed.simulator import require
from ctrlab.distributed.simulator.cluster import Cluster, Host, Link
from ctrlab.distributed.simulator.model import FLOPS, Distinct, Model
from ctrlab.distributed.simulator.step import step
from ctrlab.distributed.simulator.surface import speedup
from ctrlab.plain import Plain

AWS = '"Optimizing CTR Model Training on 1B+ Datapoints", AWS, 2024'
NVIDIA = "NVIDIA, DeepLearningExamples, TensorFlow2/Recommendation"
LINKS = {"NVLink": c.NVLINK_V100, "PCI Express": c.PCIE}


@dataclass(frozen=True)
class Case(Plain):
    """A published number beside the simulated one.

    Attributes:
        says: what was published.
        source: where.
        low, high: between which the number was, or is said to be.
        simulated: with `constants`.
        within: the relative error up to which a number comes out; what is only said to be above 1 or below needs to be.
    """

    says: str
    source: str
    low: float
    high: float
    simulated: float
    within: float = 0.0

    @property
    def holds(self) -> bool:
        return self.low * (1 - self.within) <= self.simulated <= self.high * (1 + self.within)


def aws_model(dense: float = c.AWS_PARAMETERS[1], compiled: bool = False) -> Model:
    """Their model on V100, as TensorFlow's MirroredStrategy trains it: each GPU has whole tables, and all gradients of rows."""
    rows = {"ids": c.CRITEO_IDS, "dim": c.CRITEO_DIM, "sharded": False, "per_row": c.per_row(c.CRITEO_DIM, c.V100_MEMORY)}
    inputs = {"tensors": c.COLUMNS, "bytes": c.AWS_EXAMPLE_BYTES}
    kernels = c.KERNELS * (c.COMPILED if compiled else 1.0)
    return Model(dense, 0.0, FLOPS * dense / c.V100, kernels=kernels, **rows, **inputs)


def aws_cluster(inside: Link = c.NVLINK_V100, per_node: int = 8, cores: float = 8 * c.CORES_PER_GPU) -> Cluster:
    """One process per node, whose loop feeds all of its GPUs."""
    host = Host(cores, busy=c.INPUT_THREADS, launch=c.LAUNCH, tensor=c.TENSOR, copy=c.COPY, loop=True)
    return Cluster(per_node, inside, c.NETWORK_25G, host)


def cases() -> list[Case]:
    """Every published number."""
    found = []
    for dense in c.AWS_PARAMETERS:
        for link, inside in LINKS.items():
            [faster] = speedup(aws_model(dense), aws_cluster(inside), 4, 8, [c.AWS_BATCH])
            says = f"4 GPUs are faster than 8 for {dense / 1e6:g} million parameters ({link})"
            found.append(Case(says, AWS, 1.0, np.inf, float(faster)))
        [faster] = speedup(aws_model(dense), aws_cluster(per_node=4), 4, 8, [c.AWS_BATCH])
        says = f"one node of 4 GPUs is faster than two for {dense / 1e6:g} million parameters"
        found.append(Case(says, AWS, 1.0, np.inf, float(faster)))
    before, after = launch_shares([c.AWS_BATCH])
    found.append(Case("launches take 40 to 50 % of a step", AWS, 0.4, 0.5, float(before[0]), 0.2))
    found.append(Case("launches take 12.5 % of it with XLA and more cores", AWS, 0.125, 0.125, float(after[0]), 0.2))
    for name, (model, cluster, batch, published) in nvidia().items():
        [faster] = speedup(model, cluster, 8, 1, [batch])
        says = f"{name}: 8 GPUs are {published:.3g} times as fast as one"
        found.append(Case(says, NVIDIA, published, published, float(faster), 0.2))
    return found


def launch_shares(examples: Sequence[float], workers: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """The launches' share of a step, by examples: without XLA, on as many cores as input threads; with XLA, on a whole node's.

    The source's 40 to 50 % come out for 4,300 to 6,300 examples, its 12.5 % (within a fifth) for 7,500 to 8,300: not both of one
    batch, unless XLA leaves 2/3 of the launches or fewer. `constants.COMPILED` was counted on a CPU.
    """
    crowded = aws_cluster(cores=c.INPUT_THREADS)
    before = step(aws_model(), crowded, workers, np.asarray(examples, float))
    after = step(aws_model(compiled=True), aws_cluster(), workers, np.asarray(examples, float))
    return before.launch_share, after.launch_share


TIMES = 2.0 ** np.arange(-6, 6.25, 0.25)
"""Multiples of a constant for which a conclusion is tried."""
EXAMPLES = 2.0 ** np.arange(7, 20.25, 0.25)
"""Examples of a step for which it is."""


@dataclass(frozen=True)
class Range(Plain):
    """Of a constant: where a conclusion holds, all others as they are.

    Attributes:
        base: the constant.
        low, high: the least and the most of `TIMES` it for which the conclusion holds; None: for none.
    """

    base: float
    low: float | None
    high: float | None

    @property
    def any_less(self) -> bool:
        """Nothing that was tried is too little."""
        return self.low == self.base * TIMES[0]

    @property
    def any_more(self) -> bool:
        return self.high == self.base * TIMES[-1]


def ranges(dense: float = c.AWS_PARAMETERS[1], examples: float = c.AWS_BATCH) -> dict[str, Range]:
    """{constant: where 4 GPUs are at least as fast as 8}."""
    require.numbers("Dense weights whose ranges are sought", dense, 0, above=True, single=True)
    require.numbers("Examples of a step whose ranges are sought", examples, 0, above=True, single=True)
    model, cluster = aws_model(dense), aws_cluster()
    host, inside = cluster.host, cluster.inside
    cases = {
        "examples per step": (examples, lambda x: (model, cluster, x)),
        "dense weights": (dense, lambda x: (aws_model(x), cluster, examples)),
        "FLOP/s of a GPU": (c.V100, lambda x: (replace(model, per_example=FLOPS * dense / x), cluster, examples)),
        "seconds per launch": (host.launch, lambda x: (model, replace(cluster, host=replace(host, launch=x)), examples)),
        "seconds per tensor": (host.tensor, lambda x: (model, replace(cluster, host=replace(host, tensor=x)), examples)),
        "cores": (host.cores, lambda x: (model, replace(cluster, host=replace(host, cores=max(1.0, x))), examples)),
        "seconds per message": (inside.latency, lambda x: (model, replace(cluster, inside=replace(inside, latency=x)), examples)),
        "seconds per byte": (inside.per_byte, lambda x: (model, replace(cluster, inside=replace(inside, per_byte=x)), examples)),
    }
    found = {}
    for name, (base, changed) in cases.items():
        tried = [(float(value), changed(float(value))) for value in base * TIMES]
        hold = [value for value, (m, cl, n) in tried if speedup(m, cl, 4, 8, [n])[0] >= 1]
        found[name] = Range(base, min(hold, default=None), max(hold, default=None))
    return found


def flips(dense: Sequence[float]) -> dict[str, np.ndarray]:
    """{host and link: the most examples per step, for each number of dense weights, for which fewer GPUs are at least as fast}.

    Up to `EXAMPLES`' last; 0: for none.
    """
    one, loop = aws_cluster(per_node=4), {link: aws_cluster(inside) for link, inside in LINKS.items()}
    apart = {link: replace(cluster, host=replace(cluster.host, loop=False)) for link, cluster in loop.items()}
    clusters = {f"4 over 8, one loop feeds them, {link}": cluster for link, cluster in loop.items()}
    clusters |= {f"4 over 8, a process per GPU, {link}": cluster for link, cluster in apart.items()}
    clusters |= {"one node of 4 over two": one}

    def most(model: Model, cluster: Cluster) -> float:
        return float(np.max(EXAMPLES, where=speedup(model, cluster, 4, 8, EXAMPLES) >= 1, initial=0))

    return {name: np.array([most(aws_model(n), cluster) for n in dense]) for name, cluster in clusters.items()}


def nvidia() -> dict[str, tuple[Model, Cluster, int, float]]:
    """{name: (model, cluster, examples of a step, how many times as fast 8 GPUs were as one)}, the same examples on both.

    NVIDIA's DLRM on one GPU has smaller tables (15.6 GiB) than on eight (84.9 GiB), so its ratio is not of one model. That the
    A100's comes out hangs on the seconds of a launch: half gives 5.2, double 2.1.
    """
    launch, copy = {"launch": c.LAUNCH, "tensor": c.TENSOR}, {"copy": c.COPY}
    dgx1 = Cluster(8, c.NVLINK_V100, c.NETWORK_100G, Host(c.DGX1_CORES, **launch, **copy))
    a100 = Cluster(8, c.NVLINK_A100, c.NETWORK_100G, Host(c.DGX_A100_CORES, **launch, **copy))
    wide = Model(c.WIDE_DEEP, 0.0, 1.0, ids=13, dim=976 / 13, sharded=False, kernels=c.KERNELS, tensors=26, bytes=26 * 4)
    # Its tables lie on one GPU each, which sends a row for every id: none is found to come twice.
    every = Distinct((1.0,), (float(c.CRITEO_IDS),))
    dlrm = Model(c.DLRM, 0.0, 1.0, dim=c.DLRM_DIM, distinct=every, kernels=c.KERNELS * c.COMPILED, tensors=39, bytes=39 * 4)

    def on(model: Model, rate: float, memory: float) -> Model:
        return replace(model, per_example=1 / rate, per_row=0.0 if model.sharded else c.per_row(model.dim, memory))

    return {
        "Wide & Deep on V100": (on(wide, c.V100_EXAMPLES, c.V100_MEMORY), dgx1, c.WIDE_DEEP_BATCH, 1_490_044 / c.V100_EXAMPLES),
        "Wide & Deep on A100": (on(wide, c.A100_EXAMPLES, c.A100_MEMORY), a100, c.WIDE_DEEP_BATCH, 3_351_118 / c.A100_EXAMPLES),
        "DLRM on V100, with smaller tables on one": (
            on(dlrm, c.DLRM_V100_EXAMPLES, c.V100_MEMORY),
            dgx1,
            c.DLRM_BATCH,
            3.13e6 / c.DLRM_V100_EXAMPLES,
        ),
        "DLRM on A100, with smaller tables on one": (
            on(dlrm, c.DLRM_A100_EXAMPLES, c.A100_MEMORY),
            a100,
            c.DLRM_BATCH,
            10.9e6 / c.DLRM_A100_EXAMPLES,
        ),
    }
