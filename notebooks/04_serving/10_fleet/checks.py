"""Checks of 04_serving/10_fleet: (1) the arm of a user in an A/B test, (2) the delivery of a request; no clock."""

from __future__ import annotations

import builtins
import contextlib
import copy
import inspect
import itertools
import math
import random
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from ctrlab.lessons.topics.fleet.deliveries import Broken, Late, Script, ScriptedFleet, Seen, deliver_by_the_rules

from ctrlab.lessons.check import CheckFailed, call, counted
from ctrlab.lessons.limits import stated

DEVIATIONS = 5
"""Standard deviations by which a count may differ from its mean; a right answer exceeds them once in a million checks."""
USERS, MANY = 3_000, 100_000
HASH = "hash the experiment and the user together, and let the hash say where in 0 to 100 % the user is"
EVEN = "an arm begins where the one before it ends; places are even from 0 to 100, and a byte modulo 100 is not"
FRACTIONS = "a hash modulo 100 or 1000 has few places; keep the fraction of the user's place"
LOOP = "in a loop: look at fleet.instances(), choose, send; `continue` where nothing was sent"


@stated(f"of some thousand users, each arm has its percent within {DEVIATIONS:g} standard deviations of a fair draw")
def check_arm_of(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `arm_of(user, experiment, percents)` -> the arm's name."""
    elsewhere = _elsewhere(answer)
    call(lambda: None, case="nothing")  # the first call imports TensorFlow, which draws random numbers
    before = random.getstate(), np.random.get_state()[1].tolist()
    for case, percents, count in _percents(rng):
        experiment = f"exp-{rng.integers(1e9)}"
        users = _users(count, rng)
        arms = _asked(answer, users, experiment, percents, case)
        _require_stable(answer, users, arms, experiment, percents, rng)
        _require_shares(arms, percents, case)
    _require_independent(answer, rng)
    _require_calm(answer, rng)
    _require_same_elsewhere(answer, elsewhere, rng)
    if (random.getstate(), np.random.get_state()[1].tolist()) != before:
        raise CheckFailed(
            "The function leaves the program's random numbers alone.",
            expected="random.getstate() as it was",
            received="another state",
            next_step=HASH,
        )


def _users(count: int, rng: np.random.Generator) -> list[str]:
    """Ids as services have them: numbers, letters before numbers, and some odd ones."""
    numbers = rng.choice(10**9, count, replace=False).tolist()
    kinds = ["{}", "A{}", "user:{:012d}", "ü-{}", "{}@example.org"]
    return ["", *(kinds[n % len(kinds)].format(number) for n, number in enumerate(numbers))]


def _percents(rng: np.random.Generator) -> Iterator[tuple[str, dict[str, float], int]]:
    """The cases: (description, {arm: percent}, users)."""
    yield "two halves", {"control": 50, "new": 50}, USERS
    yield "nine of ten", {"control": 90, "new": 10}, USERS
    yield "one arm", {"all": 100}, 50
    yield "an arm of nobody", {"off": 0, "on": 100}, USERS
    yield "three arms", {"control": 60, "new": 25, "newer": 15}, USERS
    yield "percents that are no whole numbers", {"a": 33.45, "b": 0.05, "c": 66.5}, MANY
    cuts = np.sort(rng.choice(99, 3, replace=False) + 1).tolist()
    yield "percents by chance", dict(zip("abcd", np.diff([0, *cuts, 100]).tolist())), USERS


def _asked(answer: Callable, users: Sequence[str], experiment: str, percents: Mapping[str, float], case: str) -> list[str]:
    """The arm of each user."""

    def whole(users: list[str], experiment: str, percents: dict[str, float]) -> list[str]:
        return [answer(user, experiment, percents) for user in users]

    arms = call(whole, list(users), experiment, dict(percents), case=case, next_step=HASH)
    for user, arm in zip(users, arms):
        if not isinstance(arm, str) or not percents.get(arm):
            raise CheckFailed(
                f"The function returns the name of an arm that has users; here {case}.",
                expected="one of " + ", ".join(name for name, percent in percents.items() if percent),
                received=repr(arm),
                index=f"user {user!r}, percents {dict(percents)}",
                next_step="the arms lie side by side between 0 and 100 %; return the one in which the user is",
            )
    return arms


def _require_stable(answer, users, arms, experiment, percents, rng) -> None:
    order = rng.permutation(len(users)).tolist()
    again = _asked(answer, [users[n] for n in order], experiment, percents, "users who come again")
    for n, arm in zip(order, again):
        if arm != arms[n]:
            raise CheckFailed(
                "A user who comes again is in the same arm.",
                expected=arms[n],
                received=arm,
                index=f"user {users[n]!r}, experiment {experiment!r}",
                next_step="nothing that is drawn or counted may enter, only the arguments",
            )


def _require_shares(arms: Sequence[str], percents: Mapping[str, float], case: str) -> None:
    for arm, percent in percents.items():
        _require_share(
            arms.count(arm) / len(arms),
            percent / 100,
            len(arms),
            f"Each arm has its percent of the users; here {case}.",
            f"arm {arm!r} of {dict(percents)}",
            EVEN if all(float(each).is_integer() for each in percents.values()) else FRACTIONS,
        )


def _require_share(found: float, share: float, count: int, rule: str, where: str, next_step: str) -> None:
    allowed = DEVIATIONS * math.sqrt(share * (1 - share) / count) + 1e-12
    if abs(found - share) > allowed:
        raise CheckFailed(
            rule,
            expected=f"{100 * share:.4g} %, give or take {100 * allowed:.2g}",
            received=f"{100 * found:.4g} %",
            index=where,
            next_step=next_step,
        )


def _require_independent(answer: Callable, rng: np.random.Generator) -> None:
    """Requires that the halves of any two experiments are independent."""
    users, first = _users(USERS, rng), int(rng.integers(1e6))
    names = [f"ranking-{first + n}" for n in range(4)] + ["", "ranking", "gniknar", "RANKING"]
    halves = {"a": 50, "b": 50}
    found = {name: np.array(_asked(answer, users, name, halves, "several experiments")) == "a" for name in names}
    for one, other in itertools.combinations(names, 2):
        _require_share(
            float((found[one] & found[other]).mean()),
            0.25,
            len(users),
            "Two experiments split the users independently: a quarter are in the first half of both.",
            f"experiments {one!r} and {other!r}",
            "the experiment's name belongs into what is hashed, with the user: one hash of both",
        )


def _require_calm(answer: Callable, rng: np.random.Generator) -> None:
    """Requires that a larger percentage of an arm adds users to it, and removes none, also where it becomes the largest."""
    users, experiment = _users(USERS, rng), f"exp-{rng.integers(1e9)}"
    steps = (90, 75, 40)  # percents of control
    asked = [_asked(answer, users, experiment, {"control": c, "new": 100 - c}, "an arm that grows") for c in steps]
    for (before, after), (had, has) in zip(itertools.pairwise(asked), itertools.pairwise(steps)):
        for user, old, new in zip(users, before, after):
            if (old, new) == ("new", "control"):
                raise CheckFailed(
                    "When an arm grows, users come into it, and nobody leaves it.",
                    expected="new",
                    received="control",
                    index=f"user {user!r}, when control has {has} % and new {100 - has} %, after {had} % and {100 - had} %",
                    next_step="the percents say where the arms' boundaries are, and nothing else: neither what is hashed nor "
                    "the arms' order depends on them",
                )


def _require_same_elsewhere(answer: Callable, elsewhere: Callable, rng: np.random.Generator) -> None:
    """Requires that a second server agrees, which has another PYTHONHASHSEED and has seen no user."""
    users, experiment = _users(500, rng), f"exp-{rng.integers(1e9)}"
    halves = {"a": 50, "b": 50}
    here = _asked(answer, users, experiment, halves, "one server")
    salt, state = rng.integers(1 << 60), random.getstate()
    with _replaced(builtins, "hash", lambda thing, real=builtins.hash: real((salt, real(thing)))):
        random.seed(int(salt))
        there = _asked(elsewhere, users[::-1], experiment, halves, "a second server")[::-1]
    random.setstate(state)
    for user, one, other in zip(users, here, there):
        if one != other:
            raise CheckFailed(
                "Another server, and the same one after a restart, has a user in the same arm.",
                expected=one,
                received=other,
                index=f"user {user!r}, in a second process",
                next_step="Python's hash() of a text differs from process to process, and what was stored is not there",
            )


@contextlib.contextmanager
def _replaced(owner: object, name: str, value: object) -> Iterator[None]:
    real = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, real)


