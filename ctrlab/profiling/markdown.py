"""Tables in Markdown: formats numbers for tables, and replaces the content of marked places in pages.

<!-- NAME: how it is written -->
what is written
<!-- end of NAME -->
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ctrlab.errors import BadData
from ctrlab.profiling.timing import Interval


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(value: float) -> str:
    """A number with three digits, or rounded to a whole one from 100 on. Zero is "0".

    >>> number(0.12345), number(12345.6), number(0.0)
    ('0.123', '12,346', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def signed(value: float) -> str:
    """A difference with two decimals.

    >>> signed(0.125), signed(-3.0), signed(-0.001)
    ('+0.12', '-3.00', '0.00')
    """
    return f"{value:+.2f}" if abs(value) >= 0.005 else "0.00"


def interval(value: Interval, scale: float = 1.0, shown: Callable[[float], str] = number) -> str:
    """The median and the interval's ends, times `scale`."""
    median, low, high = (shown(scale * each) for each in (value.median, value.low, value.high))
    return f"{median} [{low}, {high}]"


def percent(value: float) -> str:
    """A difference in whole percent.

    >>> percent(0.304), percent(-0.001)
    ('+30 %', '0 %')
    """
    whole = round(100 * value)
    return f"{whole:+d} %" if whole else "0 %"


def filled(text: str, name: str, inner: str, page: str) -> str:
    """The page's text with `inner` at the place of this name.

    Args:
        page: the file's name, for the error.
    Raises:
        BadData: the page has no such place, or two.
    """
    written = inner.replace("\\", "\\\\")
    text, count = re.subn(rf"(<!-- {name}:.*?-->\n).*?(<!-- end of {name} -->)", rf"\1\n{written}\n\n\2", text, flags=re.S)
    if count != 1:
        raise BadData(f"{page} has one place for the {name} table; {count} were found.")
    return text
