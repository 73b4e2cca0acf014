"""The checks of the lesson on incremental checkpoints against right answers and every kind of wrong one."""

import numpy as np
from solved import solved
from wrong_answers import judge

LESSON = "03_embedding/09_incremental_checkpoints"
apply_delta, merge, chain = solved(LESSON, 1), solved(LESSON, 2), solved(LESSON, 3)


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
    more = [old.get(key, 0 * delta["values"][0]) for key in delta["keys"].tolist()]
    values = found["values"].copy()
    values[len(values) - len(more) :] += np.array(more, np.float32).reshape(-1, values.shape[1])
    return found | {"values": values}


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


def three_numbers_a_row(state, delta):
    found = apply_delta(state, delta)
    return found | {"values": found["values"].ravel()[: 3 * len(found["keys"])].reshape(-1, 3)}


def wide_where_empty(state, delta):
    found = apply_delta(state, delta)
    return found if len(found["keys"]) else found | {"values": np.zeros((0, 6), np.float32)}


def takes_the_delta_apart(state, delta):
    found = apply_delta(state, delta)
    del delta["removed"]
    return found


def replaces_the_state(state, delta):
    state.update(apply_delta(state, delta))
    return dict(state)


STATES = {
    three_numbers_a_row: "rows of",
    wide_where_empty: "rows of",
    takes_the_delta_apart: "leaves its inputs",
    replaces_the_state: "leaves its inputs",
    one_by_one: "no loop over keys",
    only_puts_in: "is there once",
    only_removes: "Each key",
    keeps_the_old: "is there once",
    removes_last: "went and came back",
    in_place: "leaves its inputs",
    adds_up: "bit for bit",
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


def the_last_two(deltas):
    return merge(deltas[-2:])


def into_the_first(deltas):
    found = merge(deltas)
    deltas[0].update(found)
    return found


def tombstones_in_32_bits(deltas):
    found = merge(deltas)
    return found | {"removed": found["removed"].astype(np.int32)}


def as_it_is_where_alone(deltas):
    return deltas[0] if len(deltas) == 1 else merge(deltas)


MERGES = [
    the_last_two,
    into_the_first,
    tombstones_in_32_bits,
    as_it_is_where_alone,
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


def raises(saves):
    raise ValueError("a delta is missing")


def from_the_newest_full(saves):
    """Forwards: what follows the newest full save, though an older chain may have gone on."""
    fulls = [name for name in saves if saves[name]["previous"] is None]
    found = sorted(fulls, key=lambda name: saves[name]["step"])[-1:]
    while found and (following := [n for n in saves if saves[n]["previous"] == saves[found[-1]]["id"]]):
        found.append(following[0])
    return found


def by_steps(saves):
    """Takes saves whose steps follow each other for a chain."""
    found = []
    for name in all_by_step(saves):
        if saves[name]["previous"] is None:
            found = [name]
        elif found and saves[name]["step"] == saves[found[-1]]["step"] + 1:
            found.append(name)
    return found


def sorted_names(saves):
    return sorted(chain(saves))


def the_longest(saves):
    by_id, best = {note["id"]: name for name, note in saves.items()}, []
    for name in saves:
        found = [name]
        while (previous := saves[found[0]]["previous"]) in by_id:
            found.insert(0, by_id[previous])
        if previous is None and len(found) > len(best):
            best = found
    return best


def nothing_where_there_is_none(saves):
    return chain(saves) or None


def marks_what_it_saw(saves):
    found = chain(saves)
    for note in saves.values():
        note["seen"] = True
    return found


CHAINS = [
    from_the_newest_full,
    by_steps,
    sorted_names,
    the_longest,
    nothing_where_there_is_none,
    marks_what_it_saw,
    all_by_step,
    as_they_come,
    newest_alone,
    never_checks,
    skips_the_missing,
    newest_chain_or_nothing,
    backwards_chain,
    raises,
]
test_right, test_wrong = judge(LESSON, {1: (apply_delta, STATES), 2: (merge, MERGES), 3: (chain, CHAINS)})
