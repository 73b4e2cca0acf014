"""The checks of the lesson on incremental checkpoints against right answers and every kind of wrong one."""

import numpy as np
from wrong_answers import judge

LESSON = "03_embedding/09_incremental_checkpoints"


def apply_delta(state, delta):
    kept = ~np.isin(state["keys"], np.concatenate([delta["keys"], delta["removed"]]))
    return {name: np.concatenate([state[name][kept], delta[name]]) for name in ("keys", "values")}


def merge(deltas):
    rows, removed = {"keys": deltas[0]["keys"], "values": deltas[0]["values"]}, deltas[0]["removed"]
    removed = np.setdiff1d(removed, rows["keys"])
    for delta in deltas[1:]:
        rows = apply_delta(rows, delta)
        removed = np.setdiff1d(np.concatenate([removed, delta["removed"]]), rows["keys"])
    return rows | {"removed": removed}


def chain(saves):
    by_id = {note["id"]: name for name, note in saves.items()}
    for name in sorted(saves, key=lambda name: -saves[name]["step"]):
        found = [name]
        while (previous := saves[found[0]]["previous"]) in by_id:
            found.insert(0, by_id[previous])
        if previous is None:
            return found
    return []


def does_nothing(state, delta):
    return state


def only_puts_in(state, delta):
    return apply_delta(state, delta | {"removed": delta["removed"][:0]})


def only_removes(state, delta):
    return apply_delta(state, {name: array[:0] if name != "removed" else array for name, array in delta.items()})


def keeps_the_old(state, delta):
    kept = ~np.isin(state["keys"], delta["removed"])
    return {name: np.concatenate([state[name][kept], delta[name]]) for name in ("keys", "values")}


def removes_last(state, delta):
    found = apply_delta(state, delta)
    kept = ~np.isin(found["keys"], delta["removed"])
    return {name: array[kept] for name, array in found.items()}


def in_place(state, delta):
    found = apply_delta(state, delta)
    state["values"][:] = 0
    return found


def adds_up(state, delta):
    found = apply_delta(state, delta)
    old = dict(zip(state["keys"].tolist(), state["values"]))
    more = [old.get(key, np.zeros(3, np.float32)) for key in delta["keys"].tolist()]
    values = found["values"].copy()
    values[len(values) - len(more) :] += np.array(more, np.float32).reshape(-1, 3)
    return found | {"values": values}


def rounds(state, delta):
    found = apply_delta(state, delta)
    return found | {"values": found["values"].astype(np.float16).astype(np.float32)}


def widens(state, delta):
    found = apply_delta(state, delta)
    return found | {"values": found["values"].astype(np.float64)}


def through_floats(state, delta):
    found = apply_delta(state, delta)
    return found | {"keys": found["keys"].astype(np.float64).clip(-(2.0**62), 2.0**62).astype(np.int64)}


def loses_the_order(state, delta):
    found = apply_delta(state, delta)
    return found | {"keys": np.sort(found["keys"])}


def returns_a_pair(state, delta):
    return tuple(apply_delta(state, delta).values())


def keeps_the_tombstones(state, delta):
    return apply_delta(state, delta) | {"removed": delta["removed"]}


def one_by_one(state, delta):
    table = dict(zip(state["keys"].tolist(), state["values"]))
    for key in delta["removed"].tolist():
        table.pop(key, None)
    table |= dict(zip(delta["keys"].tolist(), delta["values"]))
    values = np.array(list(table.values()), np.float32).reshape(-1, state["values"].shape[1])
    return {"keys": np.array(list(table), np.int64), "values": values}


STATES = {
    one_by_one: "no loop over keys",
    does_nothing: "Each key",
    only_puts_in: "is there once",
    only_removes: "Each key",
    keeps_the_old: "is there once",
    removes_last: "went and came back",
    in_place: "leaves its inputs",
    adds_up: "bit for bit",
    rounds: "bit for bit",
    widens: "float64",
    through_floats: "is there once",
    loses_the_order: "bit for bit",
    returns_a_pair: "returns a dictionary",
    keeps_the_tombstones: "returns a dictionary",
}


def the_last(deltas):
    return deltas[-1]


def side_by_side(deltas):
    return {name: np.concatenate([delta[name] for delta in deltas]) for name in deltas[0]}


def forgets_tombstones(deltas):
    return merge(deltas) | {"removed": deltas[0]["removed"][:0]}


def all_tombstones(deltas):
    return merge(deltas) | {"removed": np.unique(np.concatenate([delta["removed"] for delta in deltas]))}


def backwards(deltas):
    return merge(deltas[::-1])


def tombstones_twice(deltas):
    found = merge(deltas)
    return found | {"removed": np.concatenate([found["removed"], found["removed"]])}


def rows_win(deltas):
    merged = [delta | {"removed": delta["removed"][:0]} for delta in deltas]
    found = merge(merged)
    return found | {"removed": np.setdiff1d(np.concatenate([delta["removed"] for delta in deltas]), found["keys"])}


MERGES = [
    the_last,
    side_by_side,
    forgets_tombstones,
    all_tombstones,
    backwards,
    tombstones_twice,
    rows_win,
]


def all_by_step(saves):
    return sorted(saves, key=lambda name: saves[name]["step"])


def as_they_come(saves):
    return list(saves)


def newest_alone(saves):
    return all_by_step(saves)[-1:]


def never_checks(saves):
    """Right where each delta holds everything since the full save."""
    ordered = all_by_step(saves)
    fulls = [name for name in ordered if saves[name]["previous"] is None]
    return [*fulls[-1:], *ordered[-1:]]


def skips_the_missing(saves):
    ordered = all_by_step(saves)
    fulls = [i for i, name in enumerate(ordered) if saves[name]["previous"] is None]
    return ordered[fulls[-1] :] if fulls else []


def newest_chain_or_nothing(saves):
    by_id = {note["id"]: name for name, note in saves.items()}
    found = newest_alone(saves)
    while (previous := saves[found[0]]["previous"]) in by_id:
        found.insert(0, by_id[previous])
    return found if previous is None else []


def backwards_chain(saves):
    return chain(saves)[::-1]


def empties(saves):
    found = chain(saves)
    saves.clear()
    return found


def raises(saves):
    raise ValueError("a delta is missing")


CHAINS = [
    all_by_step,
    as_they_come,
    newest_alone,
    never_checks,
    skips_the_missing,
    newest_chain_or_nothing,
    backwards_chain,
    empties,
    raises,
]
test_right, test_wrong = judge(LESSON, {1: (apply_delta, STATES), 2: (merge, MERGES), 3: (chain, CHAINS)})
