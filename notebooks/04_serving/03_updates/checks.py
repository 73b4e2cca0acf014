"""Checks of 04_serving/03_updates: (1) the log that determines the content of an update, (2) the gate between requests and
updates.
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from ctrlab.lessons.topics.updates.orders import every_order

from ctrlab.lessons.check import CheckFailed, call, parts
from ctrlab.lessons.interleaving import Condition, Stuck, Threads
from ctrlab.lessons.interpreter import peak_of
from ctrlab.lessons.limits import stated

ENDS = (-(2**63), 2**63 - 1)
MOST_BYTES = 200_000
ROUNDS = 500
SCHEDULES = 60
CROWD = 100
MOST_STEPS = 12  # that a message repeats
Ops = Sequence[tuple[str, object]]  # ("note", keys), ("cut", None), ("confirm", a cut's number)


class Reference:
    """The definition: a key comes again until a cut after its last change is confirmed."""

    def __init__(self):
        self.cuts, self.changed = 0, {}

    def note(self, keys: Sequence[int]) -> None:
        self.changed |= dict.fromkeys(keys, self.cuts)

    def cut(self) -> tuple[int, list[int]]:
        self.cuts += 1
        return self.cuts, sorted(self.changed)

    def confirm(self, number: int) -> None:
        self.changed = {key: last for key, last in self.changed.items() if last >= number}


@stated(f"at most {MOST_BYTES:,} bytes for a log of 100 keys that change {ROUNDS} times")
def check_log(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `ChangeLog()` with `note(keys)`, `cut()` -> (number, keys) and `confirm(number)`."""
    for case, ops in _lives(rng):
        log, reference, taken = call(answer, case=case), Reference(), []
        for place, (name, given) in enumerate(ops):
            if name == "cut":
                found = call(log.cut, case=case)
                _require_cut(found, reference.cut(), case, ops[: place + 1])
                taken.append((found[1], list(found[1])))
                continue
            if name == "note":
                _note(log, given, case)
            else:
                call(log.confirm, given, case=case)
            getattr(reference, name)(given)
        _require_kept(taken, case)
    a, b, case = call(answer, case="two logs"), call(answer, case="two logs"), "two logs at once"
    keys = _keys(rng, 3)
    _note(a, keys, case)
    _require_cut(call(b.cut, case=case), (1, []), case, [("note of the other log", keys), ("cut", None)])
    for case, notes, cuts in (
        (f"100 keys change {ROUNDS} times", lambda _: range(100), lambda log: None),
        (f"the disk refuses {ROUNDS} cuts of 100 keys", lambda _: range(100), lambda log: log.cut()),
        (f"100 new keys change and are confirmed, {ROUNDS} times", _hundred, lambda log: log.confirm(log.cut()[0])),
    ):
        run = partial(_many, answer, notes, cuts)
        if (peak := call(lambda run=run: peak_of(run), case=case)) > MOST_BYTES:
            raise CheckFailed(
                f"Budget: the log's memory does not grow while {case}.",
                expected=f"at most {MOST_BYTES:,} bytes",
                received=f"{peak:,} bytes",
                next_step="keep something per key and nothing per cut: what must the log know of a key, and until when?",
            )


def _note(log, keys: list[int], case: str) -> None:
    given = list(keys)
    call(lambda: log.note(given), case=case)
    if given != keys:
        raise CheckFailed(
            f"The log leaves the caller's list as it was; here {case}.",
            expected=keys,
            received=given,
            index="the list, after note",
            next_step="work on a copy: sorted(keys) makes one, keys.sort() changes the caller's list",
        )


def _require_kept(taken: list[tuple[Sequence[int], list[int]]], case: str) -> None:
    """Requires that each cut's keys are still those that were returned."""
    for number, (keys, before) in enumerate(taken, 1):
        if list(keys) != before:
            raise CheckFailed(
                f"The keys of a cut stay as they are, as long as their file is written; here {case}.",
                expected=f"keys {before}",
                received=f"keys {list(keys)} after later calls",
                index=f"cut {number}",
                next_step="who else holds the list that `cut` returned, and changes it?",
            )


def _many(answer: Callable, notes: Callable, cuts: Callable) -> None:
    log = answer()
    for turn in range(ROUNDS):
        log.note(list(notes(turn)))
        cuts(log)
    log.confirm(log.cut()[0])


def _hundred(turn: int) -> range:
    return range(100 * turn, 100 * turn + 100)


def _keys(rng: np.random.Generator, n: int) -> list[int]:
    return rng.choice(10**6, n, replace=False).tolist()


