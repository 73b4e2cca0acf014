"""The checks of the lesson on the hash store against right answers and every kind of wrong one."""

import binascii
import zlib

import numpy as np
import pytest
from ctrlab.lessons.topics.hash_store import checks
from ctrlab.lessons.topics.hash_store.checks import HEAD
from solved import solved
from wrong_answers import judge

from ctrlab.lessons import check

LESSON = "03_embedding/07_hash_store"


def recover(data, row_bytes, *, checked=True, by_sequence=True, tombstones=True, damage=True):
    size, latest, end, broken = HEAD.size + row_bytes, {}, 0, None
    for offset in range(0, len(data) - size + 1, size):
        crc, kind, sequence, key = HEAD.unpack_from(data, offset)
        if checked and zlib.crc32(data[offset + 4 : offset + size]) != crc:
            broken = offset if broken is None else broken
            continue
        if broken is not None:
            if damage:
                raise ValueError(f"byte {broken}")
            break
        end = offset + size
        if key not in latest or not by_sequence or latest[key][0] < sequence:
            latest[key] = sequence, kind, offset
    return {key: at for key, (_, kind, at) in latest.items() if kind == 0 or not tombstones}, end


def unchecked(data, row_bytes):
    return recover(data, row_bytes, checked=False)


def last_in_the_file(data, row_bytes):
    return recover(data, row_bytes, by_sequence=False)


def no_tombstones(data, row_bytes):
    return recover(data, row_bytes, tombstones=False)


def damage_as_a_tail(data, row_bytes):
    return recover(data, row_bytes, damage=False)


def whole_file(data, row_bytes):
    return recover(data, row_bytes)[0], len(data)


def off_by_one(data, row_bytes):
    index, end = recover(data, row_bytes)
    return {key: at + HEAD.size for key, at in index.items()}, end


def nothing(data, row_bytes):
    return {}, 0


def index_alone(data, row_bytes):
    return recover(data, row_bytes)[0]


def offsets_in_floats(data, row_bytes):
    index, end = recover(data, row_bytes)
    return {key: float(at) for key, at in index.items()}, end


def end_in_floats(data, row_bytes):
    index, end = recover(data, row_bytes)
    return index, float(end)


def end_in_records(data, row_bytes):
    index, end = recover(data, row_bytes)
    return index, end // (HEAD.size + row_bytes)


def keys_without_a_row(data, row_bytes):
    index, end = recover(data, row_bytes)
    return index | {10**15: None}, end


def names_every_byte(data, row_bytes):
    try:
        return recover(data, row_bytes)
    except ValueError as error:
        raise ValueError(f"one of {list(range(0, len(data), HEAD.size + row_bytes))}") from error


def names_it_by_accident(data, row_bytes):
    try:
        return recover(data, row_bytes)
    except ValueError as error:
        raise ValueError("".join(map(str, range(3_000)))) from error


def late_damage_as_a_tail(data, row_bytes):
    size = HEAD.size + row_bytes
    try:
        return recover(data, row_bytes)
    except ValueError as error:
        at = int(str(error).split()[-1])
        if at // size < len(data) // size - 2:
            raise
        return recover(data[:at], row_bytes)


def two_sums(data, row_bytes):
    recover(data, row_bytes)
    return recover(data, row_bytes)


def names_the_last(data, row_bytes):
    """Wrong: of several broken records in a row, it names the last."""
    size, broken = HEAD.size + row_bytes, None
    for offset in range(0, len(data) - size + 1, size):
        if zlib.crc32(data[offset + 4 : offset + size]) != HEAD.unpack_from(data, offset)[0]:
            broken = offset
        elif broken is not None:
            raise ValueError(f"byte {broken}")
    return checks.recover(data, row_bytes)


def one_broken_is_enough(data, row_bytes):
    """Wrong: it looks only at the next record, and takes two broken ones in a row for a torn tail."""
    try:
        return recover(data, row_bytes)
    except ValueError as error:
        at, size = int(str(error).split()[-1]), HEAD.size + row_bytes
        if zlib.crc32(data[at + size + 4 : at + 2 * size]) == HEAD.unpack_from(data, at + size)[0]:
            raise
        return recover(data[:at], row_bytes)


