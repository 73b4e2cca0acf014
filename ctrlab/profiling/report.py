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
        says: what it shows, without a stop: its title in the terminal, the sentence before it in Markdown.
        headings: one a column.
        lines: a row of cells each.
        words: how many of the first columns hold words; the others hold numbers, which stand to the right.
        kinds: how many of the first columns say of what a row is. The terminal draws a line where one of them changes. One that
            never changes stands in its title.
        caption: what else the terminal says below it.
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
        """For the terminal; below it stands the machine, unless there is a caption. No word or number is cut."""
        same = [i for i in range(self.kinds) if len({line[i] for line in self.lines}) == 1 < len(self.lines)]
        title = ": ".join(filter(None, (self.says, ", ".join(f"{self.headings[i]} {self.lines[0][i]}" for i in same))))
        table, shown = Table(title=title, caption=self.caption or machine().line), [*range(len(self.headings))]
        for i in same:
            shown.remove(i)
        for i in shown:
            column = [self.headings[i], *(line[i] for line in self.lines)]
            longest = max((len(word) for cell in column for word in cell.split()), default=0)
            table.add_column(column[0], justify="left" if i < self.words else "right", min_width=longest)
        before = None
        for line in self.lines:
            kind = tuple(line[: self.kinds])
            if before not in (None, kind):
                table.add_section()
            before = kind
            table.add_row(*(Text(line[i]) for i in shown))  # whose brackets are no markup
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
            console.print(part.table(), crop=False)
        for note in self.notes:
            console.print(note, highlight=False, soft_wrap=True, markup=False)
