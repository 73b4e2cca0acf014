"""Reads the labels of a model's versions, and has the largest number of a version, which they may name."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ctrlab.errors import BadData, unreadable

FILE = "labels.json"
NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
MOST = (1 << 63) - 1
"""The largest number of a version."""


def read_labels(folder: Path) -> dict[str, int]:
    """{label: version}; none if there is no such file.

    Raises:
        BadData: the file holds anything else.
    """
    path = Path(folder) / FILE
    try:
        found = None if path.is_fifo() else json.loads(path.read_text(encoding="utf-8"))  # a pipe would never be read to its end
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise unreadable(f"File {path}", error) from None
    except (ValueError, RecursionError) as problem:
        raise BadData(f'Labels are JSON such as {{"stable": 7}}; {path} is none: {problem}.') from None
    whole = isinstance(found, dict) and all(type(number) is int and 0 < number <= MOST for number in found.values())
    if not whole or not all(NAME.fullmatch(name) for name in found):
        raise BadData(f'Labels are JSON such as {{"stable": 7}}, of versions above 0; {path} is {json.dumps(found)[:200]}.')
    return found
