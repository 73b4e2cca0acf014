"""Published results on more workers, simulated with `constants`; and the ranges of numbers for which each conclusion holds.

A case that does not come out stays in the list. Numbers that a source does not give are varied: see `ranges`, `joint` and
`flips`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from ctrlab.lessons.topics.more_workers import constants as c
from ctrlab.lessons.topics.more_workers.aws import BASE, aws_cluster, aws_model, cluster_of, model_of
from ctrlab.lessons.topics.more_workers.surface import speedup

from ctrlab.distributed import require
from ctrlab.distributed.simulator.cluster import Cluster, Host, Numbers
from ctrlab.distributed.simulator.model import FLOAT, Distinct, Model
from ctrlab.distributed.simulator.step import step
from ctrlab.plain import Plain

AWS = '"Optimizing CTR Model Training on 1B+ Datapoints", AWS, 2024'
NVIDIA = "NVIDIA, DeepLearningExamples, TensorFlow2/Recommendation"
WITHIN = 0.2
"""The largest relative error up to which a simulated number counts as the published one."""
AWS_GPUS = 4
"""Number of GPUs of the trainings whose share of launches was published."""
LINKS = {"NVLink": c.NVLINK_V100, "PCI Express": c.PCIE}


@dataclass(frozen=True)
class Case(Plain):
    """A published number beside the simulated one.

    Attributes:
        says: the published statement.
        source: its source.
        low, high: the range of the published number.
        simulated: the number with `constants`.
        within: the relative error up to which the number comes out. A number that is only said to be above or below 1 must be so.
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


MOST = {"share of them that XLA leaves": 1.0}
LEAST = {"cores": 1.0}
"""The least sensible value of a constant. A smaller value is replaced by it."""


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
    found.append(Case("launches take 40 to 50 % of a step", AWS, 0.4, 0.5, float(before[0]), WITHIN))
    found.append(Case("launches take 12.5 % of it with XLA and more cores", AWS, 0.125, 0.125, float(after[0]), WITHIN))
    for name, (model, cluster, batch, published) in nvidia().items():
        [faster] = speedup(model, cluster, 8, 1, [batch])
        says = f"{name}: 8 GPUs are {published:.3g} times as fast as one"
        found.append(Case(says, NVIDIA, published, published, float(faster), WITHIN))
    return found


