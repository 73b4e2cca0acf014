"""Checks of 04_serving/02_requests: (1) the client's binary request, (2) the parser of texts in C++."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from ctrlab import compiling
from ctrlab.lessons import cpp_cell
from ctrlab.lessons.check import CheckFailed, counted
from ctrlab.lessons.exercise import Exercise
from ctrlab.ops.kernel_swap import CHECK_MEGABYTES, CHECK_SECONDS, verdict
from ctrlab.paths import native

DATATYPES = {"int64": "INT64", "float32": "FP32"}
Columns = dict[str, "np.ndarray | list[bytes]"]


class _WholeArray(np.ndarray):
    """An array whose numbers can't be read one by one. Reading a single one, for its type say, does not count as a loop."""

    looks = 0

    def _refused(self, *_, **__):
        raise CheckFailed(
            "The bytes of an array go as a whole.",
            expected="array.tobytes()",
            received="its numbers, one by one",
            next_step="an array's bytes in memory are what the protocol sends",
        )

    __iter__ = tolist = item = _refused

    def __getitem__(self, at):
        self.looks += not isinstance(at, slice)
        return super().__getitem__(at) if self.looks < 2 else self._refused()


def pack(columns: Columns) -> tuple[bytes, bytes]:
    """The definition: a header that describes the tensors, and their bytes one after the other."""
    described, tail = [], []
    for name, values in columns.items():
        if isinstance(values, np.ndarray):
            kind, data = DATATYPES[values.dtype.name], values.tobytes()
        else:
            kind, data = "BYTES", b"".join(len(text).to_bytes(4, "little") + text for text in values)
        size = {"binary_data_size": len(data)}
        described.append({"name": name, "shape": [len(values)], "datatype": kind, "parameters": size})
        tail.append(data)
    return json.dumps({"inputs": described}).encode(), b"".join(tail)


def _columns(rng: np.random.Generator) -> Iterator[tuple[str, Columns]]:
    """The cases: (description, columns)."""

    def words(*lengths: int) -> list[bytes]:
        return [bytes(rng.integers(0, 256, length, dtype=np.uint8)) for length in lengths]

    def numbers(count: int) -> np.ndarray:
        return rng.integers(-(1 << 62), 1 << 62, count)

    def prices(count: int) -> np.ndarray:
        return rng.standard_normal(count).astype(np.float32)

    yield "a column of whole numbers", {"hour": numbers(3)}
    yield "a column of float32", {"price": prices(4)}
    yield "a column of texts", {"item": words(1, 5, 2)}
    yield "texts that are not ASCII", {"item": ["Größe".encode(), "寿司".encode(), b"\xff\x00"]}
    yield "empty texts", {"item": words(0, 3, 0)}
    yield "texts with spaces around", {"item": [b" a ", b"\tb\n", b" "]}
    yield "a long text", {"item": words(70_000, 300)}
    yield "columns of no rows", {"item": [], "price": prices(0), "hour": numbers(0)}
    yield "every second number of an array", {"hour": numbers(8)[::2], "price": prices(9)[::3]}
    yield "a list in each row", {"history/values": words(2, 2, 9), "history/row_splits": np.array([0, 0, 2, 3])}
    yield "names that JSON must escape", {'the "best"': numbers(1), "preis\n": prices(1)}
    kinds = [lambda n: words(*rng.integers(0, 9, n)), numbers, prices]
    names = rng.permutation([f"column {n}" for n in range(8)]).tolist()
    yield "eight columns by chance", {name: kinds[int(rng.integers(3))](int(rng.integers(0, 9))) for name in names}


def guarded(columns: Columns) -> tuple[Columns]:
    """The columns, with arrays that are not read number by number."""
    return ({name: v.view(_WholeArray) if isinstance(v, np.ndarray) else v for name, v in columns.items()},)


def same_header(received: object, expected: bytes, case: str, question: Sequence) -> None:
    _require_bytes(received, case)
    step, right = "write down the header of the worked example, and compare", json.loads(expected)["inputs"]
    try:
        found = json.loads(received)
    except ValueError as error:
        found, step = error, "json.dumps writes it"
    inputs = found.get("inputs") if isinstance(found, dict) else None
    if not isinstance(inputs, list) or len(inputs) != len(right):
        rule = f'The header is JSON and has "inputs", with an entry per column; here {case}.'
        raise CheckFailed(rule, expected=f"{len(right)} of them", received=str(found)[:200], next_step=step)
    order, wanted = ([entry.get("name") if isinstance(entry, dict) else entry for entry in e] for e in (inputs, right))
    if order != wanted and sorted(map(str, order)) == sorted(wanted):
        rule = f"The entries, and the bytes behind, stand in the order of `columns`; here {case}."
        raise CheckFailed(rule, expected=wanted, received=order, next_step="take the columns as `columns.items()` gives them")
    for n, (mine, entry) in enumerate(zip(inputs, right)):
        if mine != entry or type(mine["shape"][0]) is not int:
            rule = f"An entry of the header says name, shape, datatype and the bytes behind; here {case}."
            raise CheckFailed(rule, expected=entry, received=mine, index=f"entry {n}", next_step=step)


