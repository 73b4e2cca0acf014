"""Reads a store's files with NumPy alone, in the format of native/store/segment_format.h, without TensorFlow or the engine.

segment   header 64 | records of 24 + row bytes | in a full segment also: an index entry of 16 per record | footer 32
record    u32 crc, u32 kind (0 row, 1 tombstone, 2 commit), u64 sequence number, i64 key, the row
manifest  header 40 | u64 per segment: its number
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ctrlab.errors import BadData

HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("bytes", "<u4"),
        ("row_bytes", "<u8"),
        ("number", "<u8"),
        ("zeros", "V28"),
        ("crc", "<u4"),
    ]
)
FOOTER = np.dtype([("magic", "S8"), ("records", "<u8"), ("index_crc", "<u4"), ("zeros", "V8"), ("crc", "<u4")])
MANIFEST = np.dtype(
    [("magic", "S8"), ("version", "<u4"), ("crc", "<u4"), ("next", "<u8"), ("durable", "<u8"), ("segments", "<u8")]
)
ROW, TOMBSTONE, COMMIT = range(3)
INDEX_BYTES = 16
"""The index entry of one record in a full segment."""
MOST_ROW_BYTES = 1 << 20
NAME = re.compile(r"([0-9]{10}|[1-9][0-9]{10,19})\.seg")


def record(row_bytes: int) -> np.dtype:
    """A record of a store whose rows have `row_bytes` bytes."""
    return np.dtype([("crc", "<u4"), ("kind", "<u4"), ("sequence", "<u8"), ("key", "<i8"), ("row", f"V{row_bytes}")])


def crc32c(data: np.ndarray) -> np.ndarray:
    """CRC-32C of each line of bytes, uint8 [n, m] -> uint32 [n]: one table lookup per byte, for all lines at once."""
    crc = np.full(len(data), 0xFFFFFFFF, np.uint32)
    for column in data.T:
        crc = (crc >> np.uint32(8)) ^ _TABLE[(crc ^ column) & np.uint32(255)]
    return ~crc


def read(folder: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a closed store: keys int64 [n], ascending, and rows uint8 [n, row bytes]; use `rows.view("<f4")`.

    The record with the highest sequence number of its key counts. If it is a tombstone, the key has no row.

    Raises:
        BadData: a file is missing or violates the format; the message names the file and the byte.
    """
    paths, durable = _listed(Path(folder))
    found = [(path, *part) for path in paths if (part := _records(path)) is not None]
    return _latest([records for _, records, _ in (found if durable is None else _before_gap(found, durable))], folder)


def salvage(folder: str | Path, on_file: Callable[[int, int], None] | None = None) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """What is intact in a damaged store: keys and rows as `read` gives them, and one sentence per damaged file.

    A row may be older than a lost one, and an erased row may be back. The command is `ctrlab embedding salvage`.

    Args:
        on_file: called after each file with its number, from 1, and the number of files.
    Raises:
        BadData: there are no segments, or their rows differ in size.
    """
    paths, parts, problems = sorted(Path(folder).glob("*.seg")), [], []
    if not paths:
        raise BadData(f"A store is a folder of segments, *.seg; {folder} has none.")
    try:
        _listed(Path(folder))
    except BadData as problem:
        problems.append(str(problem))
    for number, path in enumerate(paths, 1):
        try:
            if found := _records(path, problems):
                parts.append(found[0])
        except BadData as problem:
            problems.append(f"{problem} All that it held is lost.")
        if on_file:
            on_file(number, len(paths))
    return *_latest(parts, folder), problems


def _latest(parts: list[np.ndarray], folder: str | Path) -> tuple[np.ndarray, np.ndarray]:
    if not parts:
        return np.zeros(0, np.int64), np.zeros((0, 0), np.uint8)
    if len({part.dtype for part in parts}) > 1:
        raise BadData(f"All segments of a store must have rows of one size; those in {folder} do not.")
    found = np.concatenate(parts)
    found = found[found["kind"] != COMMIT]
    found = found[np.lexsort((found["sequence"], found["key"]))]
    last = np.append(found["key"][1:] != found["key"][:-1], True) if len(found) else np.zeros(0, bool)
    found = found[last & (found["kind"] == ROW)]
    rows = np.ascontiguousarray(found["row"]).view(np.uint8).reshape(len(found), found["row"].itemsize)
    return found["key"].astype(np.int64), rows


