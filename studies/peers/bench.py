"""Runs the comparison: case by case, our worker and its peers' alternately, in blocks of steps."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ctrlab import profiles
from ctrlab.errors import CtrlabError, choose
from ctrlab.profiling.machine import cores
from ctrlab.profiling.processes import Worker
from ctrlab.profiling.progress import track
from ctrlab.profiling.timing import Comparison, Interval, paired
from ctrlab.profiling.work import Ceilings, Work
from studies.peers import environments
from studies.peers.batches import make_batches
from studies.peers.cases import CASES, Case, case_of, save
from studies.peers.environments import OURS, PEERS, Peer
from studies.peers.units import with_units

BLOCK_SECONDS = 0.3  # per block of one process: long compared with its first steps, whose caches others have overwritten
TINY_BLOCK_SECONDS = 0.01
SAME = 1e-5
"""Largest distance (by norm) of outputs that must be equal: as between an op's ways in `tests/ops/test_op.py`."""


@dataclass(frozen=True)
class AgainstPeer:
    """One case compared with one peer.

    Attributes:
        case, shape: the case, and its sizes in words.
        peer: the peer's name and versions.
        comparison: of "ctrlab" with the peer, which is the baseline; None if there is none; `note` then says why.
        difference: the distance of the first outputs, by norm; None if the peer computes something else.
        note: how the peer's computation differs, or why there is no comparison.
    """

    case: str
    shape: str
    peer: str
    comparison: Comparison | None = None
    difference: float | None = None
    note: str = ""

    @property
    def ratio(self) -> Interval | None:
        """Our speed relative to the peer."""
        return self.comparison and self.comparison.ratio(OURS.name)

    @property
    def standing(self) -> str:
        """ "ahead", "behind", "level" (the interval contains 1), "inconclusive" (too few pairs) or "missing"."""
        if self.comparison is None:
            return "missing"
        ratio = self.ratio
        if self.comparison.verdict(OURS.name) == "yes":
            return "ahead"
        if self.comparison.verdict(OURS.name) == "no":
            return "behind"
        return "level" if ratio.coverage >= 0.95 else "inconclusive"

    def to_json(self) -> dict:
        plain = {name: getattr(self, name) for name in ("case", "shape", "peer", "difference", "note", "standing")}
        return plain | {"comparison": self.comparison and self.comparison.to_json()}


@dataclass
class _Side:
    """One process of a case: its answer when it was opened, and the number of steps in its block."""

    peer: Peer
    worker: Worker
    outputs: Path
    opened: dict = field(default_factory=dict)
    steps: int = 1
    reason: str = ""

    def open(self, case: Case, batches: Path, block_seconds: float) -> None:
        job = {
            "case": dataclasses.asdict(with_units(case)),
            "batches": str(batches),
            "outputs": str(self.outputs),
            "threads": cores(),
        }
        self.opened = self._ask("open", **job)
        self.steps = max(1, math.ceil(block_seconds / self.opened.get("seconds", block_seconds)))

    def run_block(self) -> float | None:
        answer = self._ask("run", steps=self.steps)
        return answer["seconds"] / self.steps if answer else None

    def _ask(self, do: str, **details) -> dict:
        """The answer; empty, with the reason stored, if a peer can't continue. For our own side this is an error."""
        if self.reason:
            return {}
        try:
            return self.worker.ask(do, **details)
        except CtrlabError as problem:
            if self.peer is OURS:
                raise
            self.reason = str(problem)
            return {}


def bench_peers(
    names: Sequence[str] | None,
    profile: str | None,
    ceilings: Ceilings | None,
    peers: Mapping[str, Peer] = PEERS,
    command: Callable[[Peer], list[str]] = environments.command,
) -> list[AgainstPeer]:
    """One row for each of the named cases (default: all) and each peer that supports it.

    Args:
        command: starts a peer's worker.
    Raises:
        UnknownName: no such case or profile. CtrlabError: our own side can't run.
    """
    size = profiles.current(profile)
    chosen = [case_of(choose("case", name, CASES), size.name == "tiny") for name in names or CASES]
    wanted = [peer for peer in peers.values() if any(case.kind in peer.kinds for case in chosen)]
    commands, reasons = _available(wanted, command)
    rows = []
    for case in track(chosen, "Measuring beside other libraries"):
        rivals = [peer for peer in wanted if case.kind in peer.kinds]
        missing = {p.name: AgainstPeer(case.name, case.shape, p.name, note=reasons[p.name]) for p in rivals if p.name in reasons}
        found = missing | _run_case(case, [OURS, *(p for p in rivals if p.name not in missing)], commands, size, ceilings)
        rows += [found[p.name] for p in rivals]
    return rows


def _available(peers: Sequence[Peer], command: Callable[[Peer], list[str]]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """{peer: its command}, ours first, and {peer: why it can't be started}."""
    commands, reasons = {OURS.name: command(OURS)}, {}
    for peer in peers:
        try:
            commands[peer.name] = command(peer)
        except CtrlabError as problem:
            reasons[peer.name] = str(problem)
    return commands, reasons


def _run_case(
    case: Case, peers: Sequence[Peer], commands: Mapping[str, list[str]], size: profiles.Profile, ceilings: Ceilings | None
) -> dict[str, AgainstPeer]:
    """{peer: its row}; the first of `peers` is our own side."""
    block = TINY_BLOCK_SECONDS if size.name == "tiny" else BLOCK_SECONDS
    with tempfile.TemporaryDirectory(prefix="ctrlab-peers-") as folder, contextlib.ExitStack() as workers:
        batches = Path(folder) / "batches.npz"
        save(batches, make_batches(case))
        sides = []
        for peer in peers:
            worker = workers.enter_context(Worker(f"{case.name} with {peer.name}", commands[peer.name]))
            sides.append(_Side(peer, worker, Path(folder) / f"{peer.name}.npz"))
            sides[-1].open(case, batches, block)
        samples = paired({side.peer.name: side.run_block for side in sides}, range(size.repetitions))
        ours, *others = sides
        return {other.peer.name: _row(case, ours, other, samples, size, ceilings) for other in others}


def _row(
    case: Case, ours: _Side, other: _Side, samples: Mapping[str, list[float]], size: profiles.Profile, ceilings: Ceilings | None
) -> AgainstPeer:
    name = other.peer.name
    versions = other.opened.get("versions", name)
    if other.reason:
        return AgainstPeer(case.name, case.shape, versions, note=other.reason)
    difference = difference_of(ours.outputs, other.outputs)
    if difference is not None and not difference <= SAME:  # also true for NaN
        note = f"its outputs are {difference:.1g} from ours, where {SAME:.0g} is allowed: this is no comparison"
        return AgainstPeer(case.name, case.shape, versions, difference=difference, note=note)
    comparison = Comparison.of_samples(
        {name: samples[name], OURS.name: samples[OURS.name]},
        baseline=name,
        profile=size.name,
        work=Work.from_json(ours.opened["work"]) if ours.opened["work"] else None,
        ceilings=ceilings,
    )
    return AgainstPeer(case.name, case.shape, versions, comparison, difference, other.opened["note"])


def difference_of(ours: Path, theirs: Path) -> float | None:
    """The largest distance of arrays that are in both files, relative to their norm; None if there are none."""
    with np.load(ours, allow_pickle=False) as mine, np.load(theirs, allow_pickle=False) as other:
        common = sorted(set(mine.files) & set(other.files))
        distances = [np.linalg.norm(mine[name] - other[name]) / np.linalg.norm(mine[name]) for name in common]
    return float(np.max(distances)) if distances else None
