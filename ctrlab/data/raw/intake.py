"""The state of a conversion: counts, rejected lines with their reasons, and the progress bar."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from ctrlab.data.engine import Engine
from ctrlab.data.outputs import Replacement
from ctrlab.data.raw.lines import Block, LineFile
from ctrlab.errors import BadData

BLOCK_LINES = 16_384
ENOUGH = 1_000  # after this many rows, "most are rejected" is judged


@dataclass
class Counts:
    """Counts of a conversion: read = written + rejected, if each line is a row.

    Event logs (review JSON, Taobao's behaviour) differ: `read` and `rejected` count events, `written` counts the rows made from
    the users' last events. `reasons` counts the rejected lines by violated rule.
    """

    read: int = 0
    written: int = 0
    rejected: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class Intake:
    """Reads source files in blocks, and records what is wrong with their lines.

    Args:
        name: the data set, for messages.
        rejects: an open file for `file <tab> line <tab> reason <tab> the raw line`.
        progress: show a bar of the bytes read (not without a terminal).
        sources: the files; their size on disk is the bar's total.
    Attributes:
        engine: parses the blocks.
    """

    def __init__(self, name: str, rejects: Replacement, sources: list[Path], progress: bool = True, engine: Engine = map):
        self.name, self.counts, self._rejects, self._first, self.engine = name, Counts(), rejects, "", engine
        self._scratch: tempfile.TemporaryDirectory | None = None
        self.size = sum(source.stat().st_size for source in sources if source.is_file())
        console = Console(stderr=True, force_jupyter=False)
        shown = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*shown, console=console, transient=True, disable=not (progress and console.file.isatty()))
        self._task = self._bar.add_task(f"Convert {name}", total=self.size)

    def __enter__(self) -> Intake:
        self._bar.start()
        return self

    def __exit__(self, *_) -> None:
        self._bar.stop()
        if self._scratch:
            self._scratch.cleanup()

    def scratch(self) -> Path:
        """A folder on the result's disk for data that does not fit in memory; deleted when the conversion ends."""
        self._scratch = self._scratch or tempfile.TemporaryDirectory(dir=self._rejects.path.parent, prefix=".ctrlab-")
        return Path(self._scratch.name)

    def expect(self, path: Path) -> None:
        """Adds a file to the bar's total: an additional file, or one that is read again."""
        self.size += path.stat().st_size if path.is_file() else 0
        self._bar.update(self._task, total=self.size)

    def open(self, path: Path) -> LineFile:
        return LineFile(path, lambda size: self._bar.advance(self._task, size))

    def blocks(self, path: Path) -> Iterator[Block]:
        """The whole file, in blocks of some thousand lines."""
        with self.open(path) as file:
            yield from file.blocks(BLOCK_LINES)

    def parsed(self, parse: Callable[[Any], tuple[Any, Faults]], items: Iterable[Any]) -> Iterator[Any]:
        """The results of parsing the items, in their order; the faults are recorded.

        Args:
            parse: one item, such as a block -> its result, and its faults.
        """
        for result, faults in self.engine(parse, items):
            self.counts.read += faults.read
            for rejected in faults.rejected:
                self._reject(rejected)
            yield result

    def _reject(self, found: Rejected) -> None:
        self.counts.rejected += 1
        self.counts.reasons[found.rule] += 1
        reason = f"{found.rule}: {found.detail}".replace("\t", "\\t").replace("\n", "\\n")
        self._first = self._first or f"{found.path}, line {found.number}: {reason}"
        self._rejects.write(f"{found.path}\t{found.number}\t{reason}\t".encode() + found.line + b"\n")

    def check(self, at_least: int = ENOUGH) -> None:
        """Raises BadData if most rows read so far were rejected, because then the format is another one."""
        counts = self.counts
        if counts.read >= at_least and 2 * counts.rejected > counts.read:
            raise BadData(
                f"This doesn't look like raw {self.name} data: {counts.rejected:,} of the first {counts.read:,} rows are no rows "
                f"of it; first {self._first}."
            )


@dataclass(frozen=True)
class Rejected:
    """A line that is not a valid row: `rule` says what it broke in general words, `detail` what was received."""

    path: Path
    number: int
    line: bytes
    rule: str
    detail: str


class Faults:
    """The rows of one block that are still good. A row is rejected once, for the first rule it violates."""

    def __init__(self, block: Block):
        self._block, self.read = block, len(block)
        self.good = np.ones(len(block), bool)
        self.rejected: list[Rejected] = []

    def __getstate__(self) -> dict:
        return self.__dict__ | {"_block": None}  # large, and who takes the faults has read it

    def reject(self, rows: np.ndarray, rule: str, details, block: Block | None = None) -> None:
        """Rejects `rows` (positions in the block, int64 [n]) by one rule; `details` says what was received in each.

        Pass `block` if the fault lies in the line of an accompanying file.
        """
        for row, detail in zip(rows.tolist(), details):
            if self.good[row]:
                self.good[row] = False
                lines = block or self._block
                self.rejected.append(Rejected(lines.path, lines.first + row, lines.line(row), rule, detail))
