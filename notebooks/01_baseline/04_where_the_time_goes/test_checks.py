"""The checks of the profiling lesson against right answers and every kind of wrong one."""

import numpy as np
from solved import solved
from wrong_answers import judge

LESSON = "01_baseline/04_where_the_time_goes"
self_times, most_gain = solved(LESSON, 1), solved(LESSON, 2)


def mistaken(events, *, key=lambda e: (e[1], -e[2]), touching=True, ancestors=False):
    """A self-time function with one of the usual mistakes."""
    own, open_events = {}, []
    for name, start, length in sorted(events, key=key):
        while open_events and (open_events[-1][0] <= start if touching else open_events[-1][0] < start):
            open_events.pop()
        for _, parent in open_events if ancestors else open_events[-1:]:
            own[parent] -= length
        own[name] = own.get(name, 0) + length
        open_events.append((start + length, name))
    return own


def lengths(events):
    own = {}
    for name, _, length in events:
        own[name] = own.get(name, 0) + length
    return own


def sorts_in_place(events):
    events.sort(key=lambda e: (e[1], -e[2]))
    return self_times(events)


def last_of_a_name(events):
    return {name: length for name, _, length in events}


def of_all_pairs(events):
    own = {}
    for name, start, length in events:
        inside = [e for e in events if (e[1], -e[2]) > (start, -length) and e[1] + e[2] <= start + length]
        direct = [e for e in inside if not any(o is not e and o[1] <= e[1] and e[1] + e[2] <= o[1] + o[2] for o in inside)]
        own[name] = own.get(name, 0) + length - sum(e[2] for e in direct)
    return own


def back_to_the_parent(events):
    own, before = {}, []
    for name, start, length in sorted(events, key=lambda e: (e[1], -e[2])):
        own[name] = own.get(name, 0) + length
        for parent, end in reversed(before):
            if start + length <= end:
                own[parent] -= length
                break
        before.append((name, start + length))
    return own


WRONG = {
    "all pairs": (of_all_pairs, "Budget: one sort, one pass"),
    "back to the parent": (back_to_the_parent, "Budget: one sort, one pass"),
    "lengths": lengths,
    "no order": lambda events: mistaken(events, key=lambda e: 0),
    "start alone": lambda events: mistaken(events, key=lambda e: (e[1], e[2])),
    "touching events are nested": lambda events: mistaken(events, touching=False),
    "all ancestors": lambda events: mistaken(events, ancestors=True),
    "sorts the input": sorts_in_place,
    "one event a name": last_of_a_name,
    "no-op": lambda events: None,
    "a constant": lambda events: {"op_1": 1},
    "a list": lambda events: list(self_times(events).items()),
    "low precision": lambda events: {name: round(t, -2) for name, t in self_times(events).items()},
    "fails on nothing": lambda events: self_times(events) if events[0] else None,
    "arrays for times": lambda events: {name: np.ones(2) for name in self_times(events)},
    "names of many kinds": lambda events: dict(enumerate("ab")) | {"c": 1},
}


def longest_row(table):
    row = max(table.rows, key=lambda row: row.share)
    return row.part, 1 / (1 - row.share)


def first_row(table):
    part = table.rows[0].part
    return part, 1 / (1 - min(table.share(part=part), 0.999))


def divides_by_nothing(table):
    row = table.by_part().rows[0]
    return row.part, 1 / (1 - row.share)


WRONG_GAINS = {
    "the longest op": longest_row,
    "the first row": first_row,
    "divides by nothing": divides_by_nothing,
    "the share": lambda table: (table.by_part().rows[0].part, table.by_part().rows[0].share),
    "a word for the gain": lambda table: (most_gain(table)[0], "much"),
    "an array for the gain": lambda table: (most_gain(table)[0], np.ones(3)),
    "an array for the name": lambda table: (np.ones(3), most_gain(table)[1]),
    "no name": lambda table: most_gain(table)[1],
    "no-op": lambda table: None,
    "a constant": lambda table: ("linear", 2.5),
    "low precision": lambda table: (most_gain(table)[0], float(np.float16(most_gain(table)[1]))),
}


test_right_answers_pass, test_wrong_answers_are_refused = judge(LESSON, {1: (self_times, WRONG), 2: (most_gain, WRONG_GAINS)})