def _elsewhere(answer: Callable) -> Callable:
    """The function in a second process: made again from its source, before the first one was called."""
    try:
        source = textwrap.dedent(inspect.getsource(answer))
        names = {name: answer.__globals__[name] for name in answer.__code__.co_names if name in answer.__globals__}
        own = {name: copy.deepcopy(value) for name, value in names.items() if isinstance(value, dict | list | set)}
        space = {**answer.__globals__, **own}
        exec(compile(source, "<a second server>", "exec"), space)
        return space[answer.__name__]
    except (OSError, TypeError, AttributeError, KeyError, SyntaxError) as problem:
        raise CheckFailed(
            "The answer is a function whose source can be taken to a second server.",
            expected="def arm_of(user, experiment, percents): ... in a cell",
            received=getattr(answer, "__name__", type(answer).__name__),
            wrong="The source of the answer can't be read.",
            cure="define it by `def`, in a cell of its own",
        ) from problem


def check_deliver(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `deliver(request, fleet)` -> an instance's answer; Broken or Late if there is none."""
    for case, script in _scripts(rng):
        expected, right = _outcome(deliver_by_the_rules, script, case)
        found, fleet = _outcome(answer, script, case)
        states = script.steps[0]
        where = ", ".join(f"{each.name} {each.state} with {each.inside}" for each in states)
        if fleet.sent != right.sent:
            raise CheckFailed(
                f"A request goes to the ready instance with the fewest inside, and is sent twice at most; here {case}.",
                expected=f"sent to {_told(right.sent)}",
                received=f"sent to {_told(fleet.sent)}",
                index=f"at first: {where}; what comes of sending: {', '.join(script.outcomes) or 'an answer'}",
                next_step=LOOP,
            )
        if fleet.waits != right.waits:
            raise CheckFailed(
                f"While no instance is ready the request waits, and only then; here {case}.",
                expected=f"{counted(right.waits, 'call')} of fleet.wait()",
                received=counted(fleet.waits, "call"),
                index=f"at first: {where}",
                next_step="fleet.wait() returns when an instance has changed its state; then look again",
            )
        if found != expected:
            raise CheckFailed(
                f"The function returns the instance's answer, and raises where there is none; here {case}.",
                expected=expected,
                received=found,
                index=f"at first: {where}",
                next_step="return what fleet.send returns; the second Broken, and Late, go on to the caller",
            )


def _told(sent: Sequence[str]) -> str:
    return ", then ".join(sent) or "none"


def _outcome(answer: Callable, script: Script, case: str) -> tuple[str, ScriptedFleet]:
    """The outcome of a request, in words, and the fleet afterwards."""
    fleet, request = ScriptedFleet(script), f"request {script.number}"

    def tried(request: str) -> str:
        try:
            return f"the answer {answer(request, fleet)!r}"
        except (Broken, Late) as problem:
            return f"{type(problem).__name__} is raised"

    return call(tried, request, case=case, next_step=LOOP), fleet


def _scripts(rng: np.random.Generator) -> Iterator[tuple[str, Script]]:
    """The cases: (description, the script)."""
    count = itertools.count(int(rng.integers(1e6)))

    def script(*steps: Sequence[tuple[str, int]], outcomes: Sequence[str] = ()) -> Script:
        seen = [tuple(Seen(f"i{n}", state, inside) for n, (state, inside) in enumerate(step, 1)) for step in steps]
        return Script(next(count), tuple(seen), tuple(outcomes))

    some = int(rng.integers(3, 30))
    yield "one instance", script([("ready", 0)])
    yield "two that are ready", script([("ready", some), ("ready", some - 1)])
    yield "two with as many inside", script([("ready", some), ("ready", some)])
    for state in ("starting", "warming", "suspect", "draining", "crashed", "stopped"):
        yield f"one that is {state}", script([(state, 0), ("ready", some)])
        yield f"one that is {state}, then ready", script([(state, 0)], [("ready", 0)])
    yield "no instance that is ever ready", script([("starting", 0), ("draining", 1)], [("warming", 0), ("stopped", 0)])
    yield "one that becomes ready late", script([("starting", 0)], [("starting", 0)], [("warming", 0)], [("ready", 0)])
    two = [("ready", some), ("ready", some + 1)]
    yield "one whose process ends with the request inside", script(two, outcomes=["broken"])
    yield "a request that ends two processes", script([*two, ("ready", some + 2)], outcomes=["broken", "broken"])
    yield "one that takes no connection", script(two, outcomes=["refused"])
    yield "two that take no connection", script([*two, ("ready", some + 9)], outcomes=["refused", "refused"])
    yield (
        "three that take none, and one that breaks",
        script([*two, *two, ("ready", some)], outcomes=["refused", "refused", "refused", "broken"]),
    )
    yield "one that breaks, then one that takes none", script([*two, ("ready", 99)], outcomes=["broken", "refused"])
    yield "the only one breaks and comes back", script([("ready", 3)], [("starting", 0)], [("ready", 0)], outcomes=["broken"])
    yield "the only one breaks twice", script([("ready", 3)], [("ready", 0)], [("ready", 0)], outcomes=["broken", "broken"])
    yield "the only one breaks and stays away", script([("ready", 3)], [("starting", 0)], outcomes=["broken"])
    yield (
        "one that breaks while the others drain",
        script(
            [("draining", 0), ("ready", 5)], [("stopped", 0), ("crashed", 0)], [("ready", 0), ("crashed", 0)], outcomes=["broken"]
        ),
    )
    states = ("ready", "ready", "ready", "starting", "warming", "suspect", "draining", "crashed", "stopped")
    for _ in range(60):
        instances = int(rng.integers(1, 6))
        steps = [
            [(str(state), int(rng.integers(0, 4))) for state in rng.choice(states, instances)]
            for _ in range(int(rng.integers(1, 5)))
        ]
        outcomes = rng.choice(("answer", "broken", "refused"), int(rng.integers(0, 5)), p=(0.2, 0.4, 0.4)).tolist()
        yield "a fleet by chance", script(*steps, outcomes=outcomes)


CHECKS = {1: check_arm_of, 2: check_deliver}
