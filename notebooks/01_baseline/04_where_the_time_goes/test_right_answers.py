"""Right answers that are built in other ways than the lesson's solutions."""

from collections import Counter

from right_answers import passing


def times_by_edges(events):
    """Each begin and end in order: the time between two of them belongs to the innermost open event."""
    edges = [(start, 1, -length, name) for name, start, length in events]
    edges += [(start + length, 0, length, name) for name, start, length in events]
    own, open_names, last = {name: 0 for name, *_ in events}, [], 0
    for at, begins, _, name in sorted(edges):
        if open_names:
            own[open_names[-1]] += at - last
        last = at
        if begins:
            open_names.append(name)
        else:
            open_names.pop()
    return own


def times_by_recursion(events):
    """Each call reads an event and those in it."""
    waiting, own = sorted(events, key=lambda event: (-event[1], event[2])), Counter()

    def read():
        name, start, length = waiting.pop()
        own[name] += length
        while waiting and waiting[-1][1] < start + length:
            inside = read()
            own[name] -= inside
        return length

    while waiting:
        read()
    return own


def times_with_a_parent_each(events):
    """The parent of each event first, then the sums."""
    ordered = sorted(events, key=lambda event: (event[1], -event[2]))
    left, stack = [length for *_, length in ordered], []
    for place, (_, start, length) in enumerate(ordered):
        while stack and sum(ordered[stack[-1]][1:]) <= start:
            stack.pop()
        if stack:
            left[stack[-1]] -= length
        stack.append(place)
    own = {}
    for (name, *_), time in zip(ordered, left):
        own[name] = own.get(name, 0) + time
    return own


ANSWERS = {1: [times_by_edges, times_by_recursion, times_with_a_parent_each]}
test_another_right_answer_passes = passing("01_baseline/04_where_the_time_goes", ANSWERS)
