"""The checks of the eviction lesson against right answers and every kind of wrong one."""

import numpy as np
import pytest
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check

LESSON = "03_embedding/04_eviction"
right, back = solved(LESSON, 1), solved(LESSON, 2)


def off_by_one(table, now, steps_to_live):
    return right(table, now, steps_to_live - 1)


def without_slots(table, now, steps_to_live):
    left, gone = right(table, now, steps_to_live)
    return left | {"m": table["m"], "v": table["v"]}, gone


def drops_the_counts(table, now, steps_to_live):
    left, gone = right(table, now, steps_to_live)
    return {name: array for name, array in left.items() if name != "frequencies"}, gone


def no_tombstones(table, now, steps_to_live):
    return right(table, now, steps_to_live)[0], np.zeros(0, np.int64)


def those_that_stay(table, now, steps_to_live):
    left, _ = right(table, now, steps_to_live)
    return left, np.sort(left["keys"])


def in_any_order(table, now, steps_to_live):
    left, _ = right(table, now, steps_to_live)
    return left, table["keys"][now - table["steps"] > steps_to_live]


def sorts_its_rows(table, now, steps_to_live):
    left, gone = right(table, now, steps_to_live)
    order = np.argsort(left["keys"])
    return {name: array[order] for name, array in left.items()}, gone


def zeroes_the_rows(table, now, steps_to_live):
    goes = now - table["steps"] > steps_to_live
    return table | {"values": np.where(goes[:, None], 0, table["values"]).astype(np.float32)}, np.sort(table["keys"][goes])


def in_place(table, now, steps_to_live):
    table["steps"][:] = 0
    return right(table, now, steps_to_live)


def slots_by_name(table, now, steps_to_live):
    left, gone = right(table, now, steps_to_live)
    return {name: left[name] for name in ("keys", "values", "m", "v", "frequencies", "steps")}, gone


def replaces_the_arrays(table, now, steps_to_live):
    found = right(table, now, steps_to_live)
    table.update(found[0])
    return found


def notes_it_in_the_table(table, now, steps_to_live):
    found = right(table, now, steps_to_live)
    table["gone"] = found[1]
    return found


def narrower_counts(table, now, steps_to_live):
    left, gone = right(table, now, steps_to_live)
    return left | {"frequencies": left["frequencies"].astype(np.int32)}, gone


def keys_through_floats(table, now, steps_to_live):
    left, gone = right(table, now, steps_to_live)
    return left, gone.astype(np.float64)


WRONG = [
    slots_by_name,
    replaces_the_arrays,
    notes_it_in_the_table,
    narrower_counts,
    keys_through_floats,
    off_by_one,
    without_slots,
    drops_the_counts,
    no_tombstones,
    those_that_stay,
    in_any_order,
    sorts_its_rows,
    zeroes_the_rows,
    in_place,
]


def counts_new_ones(stream, every, steps_to_live):
    new = len(np.unique(np.concatenate([*stream, np.zeros(0, np.int64)])))
    came = sum(len(np.unique(keys)) for keys in stream)
    return back(stream, every, steps_to_live) + new / max(came, 1)


def at_every_step(stream, every, steps_to_live):
    return back(stream, 1, steps_to_live)


def a_step_early(stream, every, steps_to_live):
    return back(stream, every, steps_to_live - 1)


def before_the_step(stream, every, steps_to_live):
    return back([stream[0][:0], *stream] if stream else stream, every, steps_to_live)


def every_occurrence(stream, every, steps_to_live):
    came = sum(len(np.unique(keys)) for keys in stream)
    return back(stream, every, steps_to_live) * came / max(sum(len(keys) for keys in stream), 1)


def counts_not_shares(stream, every, steps_to_live):
    return back(stream, every, steps_to_live) * sum(len(np.unique(keys)) for keys in stream)


def empties_the_stream(stream, every, steps_to_live):
    answer = back(stream, every, steps_to_live)
    for keys in stream:
        keys[:] = 0
    return answer


def played(stream, every, steps_to_live, *, first=1, before=False, of="all"):
    """Right, step by step; its options are the ways to go wrong."""
    last, once, came, late = {}, set(), 0, 0
    for step, keys in enumerate(stream, first):
        due = step > 0 and step % every == 0
        if before and due:
            last = {key: s for key, s in last.items() if step - s <= steps_to_live}
        for key in np.unique(keys).tolist():
            came += of == "all" or key in once
            late += key in once and key not in last
            last[key] = step
            once.add(key)
        if not before and due:
            last = {key: s for key, s in last.items() if step - s <= steps_to_live}
    return late / max(came, 1)


def steps_from_zero(*question):
    return played(*question, first=0)


def evicts_before_the_step(*question):
    return played(*question, before=True)


def of_those_that_come_again(*question):
    return played(*question, of="again")


def single_precision(*question):
    return np.float32(back(*question))


SHARES = [
    steps_from_zero,
    evicts_before_the_step,
    of_those_that_come_again,
    single_precision,
    counts_new_ones,
    at_every_step,
    a_step_early,
    before_the_step,
    every_occurrence,
    counts_not_shares,
    empties_the_stream,
]
test_right, test_wrong = judge(LESSON, {1: (right, WRONG), 2: (back, SHARES)})


@pytest.mark.parametrize(("exercise", "answer"), [(2, played)])
def test_what_wrong_answers_alter_is_right(exercise, answer):
    check.run(LESSON, exercise, answer)
