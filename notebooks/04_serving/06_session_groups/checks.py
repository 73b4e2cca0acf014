"""Checks of 04_serving/06_session_groups: (1) calls go to the member with the fewest inside, (2) the CPUs of each member."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence

import numpy as np

from ctrlab.lessons.check import CheckFailed, call, counted
from ctrlab.lessons.exercise import Exercise
from ctrlab.lessons.interleaving import Condition, Stuck, Threads

ENTER = "what must be known of each member to find the right one? Where does that change, and who holds the lock then?"
WHOLE = "take the cores one after the other, and put all CPUs of a core into the same member"


class Planned(Exception):
    """An error that a call raises on purpose."""


class PlannedExit(BaseException):
    """Another one, which `except Exception` does not catch, as it does not catch Ctrl-C."""


class Reference:
    """The definition: the fewest inside; of several the one whose last call began longest ago, then the lowest number."""

    def __init__(self, members: int):
        self.inside, self.last, self._calls = [0] * members, [0] * members, 0

    def enter(self) -> int:
        self._calls += 1
        member = min(range(len(self.inside)), key=lambda m: (self.inside[m], self.last[m], m))
        self.inside[member] += 1
        self.last[member] = self._calls
        return member

    def leave(self, member: int) -> None:
        self.inside[member] -= 1


class _Lock(Condition):
    """Counts how often it was taken, and says whether somebody has it."""

    taken = 0

    @property
    def is_taken(self) -> bool:
        return self._owner is not None

    def acquire(self) -> bool:
        self.taken += 1
        return super().acquire()


class _Trial:
    """Calls of a router that begin and end when the check says so."""

    def __init__(self, answer: Callable, members: int, threads: Threads, case: str):
        self.lock = _Lock(threads._current)
        self.router = call(answer, members, self.lock, case=case, next_step=ENTER)
        self.threads, self.case, self.members = threads, case, members
        self.where: dict[str, int] = {}
        self.returned: dict[str, object] = {}
        self.raised: dict[str, BaseException] = {}

    def start(self, name: str, fails: bool = False) -> None:
        def work(member: int) -> str:
            self.where[name] = member
            self.threads.pause()
            if fails:
                self.raised[name] = (PlannedExit if name.endswith("1") else Planned)(name)
                raise self.raised[name]
            return f"answer {name}"

        def run() -> None:
            try:
                self.returned[name] = self.router.run(work)
            except (Planned, PlannedExit) as raised:
                self.returned[name] = raised

        self.threads.start(name, run)

    def begin(self, name: str, fails: bool = False) -> int:
        """Lets a call begin; returns its member."""
        self.start(name, fails)
        if self.go_on(name) != "inside":
            self._fail(f"call {name} begins at once", "it waits, or ends before it was inside")
        if self.lock.is_taken:
            raise CheckFailed(
                f"The lock is never held while a call runs; here {self.case}.",
                expected=f"nobody has the lock while call {name} is in its member",
                received="`run` still has it",
                next_step="end the `with self.lock:` before `call(member)`, and count down in another one",
            )
        return self.member(name)

    def end(self, name: str, fails: bool) -> None:
        """Lets a call end: the caller gets its result or its error."""
        if self.go_on(name) != "done":
            self._fail(f"call {name} ends", "it waits for something")
        found = self.returned.get(name)
        if not (found is self.raised[name] if fails else found == f"answer {name}"):
            raise CheckFailed(
                f"`run` returns what the call returned, and raises what it raised; here {self.case}.",
                expected=f"the exception of call {name} itself" if fails else f"{f'answer {name}'!r}",
                received=f"{found!r} was {'raised' if isinstance(found, BaseException) else 'returned'}",
                next_step="an answer and an exception both go to the caller, and in both cases the call is no longer inside",
            )

    def go_on(self, name: str) -> str:
        try:
            return self.threads.go_on(name)
        except Stuck:
            return "waits"
        except CheckFailed:
            raise
        except Exception as error:
            raise CheckFailed(
                f"`run` handles every call; here {self.case}.",
                expected="a call in some member",
                received=f"{type(error).__name__}: {error}",
                next_step=ENTER,
            ) from error

    def member(self, name: str) -> int:
        found = self.where.get(name)
        if isinstance(found, bool) or not isinstance(found, numbers.Integral) or not 0 <= found < self.members:
            self._fail(f"call(member) with a member from 0 to {self.members - 1}", repr(found))
        return int(found)

    def _fail(self, expected: str, received: str) -> None:
        raise CheckFailed(
            f"Calls run at the same time, each in one member; here {self.case}.",
            expected=expected,
            received=received,
            next_step="hold the lock while you count, never while you call",
        )


def check_router(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `Router(members, lock).run(call)`."""
    for case, members, script in _scripts(rng):
        _play(answer, members, script, case)
    for steps in range(6):
        _interrupted(answer, steps)