def _lives(rng: np.random.Generator):
    """The cases: (description, what happens), most by chance."""
    a, b, c = _keys(rng, 3)
    cut = ("cut", None)
    yield "nothing has changed", [cut, ("note", []), cut]
    yield "keys in any order, some twice", [("note", [b, a, b]), ("note", [c, a, 0, *ENDS]), cut]
    yield "a cut that was confirmed", [("note", [a, b]), cut, ("confirm", 1), cut, ("note", [c]), cut]
    yield "a disk that refused the first cut", [("note", [a]), cut, ("note", [b]), cut, ("confirm", 2), cut]
    writing = [("note", [a, b]), cut, ("note", [b, c]), ("confirm", 1), cut]
    yield "keys that change while their file is written", writing
    late = [("note", [a]), cut, ("note", [b]), cut, ("note", [c]), ("confirm", 1), cut, ("confirm", 3), cut]
    yield "a first cut that is confirmed after the second was taken", late
    twice = [("note", [a]), cut, ("note", [b]), cut, ("confirm", 2), ("note", [c]), ("confirm", 1), ("confirm", 2), cut]
    yield "cuts that are confirmed out of order, and twice", twice
    for _ in range(10):
        pool, ops, cuts = _keys(rng, 6), [], 0
        for what in rng.choice(["note", "note", "cut", "confirm"], 30):
            if what == "confirm" and not cuts:
                continue
            cuts += what == "cut"
            some = rng.choice(pool, rng.integers(0, 4)).tolist()
            ops.append((str(what), {"note": some, "cut": None, "confirm": int(rng.integers(1, cuts + 1)) if cuts else 0}[what]))
        yield "a life by chance", [*ops, cut]


def _require_cut(found, expected: tuple[int, list[int]], case: str, ops: Ops) -> None:
    number, keys = parts(found, "number, keys", case=case)
    happened = "; ".join(f"{name} {'' if given is None else given}".strip() for name, given in ops[-5:])
    try:
        number, listed = operator.index(number), [operator.index(keys[i]) for i in range(len(keys))]
    except TypeError as error:
        received = f"{type(number).__name__}, {type(keys).__name__}"
        rule = f"A cut is a number and the keys, whole numbers; here {case}."
        raise CheckFailed(rule, expected="int, list of int", received=received, next_step="return number, sorted(...)") from error
    if number != expected[0]:
        raise CheckFailed(
            f"Cuts are numbered 1, 2, 3, ...; here {case}.",
            expected=expected[0],
            received=number,
            index=f"the end of: {happened}",
            next_step="each cut has the next number, whether or not the one before was confirmed",
        )
    if listed != expected[1]:
        odd = next(iter(sorted(set(listed) ^ set(expected[1]))), None)
        if odd is None:
            before, key = next(pair for pair in itertools.pairwise(listed) if pair[0] >= pair[1])
            raise CheckFailed(
                f"The keys of a cut ascend, each once; here {case}.",
                expected=f"keys {expected[1]}",
                received=f"keys {listed}; look at {key}, after {before}",
                index=f"the end of: {happened}",
                next_step="sorted(...) of keys that are held once: of a set or a dictionary",
            )
        raise CheckFailed(
            f"A cut holds every key that changed since its last confirmed cut; here {case}.",
            expected=f"keys {expected[1]}",
            received=f"keys {listed}; look at {odd}",
            index=f"the end of: {happened}",
            next_step="a key leaves the log only when a cut that was taken after its last change is confirmed",
        )


def _all(state: str, first: int = 1) -> str:
    return ", ".join(f"R{n} {state}" for n in range(first, CROWD + 1))


# (the rule, who is where after each step, where to look). R1, R2, ... are requests, U is the update. At the end nobody is inside.
SCENES = (
    (
        "Requests do not wait for each other",
        f"R1 inside, R2 inside, R3 inside, R2 done, R1 done, R4 inside, R3 done, R4 done, {_all('inside')}, {_all('done')}",
        "`enter` waits while an update waits or is inside, and for nothing else, however many are inside",
    ),
    (
        "An update waits until every request inside has left",
        "R1 inside, R2 inside, U waits, R1 done, U waits, R2 done, U inside, U done",
        "what does `close` wait for, and which call makes that true? It must wake who waits",
    ),
    (
        "A request waits while an update is inside",
        "U inside, R1 waits, R2 waits, R3 waits, U done, R1 inside, R2 inside, R3 inside, R2 done, R3 done, R1 done",
        "what does `enter` wait for, and which call ends that, and wakes all who wait (notify_all)?",
    ),
    (
        "An update that waits goes before requests that come later, so it never starves",
        "R1 inside, U waits, R2 waits, R3 waits, R1 done, R2 waits, R3 waits, U inside, R3 waits, U done, R2 inside, R3 inside, "
        "R3 done, R2 done",
        "how does `enter` learn that an update waits, and does it look again after each wake-up?",
    ),
    (
        "The gate serves one update after the other",
        "U inside, U done, R1 inside, R1 done, U inside, R2 waits, U done, R2 inside, U waits, R2 done, U inside, U done",
        "`open` leaves the gate as it was before `close`",
    ),
    (
        f"An update waits until every request inside has left, also of {CROWD}",
        f"{_all('inside')}, U waits, {_all('done', 2)}, U waits, R1 done, U inside, U done",
        "count each request: one more in `enter`, one less in `leave`",
    ),
)


