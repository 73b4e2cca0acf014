"""The course on two pages, `notebooks/cheat_sheet.md`: the glossary's rules of thumb, and each lesson's key points."""

from __future__ import annotations

import re

from nbformat import NotebookNode

from ctrlab.errors import BadData
from ctrlab.lessons.glossary import TERMS, Links

PAGE = "cheat_sheet.md"
RULES = {  # heading -> terms of the glossary
    "Is it fast?": (
        "bound",
        "arithmetic intensity",
        "memory-bound",
        "compute-bound",
        "paired measurement",
        "interval",
        "warm-up",
    ),
    "What does it cost?": (
        "matrix multiplication (GEMM)",
        "FMA (fused multiply-add)",
        "cache line",
        "vectorization (SIMD)",
        "bf16 (bfloat16)",
        "table row",
        "slot",
    ),
    "Where does the work hide?": ("one-hot", "padding", "tracing", "scatter", "segment sum", "false sharing"),
    "Is the model any good?": ("AUC", "GAUC", "calibration", "loss", "overfitting"),
    "Ids and tables": ("Zipf's law", "hash collision", "admission", "Bloom filter", "eviction", "LRU", "LFU", "hit rate"),
    "Files": ("record", "checksum (CRC)", "fsync", "tombstone", "compaction", "write amplification", "checkpoint", "delta"),
}

_POINTS = re.compile(r"\*\*Key points\*\*:?\n+((?:(?:\d+\.|[*-]) .*\n?(?:[ \t]+\S.*\n?)*)+)")


def page(lessons: dict[str, NotebookNode], link: str) -> str:
    """The sheet as Markdown.

    Args:
        lessons: solved notebooks by name ("02_ops/02_one_lookup"), in the order of the course.
        link: where a lesson's notebook lies, seen from the sheet: "{name}.ipynb".
    """
    links = Links(to="glossary.md")
    lines = ["# Cheat sheet", "", "Written by `python -m ctrlab.lessons.build` from the glossary and the lessons."]
    for heading, terms in RULES.items():
        lines += ["", f"## {heading}", ""]
        lines += [f"* **{links.linked(term)}**: {TERMS[term]}" for term in terms]
    for name, nb in lessons.items():
        lines += ["", f"## [{nb.metadata.ctrlab.title}]({link.format(name=name)})", "", *key_points(name, nb)]
    return "\n".join(lines) + "\n"


def key_points(name: str, nb: NotebookNode) -> list[str]:
    """The points that a lesson ends with, as Markdown items of one line each.

    Raises:
        BadData: the lesson has none.
    """
    for cell in nb.cells:
        if cell.cell_type == "markdown" and (found := _POINTS.search(cell.source + "\n")):
            items = re.split(r"^(?:\d+\.|[*-]) ", found[1], flags=re.M)[1:]
            return [f"* {' '.join(item.split())}" for item in items]
    raise BadData(f"A lesson ends with **Key points** and a list; {name} has none.")
