"""Where the lessons lie, and where a learner works on copies of them."""

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


def work() -> Path:
    """The learner's folder: `CTRLAB_WORK`, else `<checkout>/work`, which git ignores. It need not exist yet."""
    return Path(os.environ.get("CTRLAB_WORK") or notebooks().parent / "work").expanduser().resolve()
