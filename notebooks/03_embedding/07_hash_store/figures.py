"""A log-structured store: an index in memory, records in segment files, and what happens to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ctrlab.lessons.figures.animation import Animation
from ctrlab.lessons.figures.kit import BLUE, GREEN, GREY, ORANGE, PAD, RED, Figure

RECORD, CAPACITY, CELL = 32, 5, (44, 34)
LIVE, GARBAGE, TOMBSTONE, TORN = GREEN, GREY, ORANGE, RED
MEANING = {LIVE: "live row", GARBAGE: "garbage", TOMBSTONE: "tombstone (✕)", TORN: "torn record"}
INDEX_Y, FILES_Y = 52, 168

Records = Sequence[tuple[str, str]]  # "7 v1" and its colour


def structure() -> Figure:
    """Where an index entry points, and where the next record goes."""
    full = [("7 v1", GARBAGE), ("9 v1", GARBAGE), ("4 v1", GARBAGE), ("7 v2", LIVE), ("9 ✕", TOMBSTONE)]
    second = [("4 v2", GARBAGE), ("5 v1", LIVE), ("2 v1", GARBAGE), ("8 v1", LIVE), ("2 v2", LIVE)]
    index = {7: (1, 96), 5: (2, 32), 8: (2, 96), 2: (2, 128), 4: (3, 0)}
    files = {1: full, 2: second, 3: [("4 v3", LIVE)]}
    figure = _drawn("An index in memory points to the newest record of each key in three files", index, files)
    figure.text(30 + 2 * 235 + 44 + 22, FILES_Y - 22, "the next put", size=12)
    figure.arrow((30 + 2 * 235 + 66, FILES_Y - 14), (30 + 2 * 235 + 66, FILES_Y - 1), colour=BLUE)
    return figure


def life() -> Animation:
    """Puts, an overwrite, a delete, compaction, a crash with a torn record, and recovery."""
    title = "Puts, an overwrite, a delete, compaction, a crash with a torn record, and recovery"
    puts = [("7 v1", LIVE), ("9 v1", LIVE), ("4 v1", LIVE)]
    erased = [("7 v1", GARBAGE), ("9 v1", GARBAGE), ("4 v1", LIVE), ("7 v2", LIVE), ("9 ✕", TOMBSTONE)]
    dead = [*erased[:2], ("4 v1", GARBAGE), *erased[3:]]
    copied = [*dead[:3], ("7 v2", GARBAGE), ("9 ✕", GARBAGE)]
    second, third = [("4 v2", LIVE)], [("7 v2", LIVE)]
    moved = {7: (3, 0), 4: (2, 0)}
    frames = (
        ("put(7) appends a record at byte 0. The index remembers: key 7, file 1, byte 0.", {7: (1, 0)}, {1: puts[:1]}),
        (
            "put(9) and put(4) append at bytes 32 and 64. Nothing is ever overwritten.",
            {7: (1, 0), 9: (1, 32), 4: (1, 64)},
            {1: puts},
        ),
        (
            "put(7) again: the new record goes to byte 96, and the index moves there. The record at byte 0 is garbage now.",
            {7: (1, 96), 9: (1, 32), 4: (1, 64)},
            {1: [("7 v1", GARBAGE), *puts[1:], ("7 v2", LIVE)]},
        ),
        (
            "delete(9) appends a tombstone at byte 128. Key 9 leaves the index, and its record at byte 32 is garbage.",
            {7: (1, 96), 4: (1, 64)},
            {1: erased},
        ),
        (
            "File 1 is full, so put(4) opens file 2. Four of the six records are garbage now, the tombstone among them: "
            "no other file holds a record of key 9.",
            {7: (1, 96), 4: (2, 0)},
            {1: dead, 2: second},
        ),
        (
            "Compaction of file 1 copies what must survive to file 3: one live record. The tombstone may go, because no other "
            "file holds a record of key 9. An fsync forces the copy to the disk.",
            moved,
            {1: copied, 2: second, 3: third},
        ),
        (
            "Only now file 1 is deleted. One record was copied, and the four others are gone.",
            moved,
            {1: None, 2: second, 3: third},
        ),
        (
            "put(2) is being written: 20 of its 32 bytes are in file 2. Then the process is killed. The index was in memory, so "
            "it is lost.",
            None,
            {1: None, 2: [*second, ("2 v1", TORN)], 3: third},
        ),
        (
            "Recovery reads each file from the front and computes each record's checksum. At byte 32 of file 2 it does not fit: "
            "a torn write, which is cut off. The whole records give the index back.",
            moved,
            {1: None, 2: second, 3: third},
        ),
    )
    return Animation([_drawn(title, index, files) for _, index, files in frames], [caption for caption, _, _ in frames], 4.0)


def _drawn(title: str, index: Mapping[int, tuple[int, int]] | None, files: Mapping[int, Records | None]) -> Figure:
    figure = Figure(740, 296, title)
    figure.text(30, 14, "memory: the index", anchor="start", bold=True)
    figure.text(
        30, FILES_Y + CELL[1] + 42, "disk: segment files, with the byte where each record begins", anchor="start", bold=True
    )
    grids = {}
    for number, records in files.items():
        x = 30 + (number - 1) * 235
        shown = [*records, *[("", "")] * (CAPACITY - len(records))] if records is not None else [(PAD, "")] * CAPACITY
        marked = {(0, place): colour for place, (_, colour) in enumerate(shown) if colour}
        grids[number] = figure.table(x, FILES_Y, [[text for text, _ in shown]], cell=CELL, marked=marked)
        for place in range(CAPACITY):
            figure.text(x + place * CELL[0] + 3, FILES_Y + CELL[1] + 10, place * RECORD, anchor="start", size=12, faint=True)
        figure.text(x, FILES_Y + CELL[1] + 27, _name(number, records), anchor="start", size=12, bold=True)
    if index is None:
        figure.box(30, INDEX_Y - 20, 200, 48, "lost", colour=TORN, dashed=True)
    else:
        entries = figure.table(
            30,
            INDEX_Y,
            [[f"{file}, {byte}" for file, byte in index.values()]],
            header=[f"key {key}" for key in index],
            cell=(100, 28),
            marked={0: BLUE},
        )
        figure.text(46 + 100 * len(index), INDEX_Y + 14, "file, byte", anchor="start", size=12, faint=True)
        for column, (file, byte) in enumerate(index.values()):
            figure.arrow(entries.cell(0, column).bottom, grids[file].cell(0, byte // RECORD).top, colour=BLUE)
    for place, (colour, meaning) in enumerate(MEANING.items()):
        figure.box(30 + place * 150, 272, 16, 14, colour=colour)
        figure.text(52 + place * 150, 279, meaning, anchor="start", size=12)
    return figure


def _name(number: int, records: Records | None) -> str:
    if records is None:
        return f"file {number}: deleted"
    return f"file {number}: full" if len(records) == CAPACITY else f"file {number}"
