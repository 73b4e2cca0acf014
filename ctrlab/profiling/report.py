"""Reports of measurements as tables, with the same cells in the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ctrlab.profiling import markdown
from ctrlab.profiling.machine import machine


@dataclass(frozen=True)
class Part:
    """One table.

    Attributes:
        says: what the table shows, without a full stop: its title in the terminal, the sentence before it in Markdown.
        headings: one per column.
        lines: the rows, each a sequence of cells.
        words: the first `words` columns hold words, which are not broken into lines; the others hold numbers.
        kinds: the first `kinds` columns say what a row is about. The terminal draws a line when one of them changes.
        caption: text that the terminal shows below the table.
    """

    says: str
    headings: Sequence[str]
    lines: Sequence[Sequence[str]]
    words: int = 1
    kinds: int = 0
    caption: str = ""

    @classmethod
    def of(cls, says: str, headings: Sequence[str], lines: Iterable[Sequence[str]], **how) -> Part:
        """Makes a part from lines that may be an iterator."""
        return cls(says, headings, [list(line) for line in lines], **how)

    def markdown(self) -> str:
        return f"{self.says}:\n\n{markdown.table(self.headings, self.lines)}"

    def table(self) -> Table:
        """The table for the terminal. Below it stands the machine's line, unless there is a caption."""
        table = Table(title=self.says, caption=self.caption or machine().line)
        for i, heading in enumerate(self.headings):
            table.add_column(heading, justify="left" if i < self.words else "right", no_wrap=i < self.words)
        before = None
        for line in self.lines:
            kind = tuple(line[: self.kinds])
            if before not in (None, kind):
                table.add_section()
            before = kind
            table.add_row(*map(Text, line))  # whose brackets are no markup
        return table


@dataclass(frozen=True)
class Report:
    """Tables, and sentences about them.

    Attributes:
        parts: the tables, in order.
        notes: sentences that the terminal shows below the tables.
    """

    parts: Sequence[Part]
    notes: Sequence[str] = ()

    def markdown(self) -> str:
        return "\n\n".join(part.markdown() for part in self.parts)

    def show(self, console: Console) -> None:
        """Prints the report."""
        for part in self.parts:
            console.print(part.table())
        for note in self.notes:
            console.print(note, highlight=False, soft_wrap=True, markup=False)
