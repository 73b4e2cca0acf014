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
        words: the first `words` columns hold words; the others hold numbers, which are aligned to the right.
        kinds: the first `kinds` columns say what a row is about. The terminal draws a line when one of them changes; a column
            that never changes is put into the title.
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
        """The table for the terminal. Below it stands the machine's line, unless there is a caption. No word or number is cut."""
        same = [i for i in range(self.kinds) if len({line[i] for line in self.lines}) == 1 < len(self.lines)]
        title = ": ".join(filter(None, (self.says, ", ".join(f"{self.headings[i]} {self.lines[0][i]}" for i in same))))
        table, shown = Table(title=Text(title), caption=Text(self.caption or machine().line)), [*range(len(self.headings))]
        for i in same:
            shown.remove(i)
        for i in shown:
            column = [self.headings[i], *(line[i] for line in self.lines)]
            longest = max((len(word) for cell in column for word in cell.split()), default=0)
            table.add_column(Text(column[0]), justify="left" if i < self.words else "right", min_width=longest)
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
