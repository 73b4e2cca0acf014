"""Checks of 04_serving/02_requests: (1) the client's binary request, (2) the parser of texts in C++."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from ctrlab import compiling
from ctrlab.lessons import cpp_cell
from ctrlab.lessons.check import CheckFailed, call, parts
from ctrlab.ops.kernel_swap import CHECK_MEGABYTES, CHECK_SECONDS, verdict
from ctrlab.paths import native

DATATYPES = {"int64": "INT64", "float32": "FP32"}
Columns = dict[str, "np.ndarray | list[bytes]"]


class _WholeArray(np.ndarray):
    """An array whose numbers can't be read one by one."""

    def _refused(self, *_, **__):
        raise CheckFailed(
            "The bytes of an array go as a whole.",
            expected="array.tobytes()",
            received="a number by itself",
            next_step="an array's bytes in memory are what the protocol sends",
        )

    __iter__ = tolist = item = _refused

    def __getitem__(self, at):
        return super().__getitem__(at) if isinstance(at, slice) else self._refused()


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
    """(what they are, columns)."""

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
    yield "a long text", {"item": words(70_000, 300)}
    yield "columns of no rows", {"item": [], "price": prices(0), "hour": numbers(0)}
    yield "every second number of an array", {"hour": numbers(8)[::2], "price": prices(9)[::3]}
    yield "a list in each row", {"history/values": words(2, 2, 9), "history/row_splits": np.array([0, 0, 2, 3])}
    yield "names that JSON must escape", {'the "best"': numbers(1), "preis\n": prices(1)}
    kinds = [lambda n: words(*rng.integers(0, 9, n)), numbers, prices]
    names = rng.permutation([f"column {n}" for n in range(8)]).tolist()
    yield "eight columns by chance", {name: kinds[int(rng.integers(3))](int(rng.integers(0, 9))) for name in names}


def check_pack(answer: Callable, rng: np.random.Generator) -> None:
    """Exercise 1: `pack(columns)` -> (header, tail)."""
    for case, columns in _columns(rng):
        guarded = {name: v.view(_WholeArray) if isinstance(v, np.ndarray) else v for name, v in columns.items()}
        header, tail = parts(call(answer, guarded, case=case), "header, tail", case=case)
        expected, bytes_behind = pack(columns)
        for name, mine in (("header", header), ("tail", tail)):
            if type(mine) is not bytes:
                step = "json.dumps(...).encode() makes bytes of the header; b''.join joins the tensors"
                rule = f"Header and tail are bytes; here {case}."
                raise CheckFailed(rule, expected="bytes", received=f"{name}: {type(mine).__name__}", next_step=step)
        _require_header(header, json.loads(expected), case)
        if tail != bytes_behind:
            at = next((n for n, (a, b) in enumerate(zip(tail, bytes_behind)) if a != b), min(len(tail), len(bytes_behind)))
            raise CheckFailed(
                f"The tensors stand behind the header, in its order, without a gap; here {case}.",
                expected=f"{len(bytes_behind)} bytes, here {bytes_behind[at : at + 8].hex(' ') or 'their end'}",
                received=f"{len(tail)} bytes, here {tail[at : at + 8].hex(' ') or 'their end'}",
                index=f"byte {at}",
                next_step="a text is its length in bytes as four bytes, the lowest first, and then itself",
            )


def _require_header(received: bytes, expected: dict, case: str) -> None:
    step = "write down the header of the worked example, and compare"
    try:
        found = json.loads(received)
    except ValueError as error:
        rule = f"The header is JSON; here {case}."
        raise CheckFailed(rule, expected="JSON", received=str(error), next_step="json.dumps writes it") from error
    inputs = found.get("inputs") if isinstance(found, dict) else None
    if not isinstance(inputs, list) or len(inputs) != len(expected["inputs"]):
        rule = f'The header has "inputs", with an entry per column; here {case}.'
        raise CheckFailed(rule, expected=f"{len(expected['inputs'])} entries", received=str(found)[:200], next_step=step)
    for n, (mine, right) in enumerate(zip(inputs, expected["inputs"])):
        if mine != right or type(mine["shape"][0]) is not int:
            rule = f"An entry of the header says name, shape, datatype and the bytes behind; here {case}."
            raise CheckFailed(rule, expected=right, received=mine, index=f"entry {n}", next_step=step)


