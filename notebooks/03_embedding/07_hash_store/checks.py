"""Checks of 03_embedding/07_hash_store: (1) the content of a file of records after a crash, (2) the choice and the compaction of
a segment.

A record is 24 bytes and a row: u32 CRC-32 of all that follows it, u32 kind (0 row, 1 tombstone), u64 sequence number, i64 key,
the row; a tombstone carries a row of zeros.
"""

from __future__ import annotations

import binascii
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from unittest import mock

import numpy as np

from ctrlab.lessons.check import CheckFailed, call, counted
from ctrlab.lessons.limits import stated

HEAD = struct.Struct("<IIQq")
EXTREMES = (-(2**63), -1, 0, 2**63 - 1)

Record = tuple[int, int, bytes | None]  # sequence number, key, row or None for a tombstone
Segments = list[list[Record]]


def packed(sequence: int, key: int, row: bytes | None, row_bytes: int) -> bytes:
    """The bytes of a record in the file."""
    rest = HEAD.pack(0, int(row is None), sequence, key)[4:] + (row or bytes(row_bytes))
    return struct.pack("<I", zlib.crc32(rest)) + rest


def recover(data: bytes, row_bytes: int) -> tuple[dict[int, int], int]:
    """The definition: the offset of each key's row, and the number of bytes of complete records; ValueError for damage."""
    size, latest, end = HEAD.size + row_bytes, {}, 0
    offsets = range(0, len(data) - size + 1, size)
    whole = [zlib.crc32(data[o + 4 : o + size]) == HEAD.unpack_from(data, o)[0] for o in offsets]
    for offset, good in zip(offsets, whole):
        if not good:
            if any(whole[offset // size :]):
                raise ValueError(f"the record at byte {offset} is damaged")
            break
        _, kind, sequence, key = HEAD.unpack_from(data, offset)
        latest[key] = max(latest.get(key, (-1, 0, 0)), (sequence, kind, offset))
        end = offset + size
    return {key: offset for key, (_, kind, offset) in latest.items() if kind == 0}, end


def _file(rng: np.random.Generator, count: int, row_bytes: int, keys: int) -> list[Record]:
    """Random records; compaction has moved some old ones to the end."""
    pool = [*EXTREMES, *range(1, keys)]
    first = int(rng.integers(1, 2**64 - 1 - count, dtype=np.uint64))  # eight bytes, without a sign
    records = [
        (first + number, pool[rng.integers(len(pool))], None if rng.random() < 0.25 else rng.bytes(row_bytes))
        for number in range(count)
    ]
    return [*records[count // 3 :], *records[: count // 3]] if rng.random() < 0.7 else records


def files(rng: np.random.Generator) -> Iterator[tuple[str, bytes, int]]:
    """The cases: (description, the file's bytes, row bytes)."""
    for case in (
        "rows, tombstones, and old records behind new ones",
        "a torn tail",
        "a tail of zeros",
        "a last record that is damaged",
    ):
        for _ in range(3):
            row_bytes = int(rng.integers(1, 40))
            size = HEAD.size + row_bytes
            data = b"".join(packed(*record, row_bytes) for record in _file(rng, int(rng.integers(3, 60)), row_bytes, 12))
            if case == "a torn tail":
                data = data[: -int(rng.integers(1, size))]
            elif case == "a tail of zeros":
                data += bytes(int(rng.integers(1, 3 * size)))
            elif case == "a last record that is damaged":
                data = data[:-1] + bytes([data[-1] ^ 1 << int(rng.integers(8))])
            yield case, data, row_bytes
    yield "an empty file", b"", 8
    yield "less than a record", b"\1\2\3", 8
    yield "one key, overwritten", b"".join(packed(n, -1, bytes([n]) * 4, 4) for n in range(1, 9)), 4
    yield "one key, erased and put again", b"".join(packed(n, 7, None if n == 2 else bytes([n]) * 4, 4) for n in (1, 2, 3)), 4


def _require_one_look(answer: Callable, rng: np.random.Generator) -> None:
    """The budget: zlib.crc32 gets the bytes of each record exactly once."""
    row_bytes, checked, own = int(rng.integers(1, 40)), [0], zlib.crc32

    def counted(data, *start):
        checked[0] += len(memoryview(data).cast("B"))
        return own(data, *start)

    data = b"".join(packed(*record, row_bytes) for record in _file(rng, 50, row_bytes, 12))
    # However the learner has imported it. (`is`: a learner's arrays stand among the values, and have no one truth.)
    values = getattr(answer, "__globals__", {})
    mine = {n: counted for n, value in values.items() if value is own or value is binascii.crc32}
    with (
        mock.patch.object(zlib, "crc32", counted),
        mock.patch.object(binascii, "crc32", counted),
        mock.patch.dict(values, mine),
    ):
        call(answer, data, row_bytes, case="fifty whole records")
    if checked[0] > len(data):
        raise CheckFailed(
            "Budget: each byte is checked once.",
            expected=f"at most {len(data)} bytes given to zlib.crc32",
            received=f"{checked[0]}",
            next_step="keep what you found about a record while you go on to the next",
        )


@stated("no more bytes given to `zlib.crc32` than the file has. The error's text has the byte, and at most five other numbers")
def check_recover(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `recover(data, row_bytes)` -> ({key: offset of its row's record}, bytes of whole records)."""
    for case, data, row_bytes in files(rng):
        received, expected = call(answer, data, row_bytes, case=case), recover(data, row_bytes)
        if not (isinstance(received, tuple | list) and len(received) == 2 and isinstance(received[0], dict)):
            raise CheckFailed(
                "It returns a dict and a number.",
                expected="({key: offset}, bytes)",
                received=type(received).__name__,
                next_step="return index, end",
            )
        index, end = received
        for name, places in (("an offset", index.values()), ("the second number", [end])):
            odd = next((place for place in places if not isinstance(place, int | np.integer)), 0)
            if not isinstance(odd, int | np.integer):
                rule, step = f"A place in a file is a whole number; here {case}.", "count in int: // and not /"
                raise CheckFailed(rule, expected=f"{name} as an int", received=repr(odd), next_step=step)
        wrong = sorted(key for key in index.keys() | expected[0].keys() if index.get(key, -1) != expected[0].get(key, -1))
        if wrong:
            entries = [
                f"offset {each[wrong[0]]}" if wrong[0] in each else "no entry for this key" for each in (expected[0], index)
            ]
            raise CheckFailed(
                f"The record with the highest sequence number counts, wherever it lies, and a tombstone is no row; here {case}.",
                expected=entries[0],
                received=entries[1],
                index=f"key {wrong[0]}",
                next_step="which record of a key counts? And what if an older row of it comes behind its tombstone?",
            )
        if end != expected[1]:
            raise CheckFailed(
                f"The second number is the end of the last whole record; here {case}.",
                expected=f"an end at byte {expected[1]}",
                received=f"an end at byte {end}",
                next_step="what follows the last whole record is dropped: a cut, zeros, or half a write",
            )
    for broken, in_a_row in ((0, 1), (-2, 1), (0, 2), (-4, 3), (None, 1), (None, 1), (None, 1), (None, 2)):
        _require_damage_found(answer, rng, broken, in_a_row)
    _require_damage_found(answer, rng, 2, 1, again=True)
    _require_one_look(answer, rng)


def _require_damage_found(
    answer: Callable, rng: np.random.Generator, broken: int | None, in_a_row: int, again: bool = False
) -> None:
    """Requires that damage is found. `broken` is the first of several damaged records; a whole one follows, and with `again`
    another damaged one.
    """
    row_bytes, count = int(rng.integers(1, 30)), int(rng.integers(8, 40))
    size = HEAD.size + row_bytes
    data = bytearray(b"".join(packed(*record, row_bytes) for record in _file(rng, count, row_bytes, 9)))
    broken = int(rng.integers(count - in_a_row)) if broken is None else broken % count
    for record in [*range(broken, broken + in_a_row), *([broken + in_a_row + 1] if again else [])]:
        data[record * size + int(rng.integers(size))] ^= 1 << int(rng.integers(8))
    rule = "A broken record with a whole one behind it is no torn tail: it is damage, and an error that names its byte."
    if in_a_row > 1 or again:
        rule += " Of several it names the first."
    try:
        received = answer(bytes(data), row_bytes)
    except ValueError as error:
        named = [
            int(n.replace(",", "").replace("_", ""), 0) for n in re.findall(r"0x[0-9a-f]{1,9}|[1-9][\d,_]{0,11}\d|\d", str(error))
        ]
        if broken * size in named and len(named) <= 6:
            return
        received = f"ValueError: {error}"
    except NotImplementedError:
        raise
    except Exception as error:
        received = f"{type(error).__name__}: {error}"
    raise CheckFailed(
        rule,
        expected=f"ValueError with {broken * size} in its text, and at most five other numbers",
        received=str(received)[:120],
        index=f"record {broken}" + (f" and the {in_a_row - 1} behind it" if in_a_row > 1 else ""),
        next_step="raise ValueError with the offset, once a whole record comes after a broken one",
    )


def latest(segments: Segments) -> dict[int, Record]:
    """The newest record of each key, including tombstones."""
    newest: dict[int, Record] = {}
    for segment in segments:
        for record in segment:
            if record[1] not in newest or newest[record[1]][0] < record[0]:
                newest[record[1]] = record
    return newest


def rows(segments: Segments) -> dict[int, bytes]:
    """The rows of a store with these segments, by key."""
    return {key: row for key, (_, _, row) in latest(segments).items() if row is not None}


def kept(segments: Segments, victim: int) -> list[Record]:
    """The records of segment `victim` that must be copied: live rows, and tombstones whose key has a record elsewhere."""
    newest = latest(segments)
    older = {key for place, segment in enumerate(segments) if place != victim for _, key, _ in segment}
    return [r for r in segments[victim] if newest[r[1]] is r and (r[2] is not None or r[1] in older)]


def _wrongly_due(segments: Segments, received: object, case: str) -> str:
    """What made a compaction seem due: the file that is written, or a tombstone that is left behind; empty if unknown."""
    try:
        victim, copies = received[0], {tuple(record) for record in received[1]}
        needed = {record for record in kept(segments, victim) if record[2] is None}
    except (TypeError, ValueError, IndexError):
        return ""
    if victim == len(segments) - 1:
        return f"The file that is being written was taken; here {case}."
    return f"A tombstone that is still needed was counted as garbage; here {case}." if needed - copies else ""


TIE = 1e-9
"""A share closer than this to the limit counts as equal to it, and both answers are right: floats round, so `1 - 2/3 > 1/3`."""


def choice(segments: Segments, limit: float) -> tuple[Fraction | None, bool]:
    """The largest share of garbage in a segment that is no longer written, or None if nothing must be done; and whether None is
    right, too.

    Args:
        limit: the allowed share of garbage, in all segments together and in the compacted one.
    """
    total, live = sum(map(len, segments)), len(rows(segments))
    largest = max((garbage(segments, place) for place in range(len(segments) - 1)), default=Fraction(0))
    above = min(largest, Fraction(total - live, max(total, 1))) - limit
    return (None if above < -TIE else largest), above <= TIE


def garbage(segments: Segments, place: int) -> Fraction:
    """The share of a segment's records that would not be copied."""
    return Fraction(len(segments[place]) - len(kept(segments, place)), len(segments[place]))


def _with_garbage(count: int, dead: int) -> Segments:
    """A full segment with this number of dead records, and enough dead ones elsewhere that compaction is needed."""
    newer = [(100 + key, key, b"b") for key in range(dead)]
    return [[(key + 1, key, b"a") for key in range(count)], [*newer, *((200 + n, 0, b"c") for n in range(count))]]


@stated("at most 1 / `limit` - 1 copies for each record that was written")
def check_compact(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 2: `compact(segments, limit)` -> None, or (the segment to remove, its records to copy)."""
    third = 1 / 3
    for case, limit, segments in (
        ("one segment, still written", third, [[(1, 5, b"a"), (2, 5, b"b")]]),
        ("no garbage", third, [[(1, 5, b"a")], [(2, 6, b"b")]]),
        ("a third of garbage", third, [[(1, 5, b"a"), (2, 6, b"b"), (3, 7, b"c")], [(4, 5, b"d"), (5, 8, None), (6, 9, None)]]),
        ("5 of 14 are garbage", third, _with_garbage(14, 5)),
        ("5 of 16 are garbage", third, _with_garbage(16, 5)),
        ("5 of 16 are garbage", 0.25, _with_garbage(16, 5)),
        ("7 of 16 are garbage", 0.5, _with_garbage(16, 7)),
        (
            "a tombstone above a tombstone",
            third,
            [[(1, 7, None), (2, 8, b"a"), (3, 8, b"b"), (4, 8, b"c")], [(5, 8, b"d"), (6, 7, None)], [(9, 1, b"e")]],
        ),
        (
            "a tombstone above a row in the file that is being written",
            third,
            [[(1, 1, b"a"), (5, 2, None), (2, 3, b"x"), (3, 3, b"y")], [(4, 2, b"b"), (6, 4, b"c")]],
        ),
        ("more than a third", third, [[(1, 5, b"a"), (2, 6, b"b"), (3, 7, b"c")], [(4, 5, b"d"), (5, 6, b"e")]]),
    ):
        _require_choice(segments, limit, call(answer, segments, limit, case=case), f"{case}, the limit is {limit:.3g}")
    lives = (40, 0.0, third), (40, 0.3, third), (150, 0.1, third), (3, 0.5, third), (60, 0.1, 0.15), (60, 0.1, 0.6)
    for keys, erased, limit in lives:
        _live_through(answer, rng, keys, erased, limit)


def _live_through(answer: Callable, rng: np.random.Generator, keys: int, erased: float, limit: float, capacity: int = 16) -> None:
    """A store's life: segments fill up, the answer compacts them, and a crash at the worst moment changes nothing."""
    case = f"{keys} keys of which {erased:.0%} of the writes erase, the limit is {limit:.3g}"
    segments: Segments = [[]]
    copied = 0
    for sequence in range(1, 400):
        # 80 % of the writes go to a fifth of the keys.
        key = int(rng.integers(max(1, keys // 5)) if rng.random() < 0.8 else rng.integers(keys))
        if len(segments[-1]) == capacity:
            segments.append([])
        segments[-1].append((sequence, key, None if rng.random() < erased else rng.bytes(4)))
        while len(segments[-1]) == capacity or sequence % 5 == 0:
            given = [list(segment) for segment in segments]
            received = call(answer, given, limit, case=case)
            _require_choice(segments, limit, received, case)
            if received is None:
                break
            victim, copies = received
            copies = [tuple(record) for record in copies]
            copied += len(copies)
            segments = [[], *segments] if not copies else [list(copies), *segments]
            del segments[victim + 1]
            segments = [segment for segment in segments[:-1] if segment] + segments[-1:]
    most = (1 / limit - 1) * sequence
    if copied > most + TIE:
        raise CheckFailed(
            f"Compaction at {limit:.3g} copies at most {1 / limit - 1:.3g} records for each that was written.",
            expected=f"at most {most:.0f}",
            received=copied,
            next_step="take no segment whose share of garbage is at the limit or below",
        )


def _require_choice(segments: Segments, limit: float, received: object, case: str) -> None:
    best, may_wait = choice(segments, limit)
    if best is None or received is None:
        if received is None and may_wait:
            return
        total, live = sum(map(len, segments)), len(rows(segments))
        raise CheckFailed(
            "Compact while more than `limit` of all records, and more than `limit` of a full segment, are garbage.",
            wrong=_wrongly_due(segments, received, case),
            expected="None" if best is None else f"a segment with {float(best):.0%} of garbage",
            received="None" if received is None else f"a compaction, {str(received)[:60]}",
            index=f"{case}: {total} records, {live} live rows, {len(segments)} segments",
            next_step="compare shares of garbage with `limit`; the last segment is being written and never goes",
        )
    try:
        victim, copies = received
        known = range(len(segments) - 1)[victim] if victim >= 0 else None
        copies = list(copies)
        records = [tuple(record) for record in copies if len(record) == 3]
    except (TypeError, ValueError, IndexError):
        known = None
    if known is None or len(records) != len(copies):
        raise CheckFailed(
            "It returns the place of a full segment and the records to copy.",
            expected=f"a pair: a place in [0, {len(segments) - 1}), and records",
            received=str(received)[:80],
            next_step="return victim, records; the last segment is being written and never goes",
        )
    expected = kept(segments, known)
    share = garbage(segments, known)
    if sorted(records, key=lambda r: r[0]) != sorted(expected, key=lambda r: r[0]):
        lost = rows(segments) != rows([records, *(s for place, s in enumerate(segments) if place != known)])
        raise CheckFailed(
            "Copied are the rows that count, as they are, and each tombstone whose key has a record elsewhere; nothing else.",
            expected=counted(len(expected), "record"),
            received=counted(len(copies), "record") + (": rows change when the segment goes" if lost else ""),
            index=f"segment {known} of {case}",
            next_step="a tombstone may go when no other segment holds a record of its key; else an old row comes back",
        )
    if share < best:
        raise CheckFailed(
            "The segment with the largest share of garbage goes first.",
            expected=f"a segment with {float(best):.0%} of garbage",
            received=f"one with {float(share):.0%}",
            index=f"segment {known}",
            next_step="garbage is what would not be copied",
        )


CHECKS = {1: check_recover, 2: check_compact}