def _play(answer: Callable, members: int, script: Sequence[tuple[str, int, bool]], case: str) -> None:
    """Begins and ends calls as the script says; each must be where the definition has it."""
    right, expected = Reference(members), {}
    with Threads() as threads:
        trial = _Trial(answer, members, threads, case)
        for place, (what, number, fails) in enumerate(script):
            name, before = f"{number}", trial.lock.taken
            if what == "begin":
                inside = list(right.inside)
                expected[number] = right.enter()
                if (found := trial.begin(name, fails)) != expected[number]:
                    raise CheckFailed(
                        "A call goes to the member with the fewest inside; of several, to the one whose last call began longest "
                        f"ago; here {case}.",
                        expected=f"member {expected[number]}",
                        received=f"member {found}",
                        index=f"call {number}, with {inside} inside; {_told(script[:place])}",
                        next_step=ENTER,
                    )
            else:
                right.leave(expected[number])
                trial.end(name, fails)
            if trial.lock.taken == before and fails and what == "end":
                raise CheckFailed(
                    f"A call that raises has left its member, too; here {case}.",
                    wrong=f"Call {number} raised, and still counts as inside member {expected[number]}.",
                    expected="`with self.lock:` where a call ends, however it ends",
                    received=f"no lock where call {number} ends by an error",
                    next_step="which lines of `run` are reached when `call(member)` raises?",
                )
            if trial.lock.taken == before:
                raise CheckFailed(
                    f"Counts are read and changed with the lock alone; here {case}.",
                    expected="`with self.lock:` where a call begins, and where it ends",
                    received=f"no lock where call {number} {what}s",
                    next_step=ENTER,
                )


def _interrupted(answer: Callable, steps: int) -> None:
    """Interrupts a call after this number of steps, before it is inside, and lets another one run in between."""
    case = "a call that comes while another one is about to begin"
    with Threads() as threads:
        trial = _Trial(answer, 2, threads, case)
        trial.start("first")
        for _ in range(steps):
            if "first" in trial.where or "first" not in threads.can_go():
                break
            threads.go("first")
        trial.start("second")
        for _ in range(8):  # whoever has the lock lets go of it
            if trial.go_on("second") == "inside" or "first" not in threads.can_go():
                break
            threads.go("first")
        if trial.go_on("first") == "waits" or {"first", "second"} - trial.where.keys():
            trial._fail("both calls are inside", "one of them waits for the other")
        if trial.member("first") == trial.member("second"):
            raise CheckFailed(
                f"To look for a member and to count it up is one step; here {case}.",
                expected="two members, each with one call",
                received=f"both calls in member {trial.member('first')}",
                next_step="do both inside one `with self.lock:`",
            )


def _told(script: Sequence[tuple[str, int, bool]]) -> str:
    said = [f"{number} {what}s" for what, number, _ in script[-8:]]
    return ("... " if len(script) > 8 else "") + ", ".join(said) if said else "the first one"


