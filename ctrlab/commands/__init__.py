"""What the commands of `ctrlab` do; `ctrlab.cli` says how they are called, and imports these only when they run."""

from __future__ import annotations

import os

from ctrlab.quiet import quiet


def import_tensorflow() -> None:
    """Imports TensorFlow without its greetings."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with quiet():
        import tensorflow  # noqa: F401
