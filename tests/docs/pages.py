"""README.md and the guides in docs, read as Markdown: their blocks of code, commands and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
PAGES = {str(path.relative_to(ROOT)): path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
SHELL = ("", "bash", "console", "sh")
"""Blocks of commands; one without a language is indented."""
OUTPUT = "text"


@dataclass(frozen=True)
class Block:
    """A block of code: its language (of an indented block: none), its text, and its first line, from 1."""

    language: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    """All blocks of a page, but for MyST's own, such as {toctree}."""
    tokens = [token for token in MarkdownIt("commonmark").parse(text) if token.type in ("fence", "code_block")]
    return [Block(t.info.strip(), t.content, t.map[0] + 1) for t in tokens if not t.info.startswith("{")]


def python(text: str) -> str:
    """The page's Python, at the lines where the page has it, so that a traceback names them."""
    lines = [""] * (text.count("\n") + 1)
    for block in blocks(text):
        if block.language == "python":
            code = block.text.splitlines()
            lines[block.line : block.line + len(code)] = code
    return "\n".join(lines) + "\n"


def commands(text: str) -> list[str]:
    """The commands of the page's shell blocks, each without its comment; one may have several lines, as in a shell."""
    found = []
    for block in blocks(text):
        if block.language in SHELL:
            found += _commands(block.text)
    return found


def _commands(text: str) -> Iterator[str]:
    command = ""
    for line in text.splitlines():
        command += re.sub(r"(^|\s+)#\s.*", "", line.removeprefix("$ "))
        if command.endswith("\\"):
            command = command[:-1]
        elif command.count("'") % 2:  # a text of several lines
            command += "\n"
        else:
            if command.strip():
                yield command
            command = ""
    assert not command, f"A command does not end: {command}"


def inline(text: str) -> list[str]:
    """The commands in backticks in the page's text, `ctrlab doctor`."""
    spans = [s for token in MarkdownIt("commonmark").parse(text) for s in token.children or () if s.type == "code_inline"]
    return [s.content for s in spans if re.match(r"ctrlab [a-z-]", s.content)]


def links(text: str) -> list[str]:
    """Where the page's links and images lead."""
    children = [s for token in MarkdownIt("commonmark").enable("table").parse(text) for s in token.children or ()]
    return [s.attrGet("href") or s.attrGet("src") for s in children if s.type in ("link_open", "image")]


def anchors(text: str) -> set[str]:
    """The names of the page's headings in links, as GitHub and MyST make them."""
    tokens = MarkdownIt("commonmark").parse(text)
    titles = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