def _listed(folder: Path) -> tuple[list[Path], int | None]:
    """The segments that count, and the sequence number up to which all was durable; None if there is no manifest."""
    paths = {int(path.stem): path for path in sorted(folder.glob("*.seg")) if NAME.fullmatch(path.name)}
    manifest = folder / "MANIFEST"
    if not manifest.exists():
        return list(paths.values()), None
    content = _content(manifest)
    if len(content) < MANIFEST.itemsize or content[:8] != b"ctrlman\0":
        raise BadData(f"A manifest starts with a header; {manifest} has none at byte 0.")
    header = np.frombuffer(content, MANIFEST, 1)[0]
    whole = len(content) == MANIFEST.itemsize + 8 * int(header["segments"]) and header["crc"] == _crc(content[16:])
    if header["version"] != 1 or not whole:
        raise BadData(f"A manifest must be of version 1 and as it was written; {manifest} is not.")
    listed = np.frombuffer(content, "<u8", offset=MANIFEST.itemsize).tolist()
    for number in listed:
        if number not in paths:
            raise BadData(f"All segments of a store must be there; {folder / f'{number:010}.seg'} is missing.")
    return [path for number, path in paths.items() if number in listed or number >= header["next"]], int(header["durable"])


def _before_gap(parts: list[tuple], durable: int) -> list[tuple]:
    """From (path, records, flushed), removes what was written after something that a loss of power destroyed."""
    numbers = [records["sequence"][records["kind"] != COMMIT] for _, records, _ in parts]
    kept = []
    for number, part in sorted(((n, p) for n, p in zip(numbers, parts) if len(n)), key=lambda each: int(each[0].min())):
        if number.min() <= durable + 1:
            durable = max(durable, int(number.max()))
            kept.append(part)
        elif part[2]:
            raise BadData(
                f"All that was flushed must be there; {part[0]} was after record number {durable + 1}, which is missing."
            )
    return kept


def _records(path: Path, problems: list[str] | None = None) -> tuple[np.ndarray, bool] | None:
    """The file's records, and whether it says that all earlier ones were flushed. None if a process ended while making the file.

    With a list `problems`, damaged records are described there and intact ones after them count.
    """
    content = _content(path)
    if not any(content[: HEADER.itemsize]) or len(content) < HEADER.itemsize:
        return None
    header = np.frombuffer(content, HEADER, 1)[0]
    if header["magic"] != b"ctrlseg" or header["crc"] != _crc(content[:60]):
        raise BadData(f"A segment starts with a header; {path} has none at byte 0, or a damaged one.")
    if header["version"] != 1:
        raise BadData(f"Segments of version 1 can be read; {path} has version {header['version']}.")
    if not 1 <= header["row_bytes"] <= MOST_ROW_BYTES:
        raise BadData(f"A row has 1 to {MOST_ROW_BYTES:,} bytes; the header of {path} says {header['row_bytes']:,}.")
    of = record(int(header["row_bytes"]))
    footer = np.frombuffer(content[-FOOTER.itemsize :], FOOTER, 1)[0]
    sealed = (
        len(content) == HEADER.itemsize + int(footer["records"]) * (of.itemsize + INDEX_BYTES) + FOOTER.itemsize
        and footer["magic"] == b"ctrlend"
        and footer["crc"] == _crc(content[-32:-4])
    )
    count = int(footer["records"]) if sealed else (len(content) - HEADER.itemsize) // of.itemsize
    records = np.frombuffer(content, of, count, HEADER.itemsize)
    whole = crc32c(records.view(np.uint8).reshape(count, of.itemsize)[:, 4:]) == records["crc"]
    good = count if whole.all() else int(np.argmin(whole))
    rest = whole[good:]
    if good < count and (sealed or (records["kind"][good:][rest] == COMMIT).any() or (problems is not None and rest.any())):
        problem = f"A record must be as it was written; that in {path} at byte {HEADER.itemsize + good * of.itemsize} is not."
        if problems is None:
            raise BadData(problem)
        end = count if sealed else good + int(np.flatnonzero(rest)[-1]) + 1  # after the last intact record is an unfinished write
        problems.append(f"{problem} What {end - whole[:end].sum():,} of its {end:,} records held is lost.")
        records = records[whole]
    else:
        records = records[:good]  # the rest is an unfinished write
    return records, bool(sealed or (records["kind"] == COMMIT).any())


def _content(path: Path) -> bytes:
    """Raises BadData if the path can't be read, or is a folder, a dangling link, or a pipe, which would block."""
    try:
        if path.is_file():
            return path.read_bytes()
    except OSError as error:
        raise BadData(f"{path} can't be read: {error.strerror}.") from None
    raise BadData(f"{path} can't be read: it is no regular file.")


def _crc(data: bytes) -> int:
    return int(crc32c(np.frombuffer(data, np.uint8)[None])[0])


def _table() -> np.ndarray:
    rest = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        rest = (rest >> np.uint32(1)) ^ np.where(rest & np.uint32(1), np.uint32(0x82F63B78), np.uint32(0))
    return rest


_TABLE = _table()