def by_the_low_byte(data, row_bytes):
    """Wrong: reads only one byte of the sequence numbers."""
    latest, size = {}, HEAD.size + row_bytes
    end = recover(data, row_bytes)[1]
    for offset in range(0, end, size):
        _, kind, sequence, key = HEAD.unpack_from(data, offset)
        if key not in latest or latest[key][0] < sequence % 256:
            latest[key] = sequence % 256, kind, offset
    return {key: at for key, (_, kind, at) in latest.items() if kind == 0}, end


def two_libraries(data, row_bytes):
    binascii.crc32(data)
    return recover(data, row_bytes)


def compact(segments, limit, *, trigger=None, least=None, tombstones="needed", pick=max):
    """`trigger` and `least`: shares of garbage, of all records and of a segment, in place of the limit."""
    total, live = sum(map(len, segments)), len(checks.rows(segments))
    if 1 - live / total <= (limit if trigger is None else trigger):
        return None
    newest = checks.latest(segments)
    found = []
    for place, segment in enumerate(segments[:-1]):
        others = {key for other, s in enumerate(segments) if other != place for _, key, _ in s}
        stays = {"needed": others, "never": set(), "always": newest.keys()}[tombstones]
        copies = [r for r in segment if newest[r[1]] == r and (r[2] is not None or r[1] in stays)]
        share = 1 - len(copies) / len(segment)
        if share > (limit if least is None else least):
            found.append((share, place, copies))
    return pick(found)[1:] if found else None


def never(segments, limit):
    return None


def always(segments, limit):
    return compact(segments, limit, trigger=0)


def any_garbage(segments, limit):
    return compact(segments, limit, least=0)


def half(segments, limit):
    return compact(segments, limit, least=0.5)


def less_than_a_third(segments, limit):
    return compact(segments, limit, least=0.3)


def more_than_a_third(segments, limit):
    return compact(segments, limit, least=0.36)


def an_iterator(segments, limit):
    found = compact(segments, limit)
    return found and (found[0], ([*record] for record in found[1]))


def forgets_tombstones(segments, limit):
    return compact(segments, limit, tombstones="never")


def keeps_tombstones(segments, limit):
    return compact(segments, limit, tombstones="always")


def least_first(segments, limit):
    return compact(segments, limit, pick=min)


def copies_all(segments, limit):
    found = compact(segments, limit)
    return found and (found[0], segments[found[0]])


def the_last(segments, limit):
    found = compact(segments, limit)
    return found and (len(segments) - 1, segments[-1])


def renumbered(segments, limit):
    found = compact(segments, limit)
    return found and (found[0], [(sequence + 10_000, key, row) for sequence, key, row in found[1]])


def place_alone(segments, limit):
    found = compact(segments, limit)
    return found and found[0]


def in_place(segments, limit):
    found = compact(segments, limit)
    segments.clear()
    return found


WRONG_FILES = [unchecked, last_in_the_file, no_tombstones, damage_as_a_tail, whole_file, off_by_one, nothing, index_alone]


def numbers_alone(segments, limit):
    found = compact(segments, limit)
    return found and (found[0], [sequence for sequence, _, _ in found[1]])


def no_records(segments, limit):
    found = compact(segments, limit)
    return found and (found[0], None)


def one_twice(segments, limit):
    found = compact(segments, limit)
    return found and (found[0], [*found[1], *found[1][:1]])


def from_the_end(segments, limit):
    found = compact(segments, limit)
    return found and (found[0] - len(segments), found[1])


def older_in_front_only(segments, limit):
    """Compaction puts its copies in front, so a key's older record may lie behind."""
    newest, found = checks.latest(segments), []
    if len(checks.rows(segments)) >= (1 - limit) * sum(map(len, segments)):
        return None
    for place, segment in enumerate(segments[:-1]):
        before = {key for s in segments[:place] for _, key, _ in s}
        copies = [r for r in segment if newest[r[1]] == r and (r[2] is not None or r[1] in before)]
        if 1 - len(copies) / len(segment) > limit:
            found.append((1 - len(copies) / len(segment), place, copies))
    return max(found)[1:] if found else None