def _scripts(rng: np.random.Generator):
    """The cases: (description, members, [(begin or end, which call, whether it raises)])."""
    yield "calls one after the other", 3, [(what, n, False) for n in range(7) for what in ("begin", "end")]
    yield "calls of which none ends", 3, [("begin", n, False) for n in range(7)]
    yield "one member", 1, [("begin", 0, False), ("begin", 1, False), ("end", 0, False), ("begin", 2, False)]
    failing = [(what, n, True) for n in range(5) for what in ("begin", "end")]
    yield "calls that raise", 2, [*failing, *[("begin", n, False) for n in range(5, 9)]]
    short = [(what, n, False) for n in (1, 2, 3) for what in ("begin", "end")]
    yield "a long call in one member", 2, [("begin", 0, False), *short]
    for _ in range(12):
        members, inside, script = int(rng.integers(2, 6)), {}, []
        for n in range(14):
            inside[n] = bool(rng.integers(4) == 0)
            script.append(("begin", n, inside[n]))
            while inside and rng.integers(2):
                gone = int(rng.choice(list(inside)))
                script.append(("end", gone, inside.pop(gone)))
        yield "calls by chance", members, script


def dealt_out(found: object, cpus: list[int], case: str, question: Sequence) -> None:
    """Each CPU is in one list, with the other threads of its core; lists have equally many cores, or one more."""
    cores, members = question
    try:
        sets = [[int(cpu) for cpu in member] for member in found]
        whole = all(not isinstance(cpu, bool) and cpu == int(cpu) for member in found for cpu in member)
    except (TypeError, ValueError):
        sets, whole = [], False
    owners = [{m for m, each in enumerate(sets) if set(core) & set(each)} for core in cores]
    counts = [owners.count({m}) for m in range(members)]
    if not whole or len(sets) != members or sorted(cpu for each in sets for cpu in each) != cpus:
        rule, step = "There is one list per member, and each CPU is in one of them", WHOLE
        expected = f"{counted(members, 'list')} with the CPUs {cpus if len(cpus) < 17 else f'0 to {cpus[-1]}'}"
    elif split := [core for core, of_core in zip(cores, owners) if len(of_core) > 1]:
        rule, step, expected = "The threads of a core belong to one member", WHOLE, f"the CPUs {split[0]} in one list"
    elif max(counts) - min(counts) > 1:
        rule, step = "Members have equally many cores, or one more", "deal the cores out like cards"
        shares = sorted({len(cores) // members, -(-len(cores) // members)})
        found, expected = f"{counts} cores", f"{' or '.join(map(str, shares))} for each member"
    else:
        return
    where = f"{counted(members, 'member')}, cores {cores if len(cores) < 9 else f'{cores[:8]} ...'}"
    raise CheckFailed(f"{rule}; here {case}.", expected=expected, received=found, index=where, next_step=step)


def _machines(rng: np.random.Generator):
    """The cases: (description, cores with the CPUs that are their threads, members)."""
    yield "one core and one member", [[0]], 1
    yield "two cores and two members", [[0], [1]], 2
    yield "two cores with two threads each", [[0, 2], [1, 3]], 2
    yield "cores whose threads have neighbouring numbers", [[0, 1], [2, 3], [4, 5], [6, 7]], 2
    yield "members that do not divide the cores", [[n, n + 5] for n in range(5)], 3
    yield "as many members as cores", [[n, n + 8] for n in range(8)], 8
    yield "CPUs that are not numbered from 0", [[12, 44], [13, 45], [30, 62]], 2
    yield "cores of which one has a single thread", [[0, 4], [1], [2, 6]], 3
    yield "cores of which some have a single thread", [[0, 1], [2], [3], [4, 5], [6], [7]], 2
    for _ in range(20):
        count, threads = int(rng.integers(1, 33)), int(rng.integers(1, 3))
        numbers_of = rng.permutation(count * threads).reshape(count, threads)
        yield "a machine by chance", [sorted(core) for core in numbers_of.tolist()], int(rng.integers(1, count + 1))


CHECKS = {
    1: check_router,
    2: Exercise(
        asks="cpu_sets(cores, members): the CPUs of each core, how many members -> a list of the CPUs of each member",
        cases=_machines,
        reference=lambda cores, members: sorted(cpu for core in cores for cpu in core),
        compare=dealt_out,
        run_it=WHOLE,
    ),
}
