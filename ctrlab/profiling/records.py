"""Records of benches as JSON: the results of a run, with the machine and other facts about the run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from ctrlab.errors import BadData
from ctrlab.plain import Plain
from ctrlab.profiling.machine import machine

Kind = TypeVar("Kind", bound=Plain)


def record(**facts: object) -> dict:
    """A record of results from this machine."""
    return {"machine": machine().line} | facts


def found_in(kind: type[Kind], record: Mapping, *facts: str) -> Kind:
    """The results in a record that has facts of these names.

    Raises:
        BadData: the record is one of something else.
    """
    return kind.from_json({name: value for name, value in record.items() if name not in ("machine", *facts)})


def read(path: Path) -> list[Mapping]:
    """The records of a file: one, or a list of them.

    Raises:
        BadData: the file does not contain records as JSON.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as problem:
        raise BadData(f"A file of records is JSON; {path} is not: {problem}.") from None
    records = found if isinstance(found, list) else [found]
    if not records or not all(isinstance(each, dict) for each in records):
        raise BadData(f"A file of records has one, or a list of them; {path} has {str(found)[:40]}: write it by --json.")
    return records
