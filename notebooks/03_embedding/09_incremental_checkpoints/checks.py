"""Checks of 03_embedding/09_incremental_checkpoints: (1) a delta applied, (2) deltas merged, (3) the chain to restore."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ctrlab.lessons.check import CheckFailed, counted
from ctrlab.lessons.exercise import Exercise, Same
from ctrlab.lessons.limits import NoLoop

DIM = 3  # of most tables
MANY = 3_000
MOST_STEPS = 300  # of the interpreter, lines and calls; NumPy's own included
TIMES = {0: "never", 1: "once"}
ENDS = [-(2**63), -1, 0, 2**63 - 1]
Arrays = dict[str, np.ndarray]


def same_state(found, expected: Arrays, case: str, question: Sequence) -> None:
    """The rows of the state after the delta, in any order."""
    found = _arrays(found, ("keys", "values"), expected["values"].shape[1], case)
    _require_rows(found, expected, case, "what becomes of a key that the delta names, and what of one that it does not?")


def merged(state: Arrays, deltas: list[Arrays]) -> tuple[Arrays, dict[int, str]]:
    """The definition: the state after all deltas, and the last word on each key that they name: "removed" or "keys"."""
    last: dict[int, str] = {}
    for delta in deltas:
        state = _applied(state, delta)
        last |= dict.fromkeys(delta["removed"].tolist(), "removed") | dict.fromkeys(delta["keys"].tolist(), "keys")
    return state, last


def same_effect(found, expected: tuple[Arrays, dict[int, str]], case: str, question: Sequence) -> None:
    """A delta, in any order, with the effect of all on the state, which names the same keys as they do."""
    (state, _), (after, last) = question, expected
    found = _arrays(found, ("keys", "values", "removed"), state["values"].shape[1], case)
    _require_rows(_applied(state, found), after, f"{case}; on the state it was drawn for", "the last word on a key holds")
    for which in ("keys", "removed"):
        _require_keys(found[which], [key for key, word in last.items() if word == which], which, case)


def in_a_list(answer: Callable) -> Callable:
    """The answer, with a list in place of a tuple."""
    return lambda saves: list(found) if isinstance(found := answer(saves), tuple) else found


def _lives(rng: np.random.Generator):
    """The cases: (description, a state, deltas that follow each other), most by chance from few keys, so that they meet."""
    none = {"keys": np.zeros(0, np.int64), "values": np.zeros((0, DIM), np.float32)}
    nothing = none | {"removed": np.zeros(0, np.int64)}
    a, b = (rows(rng, np.array([key])) for key in rng.choice(1000, 2, replace=False))
    gone = nothing | {"removed": a["keys"]}
    three = [rows(rng, np.array([key])) | {"removed": np.zeros(0, np.int64)} for key in rng.choice(1000, 3, replace=False)]
    yield "three deltas of a key each", none, three
    yield "wider rows", rows(rng, np.arange(5), 7), [rows(rng, np.arange(3, 9), 7) | {"removed": np.array([0])}]
    yield "a delta of nothing", rows(rng, np.array(ENDS)), [nothing]
    yield "a table that was empty", none, [rows(rng, np.array(ENDS)) | {"removed": np.zeros(0, np.int64)}]
    yield "a table that loses its last row", a, [gone]
    yield "a key that went and came back in one interval", a, [rows(rng, a["keys"]) | {"removed": a["keys"]}]
    yield "a key that went and comes back later", a, [gone, rows(rng, a["keys"]) | {"removed": b["keys"]}]
    yield "a key that came and went", b, [a | {"removed": np.zeros(0, np.int64)}, gone]
    for _ in range(6):
        pool = np.concatenate([np.array(ENDS), rng.integers(-50, 50, 12)])
        pool = rng.permutation(np.unique(pool))
        state = rows(rng, pool[: rng.integers(1, len(pool))])
        yield "keys by chance, in any order", state, [_delta(rng, pool) for _ in range(int(rng.integers(1, 5)))]


def rows(rng: np.random.Generator, keys: np.ndarray, dim: int = DIM) -> Arrays:
    return {"keys": np.asarray(keys, np.int64), "values": rng.standard_normal((len(keys), dim)).astype(np.float32)}


def _delta(rng: np.random.Generator, pool: np.ndarray) -> Arrays:
    changed = rng.choice(pool, rng.integers(0, len(pool)), replace=False)
    return rows(rng, changed) | {"removed": rng.choice(pool, rng.integers(0, len(pool) // 2), replace=False)}


def _applied(state: Arrays, delta: Arrays) -> Arrays:
    """The definition: removes the keys that a delta names, and puts its rows in."""
    content = dict(zip(state["keys"].tolist(), state["values"]))
    for key in delta["removed"].tolist():
        content.pop(key, None)
    content |= dict(zip(delta["keys"].tolist(), delta["values"]))
    values = np.array(list(content.values()), np.float32).reshape(-1, state["values"].shape[1])
    return {"keys": np.array(list(content), np.int64), "values": values}


def _arrays(found, names: tuple[str, ...], dim: int, case: str) -> Arrays:
    rule = f"The function returns a dictionary of {', '.join(names)}; here {case}."
    if not isinstance(found, dict) or sorted(found) != sorted(names):
        what = sorted(found) if isinstance(found, dict) else type(found).__name__
        raise CheckFailed(rule, expected=sorted(names), received=what, next_step="return the same names as came in")
    for name in names:
        dtype = np.float32 if name == "values" else np.int64
        array = found[name]
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != (2 if name == "values" else 1):
            received = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
            shape = "[n, D]" if name == "values" else "[n]"
            step = "np.concatenate keeps dtype and shape, also of empty arrays"
            raise CheckFailed(rule, expected=f"{name}: {np.dtype(dtype)} {shape}", received=received, next_step=step)
    if found["values"].shape[1] != dim:
        shown, step = f"rows of {counted(found['values'].shape[1], 'number')}", "take the rows as they came"
        raise CheckFailed(rule, expected=f"rows of {dim} numbers", received=shown, next_step=step)
    if len(found["keys"]) != len(found["values"]):
        received = f"{len(found['keys'])} keys and {len(found['values'])} rows"
        raise CheckFailed(rule, expected="a row for each key", received=received, next_step="choose both by one mask")
    return found


def _require_keys(found: np.ndarray, expected: list[int], which: str, case: str) -> None:
    received = sorted(found.tolist())
    if received == sorted(expected):
        return
    odd = next((key for key in sorted({*received, *expected}) if received.count(key) != expected.count(key)), None)
    steps = {
        "keys": "a row that a later delta removed, or has again, is not in the merged one",
        "removed": "what was the last word on this key, a row or a tombstone?",
    }
    raise CheckFailed(
        f"Of a merged delta, `{which}` are the keys whose last word is that, each once; here {case}.",
        expected=f"key {odd} {TIMES[expected.count(odd)]}",
        received=f"key {odd} {TIMES.get(received.count(odd), 'several times')}",
        next_step=steps[which],
    )


def _require_rows(found: Arrays, expected: Arrays, case: str, next_step: str) -> None:
    keys = found["keys"].tolist()
    wanted = dict(zip(expected["keys"].tolist(), expected["values"]))
    for key in sorted({*keys, *wanted}):
        if keys.count(key) != (key in wanted):
            received = f"key {key} {TIMES.get(keys.count(key), 'several times')}"
            expects = f"key {key} {TIMES[key in wanted]}"
            rule = f"Each key is there once, and only while it lives; here {case}."
            raise CheckFailed(rule, expected=expects, received=received, next_step=next_step)
        row = found["values"][keys.index(key)]
        if not np.array_equal(row, wanted[key]):
            rule = f"Each key has the row of its last save, bit for bit; here {case}."
            raise CheckFailed(rule, expected=wanted[key], received=row, index=f"key {key}", next_step=next_step)


def _folders(rng: np.random.Generator):
    """The cases: (description, {name: note}, the chain that can be restored); notes come in any order, names say nothing."""

    def shuffled(saves: list[tuple[str, dict]]) -> dict[str, dict]:
        return {saves[i][0]: saves[i][1] for i in rng.permutation(len(saves))}

    def run(steps: int, full_every: int, first: int = 1) -> list[tuple[str, dict]]:
        """A run of saves, one per step, with random ids and names."""
        made: list[tuple[str, dict]] = []
        for step in range(first, first + steps):
            full = (step - first) % full_every == 0
            note = {"id": _name(rng), "step": step, "previous": None if full else made[-1][1]["id"]}
            made.append((_name(rng), note))
        return made

    for _ in range(3):
        steps = int(rng.integers(4, 8))
        whole = run(steps, 9)
        names = [name for name, _ in whole]
        yield "a whole chain", shuffled(whole), names
        lost = int(rng.integers(1, steps - 1))
        yield f"delta {lost} of {steps - 1} is missing", shuffled(whole[:lost] + whole[lost + 1 :]), names[:lost]
        old, new = run(4, 9), run(3, 9, first=5)
        yield "two chains", shuffled(old + new), [name for name, _ in new]
        yield "the newer chain has lost its full save", shuffled(old + new[1:]), [name for name, _ in old]
        branch = [(n, s) for n, s in run(3, 9, first=steps - 1) if s["previous"]]
        newer = run(1, 9, first=2)
        yield "a newer full save, and an older chain that goes on after it", shuffled(whole + newer), names
        fork = (_name(rng), {"id": _name(rng), "step": steps + 1, "previous": whole[1][1]["id"]})
        yield "two saves that follow the same one", shuffled([*whole, fork]), [*names[:2], fork[0]]
        yield "a delta of another run, with a later step", shuffled(whole + branch), names
    alone = run(1, 9)
    yield "a full save alone", shuffled(alone), [alone[0][0]]
    yield "deltas alone", shuffled(run(4, 9)[1:]), []


def _name(rng: np.random.Generator) -> str:
    return f"{rng.integers(16**8):08x}"


def many(rng: np.random.Generator) -> tuple[Arrays, Arrays]:
    """The state and delta on which the cost is taken."""
    return rows(rng, np.arange(MANY)), rows(rng, np.arange(MANY // 2, 2 * MANY)) | {"removed": np.arange(0, MANY, 7)}


CHECKS = {
    1: Exercise(
        asks="apply_delta(state, delta): {keys, values}, {keys, values, removed} -> the state after it, {keys, values}",
        cases=lambda rng: ((case, state, deltas[0]) for case, state, deltas in _lives(rng)),
        reference=_applied,
        compare=same_state,
        limits=[NoLoop("keys", many=MANY, most=MOST_STEPS, on=many)],
    ),
    2: Exercise(
        asks="merge(deltas): a list of {keys, values, removed} -> one with the effect of all",
        cases=_lives,
        reference=merged,
        given=lambda state, deltas: (deltas,),
        compare=same_effect,
    ),
    3: Exercise(
        asks="chain(saves): {name: {id, step, previous}} -> the names to restore the newest whole one, full one first",
        cases=_folders,
        reference=lambda saves, expected: expected,
        given=lambda saves, expected: (saves,),
        ask=in_a_list,
        compare=Same(
            "The chain is that of the newest save which is whole",
            "walk back by `previous` from the newest save: where does that end, and what then?",
        ),
    ),
}