WRONG_CHOICES = [never, always, any_garbage, half, forgets_tombstones, keeps_tombstones, least_first, copies_all, the_last]
WRONG_CHOICES += [less_than_a_third, more_than_a_third, renumbered, place_alone, in_place]
WRONG_FILES += [offsets_in_floats, end_in_floats, end_in_records, keys_without_a_row, names_every_byte]
WRONG_FILES += [names_it_by_accident, late_damage_as_a_tail, two_sums, names_the_last, one_broken_is_enough]
WRONG_FILES += [by_the_low_byte, two_libraries]


def always_a_third(segments, limit):
    return compact(segments, 1 / 3)


def garbage_of_all_at_a_third(segments, limit):
    return compact(segments, limit, trigger=1 / 3)


def garbage_of_a_segment_at_a_third(segments, limit):
    return compact(segments, limit, least=1 / 3)


WRONG_CHOICES += [always_a_third, garbage_of_all_at_a_third, garbage_of_a_segment_at_a_third]


def takes_the_file_that_is_written(segments, limit):
    newest = checks.latest(segments)
    shares = [1 - len(checks.kept(segments, place)) / max(len(segments[place]), 1) for place in range(len(segments))]
    if sum(r[2] is not None for r in newest.values()) >= (1 - limit) * sum(map(len, segments)) or max(shares) <= limit:
        return None
    place = shares.index(max(shares))
    return place, checks.kept(segments, place)


WRONG_CHOICES += [numbers_alone, no_records, one_twice, from_the_end, older_in_front_only]
FILES = dict.fromkeys(WRONG_FILES) | {no_tombstones: "no entry for this key"}
CHOICES = dict.fromkeys(WRONG_CHOICES) | {
    forgets_tombstones: "tombstone that is still needed was counted as garbage",
    takes_the_file_that_is_written: "file that is being written was taken",
}
test_right, test_wrong = judge(LESSON, {1: (solved(LESSON, 1), FILES), 2: (solved(LESSON, 2), CHOICES)})


@pytest.mark.parametrize(("exercise", "answer"), [(1, recover), (2, compact)])
def test_what_wrong_answers_alter_is_right(exercise, answer):
    check.run(LESSON, exercise, answer)


def in_floats(segments, limit):
    """More than the limit by `garbage / records > limit`, where `compact` has `1 - copies / records > limit`."""
    found, total, live = None, sum(map(len, segments)), len(checks.rows(segments))
    for place, segment in enumerate(segments[:-1]):
        copies = checks.kept(segments, place)
        share = (len(segment) - len(copies)) / len(segment)
        if total - live > limit * total and share > (found[0] if found else limit):
            found = share, place, copies
    return found and found[1:]


THIRDS = [[(1, 5, b"a"), (2, 6, b"b"), (3, 7, b"c")], [(4, 5, b"d"), (5, 8, None), (6, 9, None)]]


def test_an_array_among_the_learners_names_is_no_obstacle():
    """The lesson's own notebook holds one when the check runs."""
    names = {"recover": recover, "zlib": zlib, "random_keys": np.arange(3)}
    exec("def answer(data, row_bytes):\n    return recover(data, row_bytes)", names)
    check.run(LESSON, 1, names["answer"])
    exec("from zlib import crc32\ndef twice(data, row_bytes):\n    crc32(data)\n    return recover(data, row_bytes)", names)
    with pytest.raises(check.CheckFailed, match="Budget"):
        check.run(LESSON, 1, names["twice"])


@pytest.mark.long
def test_at_exactly_a_third_both_are_right():
    assert in_floats(THIRDS, 1 / 3) is None and compact(THIRDS, 1 / 3) is not None
    for seed in range(20):
        check.run(LESSON, 2, in_floats, seed)
        check.run(LESSON, 2, an_iterator, seed)
        check.run(LESSON, 2, compact, seed)


@pytest.mark.parametrize("seed", range(3))
def test_the_definition_passes(seed):
    check.run(LESSON, 1, checks.recover, seed)
