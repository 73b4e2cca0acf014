"""The faults that the guide for several workers lists are those that the code says."""

import ast
import re

from pages import PAGES, ROOT

from ctrlab.errors import WorkerLost

PAGE = PAGES["docs/several_workers.md"].read_text()


def said() -> str:
    """All texts in the code; what is filled in stands as {}."""
    texts = []
    for path in (ROOT / "ctrlab").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts.append("".join(p.value if isinstance(getattr(p, "value", None), str) else "{}" for p in parts))
    return "\n".join(texts)


def test_each_fault_is_one_that_the_code_says():
    faults = re.findall(r"^\| `(.*?)` \|", PAGE.partition("## What each fault says")[2], re.M)
    assert len(faults) > 8
    known = said()
    assert [fault for fault in faults if fault not in known] == []


def test_the_exit_code_is_that_of_a_lost_worker():
    assert f"\n| {WorkerLost.exit_code} | another worker is gone |" in PAGE