def same_tail(received: object, expected: bytes, case: str, question: Sequence) -> None:
    _require_bytes(received, case)
    if received != expected:
        at = next((n for n, (a, b) in enumerate(zip(received, expected)) if a != b), min(len(received), len(expected)))
        raise CheckFailed(
            f"The tensors stand behind the header, in its order, without a gap; here {case}.",
            expected=f"{len(expected)} bytes, here {expected[at : at + 8].hex(' ') or 'their end'}",
            received=f"{len(received)} bytes, here {received[at : at + 8].hex(' ') or 'their end'}",
            index=f"byte {at}",
            next_step=_look_at(*question, at, len(received) == len(expected)),
        )


def _require_bytes(received: object, case: str) -> None:
    if type(received) is not bytes:
        step = "what travels is bytes: a text has .encode(), and of a list no protocol knows"
        rule = f"Header and tail are bytes; here {case}."
        raise CheckFailed(rule, expected="bytes", received=type(received).__name__, next_step=step)


def _look_at(columns: Columns, byte: int, as_long: bool) -> str:
    """A hint on where to look if the tail differs at `byte`."""
    if not as_long:
        return "nothing is left out, nothing stands between, and a size in the header is that of the block"
    ends = np.cumsum([len(pack({name: values})[1]) for name, values in columns.items()])
    name, values = list(columns.items())[int(np.searchsorted(ends, byte, side="right"))]
    if isinstance(values, np.ndarray):
        return f"this is in the block of {name!r}: values.tobytes() as they are, at the place that the header gives to the column"
    return f"this is in the block of {name!r}: a text is its length in bytes as four bytes, the lowest first, and then itself"


@dataclass(frozen=True)
class Walk:
    """The content of a text tensor: (offset, length) of each text, and where to look if it is refused; "": it is valid."""

    texts: list[tuple[int, int]]
    refused: str = ""

    @property
    def answer(self) -> int:
        return -1 if self.refused else len(self.texts)


def walk(data: bytes, most: int) -> Walk:
    """The definition of `texts`."""
    at, found = 0, []
    while at < len(data):
        if len(found) == most:
            return Walk(found, "bytes are left and found is full: that is -1, before a length is read")
        if len(data) - at < 4:
            return Walk(found, "the bytes end inside a length: are four bytes left, before you read one?")
        length = int.from_bytes(data[at : at + 4], "little")
        if length > len(data) - at - 4:
            step = "the bytes end inside a text: compare its length with size - at; a sum, at + length, may wrap around"
            return Walk(found, step)
        found.append((at + 4, length))
        at += 4 + length
    return Walk(found)


UNREAD = "texts of which each byte that is read is noticed"


def _tensors(rng: np.random.Generator) -> Iterator[tuple[str, bytes, int]]:
    """The cases: (description, the bytes, room for how many texts)."""

    def tensor(*lengths: int) -> bytes:
        return b"".join(n.to_bytes(4, "little") + bytes(rng.integers(0, 256, n, dtype=np.uint8)) for n in lengths)

    def prefix(length: int) -> bytes:
        return length.to_bytes(4, "little")

    three = tensor(3, 1, 8)
    yield "three texts", three, 3
    yield "room for more", three, 9
    yield "no texts", b"", 4
    yield "no texts, and no room", b"", 0
    yield "empty texts", tensor(0, 0, 5, 0), 4
    yield "a text as long as 300 bytes", tensor(300, 2), 2
    yield "a text as long as 70,000 bytes", tensor(70_000), 1
    yield "a text whose length needs all four bytes", prefix(0x01000002) + bytes(0x01000002), 1
    yield "a length that needs all four bytes, and no such text", prefix(0x01000002) + b"ab", 1
    yield "300,000 empty texts", bytes(4 * 300_000), 300_000
    yield "a text of 130 bytes, which is no negative number", tensor(130, 200), 2
    yield "one text too many", three, 2
    yield "one empty text too many", tensor(3, 0), 1
    yield "a text, and no room", tensor(1), 0
    for cut in range(1, 4):
        yield f"{counted(cut, 'byte')} of a length", tensor(2) + b"\1\0\0"[:cut], 4
    yield "a length and no text", prefix(5), 2
    yield "a text that lacks a byte", tensor(4, 6)[:-1], 2
    yield "a length that is one too large", tensor(2) + prefix(3) + b"ab", 2
    for length in (0xFFFFFFFF, 0xFFFFFFFC, 0xFFFFFFFB, 0x80000000, 0x7FFFFFFF):
        yield f"a length of {length:#x}", tensor(2) + prefix(length) + b"abcd", 5
    yield "a length that leads back to the second text, in 32 bits", prefix(4) + prefix(4) + prefix((1 << 32) - 8), 5
    for _ in range(30):
        lengths = rng.choice([0, 1, 2, 7, 40], int(rng.integers(0, 9))).tolist()
        whole = tensor(*lengths)
        yield "a tensor by chance", whole, len(lengths) + int(rng.integers(0, 2))
        yield "a tensor by chance, cut off", whole[: int(rng.integers(0, len(whole) + 1))], len(lengths)
    yield UNREAD, tensor(300, 0, 9, 70_000, 24), 5  # the last, so that a wrong length, read inside a text, is called that


