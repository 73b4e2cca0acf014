"""What a conversion has read so far: the counts, the rejected lines with their reasons, and the progress bar."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from ctrlab.data.outputs import Replacement
from ctrlab.data.raw.lines import Block, LineFile
from ctrlab.errors import BadData

BLOCK_LINES = 16_384
ENOUGH = 1_000  # rows after which "most are rejected" can be judged


@dataclass
class Counts:
    """Rows of a conversion: read = written + rejected, where a line is a row.

    Event logs (review JSON, Taobao's behaviour) are another matter: `read` and `rejected` count events, and the users' last
    ones give the rows that are `written`. `reasons` counts the rejected by the rule that they broke.
    """

    read: int = 0
    written: int = 0
    rejected: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class Intake:
    """Reads source files in blocks, and takes down what is wrong with their lines.

    Args:
        name: the data set, for messages.
        rejects: an open file for `file <tab> line <tab> reason <tab> the raw line`.
        progress: show a bar of the bytes read (none where there is no terminal).
        sources: the files, for their size on disk and the bar's total.
    """

    def __init__(self, name: str, rejects: Replacement, sources: list[Path], progress: bool = True):
        self.name, self.counts, self._rejects, self._first = name, Counts(), rejects, ""
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
        """A folder on the result's disk for what doesn't fit in memory; it goes when the conversion ends."""
        self._scratch = self._scratch or tempfile.TemporaryDirectory(dir=self._rejects.path.parent, prefix=".ctrlab-")
        return Path(self._scratch.name)

    def expect(self, path: Path) -> None:
        """Make room in the bar for a file beside the sources, or one that is read once more."""
        self.size += path.stat().st_size if path.is_file() else 0
        self._bar.update(self._task, total=self.size)

    def open(self, path: Path) -> LineFile:
        return LineFile(path, lambda size: self._bar.advance(self._task, size))

    def blocks(self, path: Path) -> Iterator[Block]:
        """The whole file, some thousand lines at a time."""
        with self.open(path) as file:
            yield from file.blocks(BLOCK_LINES)

    def reject(self, block: Block, index: int, rule: str, detail: str) -> None:
        """Take down one row of `block` as broken: `rule` in general words, `detail` with what was received."""
        self.counts.rejected += 1
        self.counts.reasons[rule] += 1
        reason = f"{rule}: {detail}".replace("\t", "\\t").replace("\n", "\\n")
        self._first = self._first or f"{block.path}, line {block.first + index}: {reason}"
        self._rejects.write(f"{block.path}\t{block.first + index}\t{reason}\t".encode() + block.line(index) + b"\n")

    def check(self, at_least: int = ENOUGH) -> None:
        """Raise BadData when most rows read so far were rejected: then this is another format."""
        counts = self.counts
        if counts.read >= at_least and 2 * counts.rejected > counts.read:
            raise BadData(
                f"This doesn't look like raw {self.name} data: {counts.rejected:,} of the first {counts.read:,} rows are no rows "
                f"of it; first {self._first}."
            )


class Faults:
    """The rows of one block that are still good; a row is rejected once, for the first rule it breaks."""

    def __init__(self, block: Block, intake: Intake):
        self.block, self.intake = block, intake
        self.good = np.ones(len(block), bool)
        intake.counts.read += len(block)

    def reject(self, rows: np.ndarray, rule: str, details, block: Block | None = None) -> None:
        """Reject `rows` (places in the block, int64 [n]) by one rule; `details` says of each what was received.

        `block` is given where the fault lies in the line of another file beside this one.
        """
        for row, detail in zip(rows.tolist(), details):
            if self.good[row]:
                self.good[row] = False
                self.intake.reject(block or self.block, row, rule, detail)


class Unheard(Faults):
    """For a first look at rows that are read again: what is wrong with them is taken down then."""

    def __init__(self, block: Block):
        self.block = block

    def reject(self, rows: np.ndarray, rule: str, details, block: Block | None = None) -> None:
        pass