def check_gate(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `Gate(condition)` with `enter()` and `leave()` for requests, `close()` and `open()` for updates."""
    names = {f"R{i}": f"request {n}" for i, n in enumerate(_keys(rng, CROWD), 1)} | {"U": "the update"}
    for scenes in (*((scene,) for scene in SCENES), SCENES + SCENES):  # what holds of a new gate holds of an old one
        with Threads() as threads:
            world, seen = _World(answer, threads, scenes[0][0]), []
            for rule, scene, next_step in scenes:
                for who, expected in map(str.split, scene.split(", ")):
                    if (received := world.go_on(names[who])) != expected:
                        raise CheckFailed(
                            f"{rule}.",
                            expected=f"{names[who]}: {expected}",
                            received=received,
                            index="..., " * (len(seen) > MOST_STEPS) + ", ".join(seen[-MOST_STEPS:]) or "the beginning",
                            next_step=next_step,
                        )
                    seen.append(f"{names[who]} {expected}")
    for _ in every_order(lambda choose: _let_run(answer, {"request 1": 1, "the update": 1}, choose)):
        pass
    tasks = {"request 1": 2, "request 2": 2, "request 3": 1, "the update": 2}
    for _ in range(SCHEDULES):
        _let_run(answer, tasks, lambda names: names[rng.integers(len(names))])


class _World:
    """A model of two parts behind the learner's gate; requests read them, and the update changes them."""

    def __init__(self, answer: Callable, threads: Threads, case: str):
        self._threads, self._case = threads, case
        condition, made = threads.condition(), threading.Event()
        self._gate = call(_watched(answer, condition, made.is_set), condition, case=case)
        made.set()
        self._parts = [0, 0]
        self._started: set[str] = set()

    def start(self, name: str, times: int = 1) -> None:
        turn = self._update if name == "the update" else self._request
        self._threads.start(name, lambda: [turn() for _ in range(times)])

    def go(self, name: str) -> None:
        self._call(self._threads.go, name)

    def go_on(self, name: str) -> str:
        """Lets a thread run; starts it again if it has ended."""
        if name not in self._threads.unfinished():
            self.start(name)
        return self._call(self._threads.go_on, name)

    def _call(self, function: Callable, name: str):
        try:
            return call(function, name, case=self._case)
        except CheckFailed as failed:
            if not isinstance(failed.__cause__, Stuck):
                raise
            raise CheckFailed(
                "Who waits, waits by the condition.",
                expected="self.condition.wait() or wait_for(...)",
                received=f"{name} neither goes on nor waits there",
                next_step="no loop that only looks, no sleep, no lock of your own",
            ) from failed

    def _request(self) -> None:
        self._gate.enter()
        first = self._parts[0]
        self._threads.pause()
        second = self._parts[1]
        self._gate.leave()
        if first != second:
            raise CheckFailed(
                "No answer mixes two moments.",
                expected=f"two parts of update {first}",
                received=f"one of update {first}, one of update {second}",
                index="the order " + ", ".join(self._threads.order[-12:]),
                next_step="look and count in one `with self.condition:`, so that nobody comes between",
            )

    def _update(self) -> None:
        self._gate.close()
        self._parts[0] += 1
        self._threads.pause()
        self._parts[1] += 1
        self._gate.open()


def _let_run(answer: Callable, tasks: dict[str, int], choose: Callable[[Sequence[str]], str]) -> None:
    with Threads() as threads:
        world = _World(answer, threads, "threads in an order that the check chooses")
        for name, times in tasks.items():
            world.start(name, times)
        while names := threads.can_go():
            world.go(choose(names))
        if waiting := threads.unfinished():
            raise CheckFailed(
                "Whoever waits is woken in the end.",
                expected="everybody gets through",
                received=f"{' and '.join(waiting)} wait for ever",
                index="the order " + ", ".join(threads.order[-12:]),
                next_step="call notify_all after each change that others wait for",
            )


def _watched(answer: Callable, condition: Condition, is_made: Callable[[], bool]) -> Callable:
    """A subclass of the learner's class that requires attributes to change only while the condition is held, except in
    `__init__`.
    """
    if not isinstance(answer, type):
        return answer

    def set_attribute(gate, name, value):
        if is_made() and not condition.is_held():
            raise CheckFailed(
                "What threads share changes only while the condition is held.",
                expected="with self.condition: around it",
                received=f"self.{name} = {value!r} without it",
                next_step="two threads that do n += 1 at once may both read the old n",
            )
        object.__setattr__(gate, name, value)

    return type(answer.__name__, (answer,), {"__setattr__": set_attribute})


CHECKS = {1: check_log, 2: check_gate}
