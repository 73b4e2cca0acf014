"""The words of the field, each explained once in `notebooks/glossary.toml`: their page, and the links that lead to it."""

from __future__ import annotations

import re
import tomllib
from functools import cache

from ctrlab.lessons import places

PAGE = "glossary.md"

# What no link goes into: code, HTML, links, formulas and headings.
_LEFT_ALONE = re.compile(r"```.*?```|<!--.*?-->|<[^>]+>|`[^`]*`|!?\[[^\]]*\]\([^)]*\)|\$[^$\n]+\$|^#[^\n]*$", re.S | re.M)


@cache
def contents() -> dict[str, dict]:
    """The content of the file: "terms", {term: explanation}, and "rules", {heading of the cheat sheet: its terms}."""
    return tomllib.loads((places.notebooks() / "glossary.toml").read_text(encoding="utf-8"))


def terms() -> dict[str, str]:
    """{term: its explanation}."""
    return contents()["terms"]


def names(term: str) -> list[str]:
    """The term and its other names: "tiling (blocking)" is found under both."""
    first, _, others = term.rstrip(")").partition(" (")
    return [first, *(others.split(", ") if others else [])]


def page() -> str:
    """The glossary as Markdown."""
    lines = ["# Glossary", "", "Written by `python -m ctrlab.lessons.build` from `notebooks/glossary.toml`.", ""]
    for term in sorted(terms(), key=str.lower):
        name, *others = names(term)
        lines += [f"### {name}", "", *([f"*Also: {', '.join(others)}.*", ""] if others else []), terms()[term], ""]
    return "\n".join(lines)


class Links:
    """Links the first use of each term in a lesson to its entry. One object goes through a lesson's cells in order."""

    def __init__(self, to: str = f"../{PAGE}"):
        self._to, self._linked = to, set()

    def linked(self, text: str) -> str:
        """The Markdown text with links added."""
        pieces, end = [], 0
        for kept in _LEFT_ALONE.finditer(text):
            pieces += [_any_name().sub(self._link, text[end : kept.start()]), kept[0]]
            end = kept.end()
        return "".join([*pieces, _any_name().sub(self._link, text[end:])])

    def _link(self, found: re.Match) -> str:
        term = _term_of(found[1])
        if term is None or term in self._linked:
            return found[0]
        self._linked.add(term)
        return f"[{found[0]}]({self._to}#{names(term)[0].replace(' ', '-')})"


@cache
def _by_name() -> dict[str, str]:
    return {name: term for term in terms() for name in names(term)}


@cache
def _any_name() -> re.Pattern:
    """A pattern that matches any term as a separate word, in the singular or with an s; the longest first."""
    alternatives = "|".join(map(re.escape, sorted(_by_name(), key=len, reverse=True)))
    return re.compile(rf"(?<![\w/-])({alternatives})s?(?![\w-])", re.I)


def _term_of(found: str) -> str | None:
    """The term to which a text refers. "GRU" is a term and "gru" is not; "Batch" is one at the beginning of a sentence."""
    by_name = _by_name()
    return by_name.get(found) or by_name.get(found[0].lower() + found[1:])