def launch_shares(examples: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The launches' share of a step, by examples: without XLA, on as many cores as input threads; with XLA, on a whole node's.

    The source's 40 to 50 % come out for 4,300 to 6,300 examples, its 12.5 % (within a fifth) for 7,500 to 8,300: not both of one
    batch, unless XLA leaves 2/3 of the launches or fewer. `constants.COMPILED` was counted on a CPU.
    """
    return _launch_shares(BASE, np.asarray(examples, float))


def _launch_shares(of: Mapping[str, float], examples: Numbers) -> tuple[np.ndarray, np.ndarray]:
    crowded = cluster_of({**of, "cores": max(1.0, of["input threads"])})
    before = step(model_of(of), crowded, AWS_GPUS, examples)
    after = step(model_of(of, compiled=True), cluster_of(of), AWS_GPUS, examples)
    return before.launch_share, after.launch_share


TIMES = 2.0 ** np.arange(-6, 6.25, 0.25)
"""The multiples of a constant for which a conclusion is tested."""
EXAMPLES = 2.0 ** np.arange(7, 20.25, 0.25)
"""The numbers of examples per step for which a conclusion is tested."""


@dataclass(frozen=True)
class Range(Plain):
    """The range in which a conclusion holds if one constant is changed and all others are kept.

    Attributes:
        base: the constant.
        low, high: the smallest and the largest of `TIMES` the constant for which the conclusion holds; None: for none.
    """

    base: float
    low: float | None
    high: float | None

    @property
    def any_less(self) -> bool:
        """Whether the conclusion holds down to the smallest value that was tested."""
        return self.low == self.base * TIMES[0]

    @property
    def any_more(self) -> bool:
        return self.high == self.base * TIMES[-1]


def ranges(dense: float = BASE["dense weights"], examples: float = BASE["examples per step"]) -> dict[str, Range]:
    """{constant: range in which 4 GPUs are at least as fast as 8}, for each constant on which this depends; all others are
    kept.
    """
    require.numbers("Dense weights whose ranges are sought", dense, 0, above=True, single=True)
    require.numbers("Examples of a step whose ranges are sought", examples, 0, above=True, single=True)
    base, found = BASE | {"dense weights": dense, "examples per step": examples}, {}
    for name, value in base.items():
        if name not in ELSEWHERE:
            hold = [x for x in (value * TIMES).tolist() if _few_win(base | {name: _possible(name, x)})]
            found[name] = Range(value, min(hold, default=None), max(hold, default=None))
    return found


ELSEWHERE = frozenset(name for name in BASE if "between nodes" in name or "XLA" in name)
"""Constants that do not affect whether 4 GPUs of one node beat 8 of it, without XLA."""


def _possible(name: str, value: float) -> float:
    return min(max(value, LEAST.get(name, 0.0)), MOST.get(name, math.inf))


def _few_win(of: Mapping[str, float], per_node: int = 8, loop: bool = True) -> bool:
    cluster = cluster_of(of, per_node)
    cluster = replace(cluster, host=replace(cluster.host, loop=loop))
    return bool(speedup(model_of(of), cluster, 4, 8, [of["examples per step"]])[0] >= 1)


def _share_is(which: int, low: float, high: float) -> Callable[[Mapping[str, float]], bool]:
    def holds(of: Mapping[str, float]) -> bool:
        share = float(_launch_shares(of, of["examples per step"])[which])
        return Case("", AWS, low, high, share, WITHIN).holds

    return holds


CONCLUSIONS = {
    "4 GPUs are at least as fast as 8, which one loop feeds": _few_win,
    "4 GPUs are at least as fast as 8, with a process each": partial(_few_win, loop=False),
    "one node of 4 GPUs is at least as fast as two": partial(_few_win, per_node=4),
    "launches take 40 to 50 % of a step": _share_is(0, 0.4, 0.5),
    "launches take 12.5 % of it with XLA and more cores": _share_is(1, 0.125, 0.125),
}
"""AWS's conclusions as functions of the constants, and whether each depends on the single loop."""
FACTORS = (1.5, 2.0, 4.0, 8.0)
DRAWS, SEED = 400, 2_021


def joint(factor: float, draws: int = DRAWS, seed: int = SEED) -> dict[str, float]:
    """{conclusion: the fraction of draws in which it holds}, if all of `BASE` are drawn together; the last entry is for both in
    one draw. Each constant is drawn independently, log-uniformly between itself divided by `factor` and times `factor`. The dense
    weights are drawn from the 3 to 10 million to which the conclusions refer. The same seed gives corresponding draws for each
    factor.

    Raises:
        CtrlabError: the factor is below 1, or there are no draws.
    """
    require.numbers("The factor within which constants are drawn", factor, 1, single=True)
    require.numbers("The number of draws", draws, 1, whole=True, single=True)
    rng, holds = np.random.default_rng(seed), []
    low, *_, high = c.AWS_PARAMETERS
    for _ in range(draws):
        at = dict(zip(BASE, rng.uniform(-1, 1, len(BASE)).tolist()))
        of = {name: _possible(name, value * factor ** at[name]) for name, value in BASE.items()}
        of["dense weights"] = low * (high / low) ** (0.5 + at["dense weights"] / 2)
        holds.append([conclusion(of) for conclusion in CONCLUSIONS.values()])
    held = np.array(holds)
    shares = dict(zip(CONCLUSIONS, held.mean(0).tolist()))
    return shares | {"both shares of launches": float(held[:, -2:].all(1).mean())}


def flips(dense: Sequence[float]) -> dict[str, np.ndarray]:
    """{host and link: for each number of dense weights, the most examples per step for which fewer GPUs are at least as fast}. It
    is at most `EXAMPLES`' last; 0: for none.
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
    """{name: (model, cluster, examples per step, speed of 8 GPUs relative to one)}, with the same examples on both.

    NVIDIA's DLRM on one GPU has smaller tables (15.6 GiB) than on eight (84.9 GiB), so its ratio compares different models.
    Whether the A100's comes out depends on the seconds per launch: half of them give 5.2, double 2.1.
    """
    launch, copy = {"launch": c.LAUNCH, "tensor": c.TENSOR}, {"copy": c.COPY}
    dgx1 = Cluster(8, c.NVLINK_V100, c.NETWORK_100G, Host(c.DGX1_CORES, **launch, **copy))
    dgx_a100 = Cluster(8, c.NVLINK_A100, c.NETWORK_100G, Host(c.DGX_A100_CORES, **launch, **copy))
    wide = Model(c.WIDE_DEEP, 0.0, 1.0, ids=13, dim=976 / 13, sharded=False, kernels=c.KERNELS, **_inputs(c.WIDE_DEEP_COLUMNS))
    # Its tables lie on one GPU each, which sends a row for every id: none is found to come twice.
    every = Distinct((1.0,), (float(c.CRITEO_IDS),))
    dlrm = Model(c.DLRM, 0.0, 1.0, dim=c.DLRM_DIM, distinct=every, kernels=c.KERNELS * c.COMPILED, **_inputs(c.COLUMNS))

    def on(gpu: tuple[Cluster, float], model: Model, batch: int, one: float, eight: float) -> tuple:
        cluster, memory = gpu
        per_row = 0.0 if model.sharded else c.per_row(model.dim, memory)
        return replace(model, per_example=1 / one, per_row=per_row), cluster, batch, eight / one

    v100, a100 = (dgx1, c.V100_MEMORY), (dgx_a100, c.A100_MEMORY)
    smaller = "with smaller tables on one"
    return {
        "Wide & Deep on V100": on(v100, wide, c.WIDE_DEEP_BATCH, c.V100_EXAMPLES, c.V100_EIGHT),
        "Wide & Deep on A100": on(a100, wide, c.WIDE_DEEP_BATCH, c.A100_EXAMPLES, c.A100_EIGHT),
        f"DLRM on V100, {smaller}": on(v100, dlrm, c.DLRM_BATCH, c.DLRM_V100_EXAMPLES, c.DLRM_V100_EIGHT),
        f"DLRM on A100, {smaller}": on(a100, dlrm, c.DLRM_BATCH, c.DLRM_A100_EXAMPLES, c.DLRM_A100_EIGHT),
    }


def _inputs(columns: int) -> dict[str, int]:
    return {"tensors": columns, "bytes": columns * FLOAT}