def find(data: bytes, most: int) -> list[tuple[int, int]] | None:
    """The definition of `texts`: (offset, length) of each; None: the bytes are none, or there are more than `most`."""
    at, found = 0, []
    while at < len(data):
        if len(found) == most or len(data) - at < 4:
            return None
        length = int.from_bytes(data[at : at + 4], "little")
        if length > len(data) - at - 4:
            return None
        found.append((at + 4, length))
        at += 4 + length
    return found


def _tensors(rng: np.random.Generator) -> Iterator[tuple[str, bytes, int]]:
    """(what they are, the bytes, room for how many texts)."""

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
    yield "a text of 130 bytes, which is no negative number", tensor(130, 200), 2
    yield "one text too many", three, 2
    yield "one empty text too many", tensor(3, 0), 1
    yield "a text, and no room", tensor(1), 0
    for cut in range(1, 4):
        yield f"{cut} bytes of a length", tensor(2) + b"\1\0\0"[:cut], 4
    yield "a length and no text", prefix(5), 2
    yield "a text that lacks a byte", tensor(4, 6)[:-1], 2
    yield "a length that is one too large", tensor(2) + prefix(3) + b"ab", 2
    for length in (0xFFFFFFFF, 0xFFFFFFFC, 0xFFFFFFFB, 0x80000000, 0x7FFFFFFF):
        yield f"a length of {length:#x}", tensor(2) + prefix(length) + b"abcd", 5
    for _ in range(30):
        lengths = rng.choice([0, 1, 2, 7, 40], int(rng.integers(0, 9))).tolist()
        whole = tensor(*lengths)
        yield "a tensor by chance", whole, len(lengths) + int(rng.integers(0, 2))
        yield "a tensor by chance, cut off", whole[: int(rng.integers(0, len(whole) + 1))], len(lengths)


def check_texts(answer: object, rng: np.random.Generator) -> None:
    """Exercise 2: `texts`, a cell that defines the function of native/lessons/texts.h."""
    cases = list(_tensors(rng))
    with cpp_cell.checked(answer, [native() / "lessons/strict_texts.cc"]) as program, tempfile.TemporaryDirectory() as folder:
        for case, data, most in cases:  # each in a process of its own, so that the first that fails is named
            file = Path(folder, "case")
            file.write_bytes(b"%d %d\n" % (len(data), most) + data)
            limits = {"ASAN_OPTIONS": f"detect_leaks=1:color=never:hard_rss_limit_mb={CHECK_MEGABYTES}"}
            code, out, err = compiling.run([program, file], CHECK_SECONDS, environment=limits)
            said = "no end" if code is None else verdict(code, err) or f"an end with {code}"
            if "leaked" in said:
                _refuse_copies(said, case)
            if code != 0:
                raise CheckFailed(
                    f"The parser reads only the request's bytes, and ends; here {case}.",
                    expected="an end with 0",
                    received=said,
                    next_step="before you read n bytes, compare n with size - at, what is left: this can't overflow",
                )
            _require_found(out, find(data, most), case)


def _refuse_copies(received: str, case: str) -> NoReturn:
    rule = f"Nothing is copied: no memory is asked for; here {case}."
    raise CheckFailed(rule, expected="no allocation", received=received, next_step="a Text is an address and a size, no more")


def _require_found(out: str, expected: list[tuple[int, int]] | None, case: str) -> None:
    count, allocations, *rest = map(int, out.split())
    received = list(zip(rest[::2], rest[1::2])) if count >= 0 else None
    if allocations:
        _refuse_copies(f"{allocations} allocations", case)
    if (count != -1) if expected is None else (count != len(expected) or received != expected):
        raise CheckFailed(
            f"texts says where each text is, or -1 for bytes that are none; here {case}.",
            expected=-1 if expected is None else f"{len(expected)}: (offset, length) {expected[:4]}",
            received=f"{count}: {(received or [])[:4]}",
            next_step="a text begins four bytes behind its length's first byte; the next length stands right behind the text",
        )


CHECKS = {1: check_pack, 2: check_texts}
