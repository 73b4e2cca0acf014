"""The folders of the lessons, and of a learner's copies of them."""

from __future__ import annotations

import os
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.paths import checkout


def notebooks() -> Path:
    """The folder of the lessons' sources, `<checkout>/notebooks`.

    Raises:
        CtrlabError: the package was installed without the checkout that holds the lessons.
    """
    root = checkout()
    if root is None or not (root / "notebooks").is_dir():
        raise CtrlabError(
            "The lessons come with a checkout of the repository, and ctrlab runs from none: clone it, then `make lab`."
        )
    return root / "notebooks"


def folders() -> dict[str, Path]:
    """{topic: its lesson's folder}, in the order of the course: "fused_gru" is `<checkout>/notebooks/02_ops/04_fused_gru`."""
    found: dict[str, Path] = {}
    for folder in (path.parent for path in sorted(notebooks().glob("*/*/lesson.ipynb"))):
        if (other := found.setdefault(topic(folder.name), folder)) is not folder:
            raise CtrlabError(
                f"Lessons of all parts have different topics; {other} and {folder} have the same. Rename one of them."
            )
    return found


def topic(lesson: str) -> str:
    """The name of a lesson without its place in the course: "indicator_column" for "02_ops/01_indicator_column"."""
    return lesson.rsplit("/", 1)[-1].partition("_")[2]


def lesson_path(lesson: str) -> Path:
    """The notebook of a lesson, from its name, "02_ops/01_indicator_column"."""
    return notebooks() / lesson / "lesson.ipynb"


def work() -> Path:
    """The learner's folder: `CTRLAB_WORK`, else `<checkout>/work`, which git ignores. It need not exist yet."""
    return Path(os.environ.get("CTRLAB_WORK") or notebooks().parent / "work").expanduser().resolve()