ENDS = {
    "use-after-poison|unknown-crash": "a Text needs an address and a size; nothing has to read the text itself",
    "misaligned": "std::memcpy(&length, data + at, 4) reads at any address; a cast to uint32_t* does not",
    "without returning a value": "behind the loop, return how many texts there are",
    "stack-overflow": "a copy, or a call per text, fills the stack; a loop needs none of it",
    "left shift|cannot be represented": "a char may be negative: read the four bytes with std::memcpy into a uint32_t",
    "^WRITE of size": "found has room for `most` texts: is count == most asked before found[count] is written?",
    "": "before you read n bytes, compare n with size - at, what is left: this can't overflow",
}
"""{message of the sanitizer: where to look}."""


def check_texts(answer: object, rng: np.random.Generator) -> None:
    """Exercise 2: `texts`, a cell that defines the function of native/lessons/texts.h."""
    cases = [(case, data, most, walk(data, most)) for case, data, most in _tensors(rng)]
    with cpp_cell.checked(answer, [native() / "lessons/strict_texts.cc"]) as program, tempfile.TemporaryDirectory() as folder:
        file, result = Path(folder, "cases"), Path(folder, "result")
        with file.open("wb") as out:
            for case, data, most, expected in cases:
                unread = expected.texts if case == UNREAD else []
                out.write(f"{len(data)} {most} {len(unread)}\n".encode())
                out.writelines(b"%d %d\n" % place for place in unread)
                out.write(data)
        result.write_text("")
        limits = {"ASAN_OPTIONS": f"detect_leaks=0:color=never:hard_rss_limit_mb={CHECK_MEGABYTES}"}
        code, _, err = compiling.run([program, file, result], CHECK_SECONDS, environment=limits)
        lines = iter(result.read_text().splitlines())
    for case, _, _, expected in cases:
        for turn, line in enumerate(itertools.islice(itertools.chain(lines, itertools.repeat("")), 2)):
            if not line:
                _refuse_end(code, err, case)
            _require_found([*map(int, line.split())], expected, case, again=turn > 0)


def _refuse_end(code: int | None, err: str, case: str) -> NoReturn:
    if code is None:
        step = "does `at` move on behind each text, also behind an empty one?"
        raise CheckFailed(f"The parser ends; here {case}.", expected="an end", received="no end", next_step=step)
    copied, line = case == UNREAD, re.search(rf"{cpp_cell.CELL}:(\d+)", err)
    raise CheckFailed(
        f"Nothing is copied: a text's bytes are not read; here {case}."
        if copied
        else f"The parser reads and writes only what it was given, and returns; here {case}.",
        expected="an address and a size per text" if copied else "a number, returned",
        received=verdict(code, err) or f"an end of the program with {code}",
        index=f"line {line[1]} of the cell" if line else None,
        next_step=next(step for word, step in ENDS.items() if re.search(word, err, re.MULTILINE)),
    )


def _require_found(numbers: list[int], expected: Walk, case: str, *, again: bool) -> None:
    count, allocations, changed, *rest = numbers
    if allocations:
        raise CheckFailed(
            f"Nothing is copied: no memory is asked for; here {case}.",
            expected="no allocation",
            received=f"allocations: {allocations}",
            next_step="a Text is an address and a size, no more",
        )
    if changed >= 0:
        raise CheckFailed(
            f"The request stays as it came; here {case}.",
            expected="the same bytes",
            received="another byte",
            index=f"byte {changed}",
            next_step="a text ends by its size. A zero behind it would overwrite the next length",
        )
    received = list(zip(rest[::2], rest[1::2]))
    if count == expected.answer and (expected.refused or received == expected.texts):
        return
    step = expected.refused or "a text begins behind the four bytes of its length; the next length stands right behind the text"
    if count == -1:
        step = "these are valid texts: which test refuses an empty one, a long one, the last one, or room that is just enough?"
    raise CheckFailed(
        f"A parser keeps nothing from one call to the next; here {case}."
        if again
        else f"texts says where each text is, or -1 for bytes that are not valid texts; here {case}.",
        expected=-1 if expected.refused else f"{expected.answer}: (offset, length) {expected.texts[:4]}",
        received=f"{count}: {received[:4]}" if count >= 0 else count,
        index="the second call, with the same bytes" if again else None,
        next_step="is a variable static, or outside the function? Each call begins at byte 0" if again else step,
    )


CHECKS = {
    1: Exercise(
        asks="pack(columns): {name: int64 or float32 array [B], or list of B bytes} -> header, tail, both bytes",
        cases=_columns,
        reference=pack,
        given=guarded,
        compare={"header": same_header, "tail": same_tail},
    ),
    2: check_texts,
}
