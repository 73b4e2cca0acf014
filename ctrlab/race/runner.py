"""Runs a race: one model after the other; all variants of a model run in alternating blocks of steps.

Paired blocks meet the same noise, so ratios are valid on a busy machine too; see `ctrlab.profiling.timing`. The result is written
after each model, so that an interrupted race can be resumed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ctrlab import data
from ctrlab import optimizations as ladder
from ctrlab.errors import CtrlabError
from ctrlab.profiles import Profile
from ctrlab.profiling.machine import cores, cpu_model, versions
from ctrlab.profiling.processes import Worker, WorkerDied
from ctrlab.profiling.roofline import ceilings as measured_ceilings
from ctrlab.profiling.timing import now, paired
from ctrlab.profiling.work import Ceilings, Work
from ctrlab.race import contest
from ctrlab.race import seeds as seed_aucs
from ctrlab.race.result import ModelRace, RaceResult, Settings, Variant, load

SEED = 2021
COMMAND = (sys.executable, "-m", "ctrlab.race.worker")


@dataclass(frozen=True)
class Plan:
    """The contents of a race: models, sets of optimizations ("none" first), the profile, and "generated" or "real" data."""

    models: tuple[str, ...]
    sets: tuple[str, ...]
    profile: Profile
    data: str

    def trainings(self, model: str) -> int:
        """How often the race trains `model`: once per variant, and once per further seed."""
        return len({contest.rungs_for(model, name) for name in self.sets}) + self.profile.seeds - 1

    def settings(self) -> Settings:
        return Settings(self.profile.name, self.data, self.sets, versions(), f"{cpu_model()}, {cores()} cores")


@dataclass
class Runner:
    """One variant during the race: its worker and its results so far."""

    optimizations: str
    rungs: tuple[str, ...]
    worker: Worker
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    blocks: int = 0
    found: dict = field(default_factory=dict)
    error: str = ""

    def try_to(self, do: str, **details) -> dict | None:
        """The worker's answer; None if it has ended or training failed, and the reason is stored.

        Raises:
            CtrlabError: the worker cannot even start; then no race is possible.
        """
        if self.error:
            return None
        try:
            return self.worker.ask(do, **details)
        except CtrlabError as problem:
            if do == "open" and not isinstance(problem, WorkerDied):
                raise
            self.error = str(problem)
            return None

    def result(self) -> Variant:
        measures = {k: self.found.get(k, {}) for k in ("auc", "log_loss", "gauc", "calibration")}
        return Variant(self.optimizations, self.rungs, tuple(self.seconds), tuple(self.losses), **measures, error=self.error)


@dataclass
class Pace:
    """The progress of the whole race in training steps, over all variants and further seeds."""

    total: float
    done: float = 0.0
    started: float = field(default_factory=now)

    @property
    def left(self) -> float | None:
        """Remaining seconds, if the rest runs at the speed so far; None at the start."""
        return (now() - self.started) * (self.total - self.done) / self.done if self.done else None


def prepare(plan: Plan) -> Ceilings:
    """Makes the data of every model of the plan, and measures this machine's ceilings; both are kept for the next race. The
    ceilings are the highest that were ever measured: a busy moment must not raise a floor above what was raced in a quiet one.

    Raises:
        CtrlabError: the real samples are missing, or the cache's disk refuses.
    """
    for name in dict.fromkeys(contest.data_set(model, plan.data) for model in plan.models):
        data.prepare(name, profile=plan.profile, source=plan.data, format="csv")
    if plan.profile.name != "tiny":  # there nobody reads floors
        measured_ceilings(measure_again=True)
    return measured_ceilings()


# Called with (model, optimizations, current activity, fraction done 0..1, its seconds so far, seconds left of the whole race).
Watcher = Callable[[str, str, str, float, float, float | None], None]


def race(
    plan: Plan,
    result: RaceResult,
    state: Path,
    ceilings: Ceilings,
    watch: Watcher,
    on_model: Callable[[RaceResult], None] = lambda result: None,
    command: Sequence[str] = COMMAND,
) -> RaceResult:
    """Races every model of `plan` that is not complete in `result`. After each model the result is written to the JSON file
    `state`.

    Args:
        result: from `begin`.
        ceilings: this machine's ceilings, for the floors.
        on_model: called with the result so far after each model.
        command: starts a worker.
    Raises:
        CtrlabError: a model cannot be trained at all.
        KeyboardInterrupt: Ctrl-C; its message says what is kept.
    """
    result = dataclasses.replace(result, models=tuple(dataclasses.replace(m, ceilings=ceilings) for m in result.models))
    done = {m.model for m in result.models if m.complete}
    models = [model for model in plan.models if model not in done]
    pace = Pace(sum(plan.trainings(model) * contest.steps(model, plan.profile) for model in models))

    def watched(*what):
        watch(*what, pace.left)

    try:
        for model in models:
            result = result.with_model(race_model(model, plan, ceilings, watched, pace, command))
            result.save(state)
            on_model(result)
    except KeyboardInterrupt:
        kept = f"{len(result.models)} of {len(plan.models)} models are kept in {state}; --resume goes on from there"
        raise KeyboardInterrupt(f"Interrupted: {kept if result.models else 'no model was done yet'}.") from None
    return result


def begin(plan: Plan, state: Path, resume: bool) -> RaceResult:
    """An empty result, or with `resume` the result in `state`, if it belongs to this race.

    Raises:
        CtrlabError: `state` is not a result, or belongs to another race.
    """
    settings = plan.settings()
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    if not (resume and state.exists()):
        return RaceResult(settings, plan.models, started=started)
    earlier = load(state)
    for name, value in dataclasses.asdict(settings).items():
        if getattr(earlier.settings, name) != value:
            raise CtrlabError(
                f"A race goes on only under the same {name}; {state} has {getattr(earlier.settings, name)}, now it is {value}. "
                "Give the same options, or leave --resume out."
            )
    others = tuple(m.model for m in earlier.models if m.model not in plan.models)
    return dataclasses.replace(earlier, asked=tuple(m for m in contest.STEPS if m in (*plan.models, *others)))


def race_model(model: str, plan: Plan, ceilings: Ceilings, watch: Callable, pace: Pace, command: Sequence[str]) -> ModelRace:
    """Races all variants of one model. If a worker ends early, its variant is dropped with the reason, and the others go on.

    Sets that select the same rungs for this model are one variant, trained once.
    """
    steps = contest.steps(model, plan.profile)
    blocks = contest.blocks(steps, plan.profile.repetitions)
    data_set = contest.data_set(model, plan.data)
    with contextlib.ExitStack() as workers:
        raced: dict[tuple[str, ...], Runner] = {}
        for name in plan.sets:
            rungs = contest.rungs_for(model, name)
            if rungs not in raced:
                raced[rungs] = Runner(name, rungs, workers.enter_context(Worker(f"{model} with {name!r}", command)))
        runners = list(raced.values())
        job = {"model": model, "data_set": data_set, "source": plan.data, "profile": plan.profile.name, "seed": SEED}
        for r in runners:
            watch(model, r.optimizations, "warming up", 0.0, 0.0)
            r.found |= r.try_to("open", rungs=r.rungs, **job) or {}
        hold_to_baseline(model, runners, watch)
        train_in_turns(model, runners, blocks, watch, pace)
        for r in runners:
            watch(model, r.optimizations, "evaluating", 1.0, sum(r.seconds))
            r.found |= r.try_to("evaluate") or {}
            watch(model, r.optimizations, "ended early" if r.error else "done", 1.0, sum(r.seconds))
        seed_auc = train_seeds(model, runners, steps, plan.profile.seeds, watch, pace)
        runs = {name: raced[contest.rungs_for(model, name)].result() for name in plan.sets}
        variants = tuple(dataclasses.replace(run, optimizations=name) for name, run in runs.items())
    known = next((r.found for r in runners if "work" in r.found), None)
    if known is None:
        raise CtrlabError(runners[0].error)
    return ModelRace(
        model=model,
        data_set=data_set,
        rows=known["train_rows"],
        evaluated_rows=known.get("rows", 0),
        batch_size=known["batch_size"],
        blocks=blocks,
        work=Work.from_json(known["work"]),
        ceilings=ceilings,
        variants=variants,
        seed_auc=seed_auc,
        ceiling=known["ceiling"],
        device=known["device"],
        bar=contest.bar(model, plan.profile, plan.data, known["train_rows"]),
    )


def hold_to_baseline(model: str, runners: Sequence[Runner], watch: Callable) -> None:
    """Before any timing, compares each variant's first step with the baseline's: all variables must change in the same way,
    unless a rung of the variant changes results. A variant that fails is dropped."""
    baseline, *others = runners
    others = [r for r in others if not any(ladder.RUNGS[name].changes_results for name in r.rungs)]
    with tempfile.TemporaryDirectory(prefix="ctrlab-race-") as folder:
        path = str(Path(folder, "first_step.npz"))
        if not others or baseline.try_to("write_first_step", path=path) is None:
            return
        for r in others:
            watch(model, r.optimizations, "comparing", 0.0, 0.0)
            if odd := (r.try_to("hold_first_step", path=path) or {}).get("differs"):
                tensor, distance = odd[0]
                r.error = (
                    f"A variant must compute what the baseline computes; in the first step of {model} with {r.optimizations!r} "
                    f"{len(odd)} tensors differ, most of all {tensor!r}, by {distance:.2g} of its norm."
                )


def train_in_turns(model: str, runners: Sequence[Runner], blocks: Sequence[int], watch: Callable, pace: Pace) -> None:
    """Runs block i of every runner, one after the other, in random order."""

    def block(r: Runner) -> float | None:
        steps = blocks[r.blocks]
        answer = r.try_to("train", steps=steps)
        r.blocks += 1
        if answer:
            r.seconds.append(answer["seconds"])
            r.losses += answer["losses"]
        pace.done += steps
        watch(model, r.optimizations, "ended early" if r.error else "racing", r.blocks / len(blocks), sum(r.seconds))
        return answer and answer["seconds"]

    paired({i: functools.partial(block, r) for i, r in enumerate(runners)}, blocks)


def train_seeds(
    model: str, runners: Sequence[Runner], steps: int, seeds: int, watch: Callable, pace: Pace
) -> dict[str, tuple[float, ...]]:
    """The baseline's AUC by label: for the timed run, and for `seeds` - 1 further runs, untimed or kept from an earlier race.
    Empty if the baseline ended.

    If the set "stock" races, it trains the other seeds. It takes less time, its ops are TensorFlow's own too, and its first step
    was compared with the baseline's.
    """
    baseline, others = runners[0], [SEED + i for i in range(1, seeds)]
    stock = [r for r in runners if r.rungs == (ladder.STOCK.name,) and not r.error and not baseline.error]
    trainer = (stock or [baseline])[0]
    place = seed_aucs.place_of(model, baseline.found.get("made_of", ""), steps, others)
    found = seed_aucs.load(place, len(others))
    if found is None:
        found = []
        for i, seed in enumerate(others):
            watch(model, trainer.optimizations, f"seed {i + 2} of {seeds}", (i + 1) / seeds, sum(trainer.seconds))
            trainer.try_to("retrain", seed=seed, steps=steps)
            found.append((trainer.try_to("evaluate") or {}).get("auc"))
            pace.done += steps
        if found and all(found):
            seed_aucs.save(place, found)
    else:
        pace.total -= len(others) * steps
    watch(model, trainer.optimizations, "ended early" if trainer.error else "done", 1.0, sum(trainer.seconds))
    runs = [baseline.found.get("auc"), *found]
    if not all(runs):
        return {}
    return {label: tuple(auc[label] for auc in runs) for label in runs[0]}
