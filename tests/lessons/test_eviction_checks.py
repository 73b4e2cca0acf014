"""The checks of the eviction lesson against right answers and every kind of wrong one."""

import numpy as np
from wrong_answers import judge

LESSON = "03_embedding/04_eviction"


def right(table, now, steps_to_live):
    goes = now - table["steps"] > steps_to_live
    return {name: array[~goes] for name, array in table.items()}, np.sort(table["keys"][goes])


def no_op(table, now, steps_to_live):
    return table, np.zeros(0, np.int64)


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


def low_precision(table, now, steps_to_live):
    left, gone = right(table, now, steps_to_live)
    return left | {"values": left["values"].astype(np.float16).astype(np.float32)}, gone


WRONG = [
    no_op,
    off_by_one,
    without_slots,
    drops_the_counts,
    no_tombstones,
    those_that_stay,
    in_any_order,
    sorts_its_rows,
    zeroes_the_rows,
    in_place,
    low_precision,
]


def back(stream, every, steps_to_live):
    """By the gaps alone: a key that came at `last` has gone at the first eviction that finds it too old."""
    last, came, late = {}, 0, 0
    for step, keys in enumerate(stream, 1):
        for key in set(keys.tolist()):
            came += 1
            if key in last:
                gone_after = -(-(last[key] + steps_to_live + 1) // every) * every
                late += gone_after < step
            last[key] = step
    return late / came if came else 0.0


def never(stream, every, steps_to_live):
    return 0.0


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


SHARES = [
    never,
    counts_new_ones,
    at_every_step,
    a_step_early,
    before_the_step,
    every_occurrence,
    counts_not_shares,
    empties_the_stream,
]
test_right, test_wrong = judge(LESSON, {1: (right, WRONG), 2: (back, SHARES)})
