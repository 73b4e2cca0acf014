"""What the commands of `ctrlab` do; `ctrlab.cli` says how they are called, and imports these only when they run."""

from __future__ import annotations

import os


def import_tensorflow() -> None:
    """Imports TensorFlow without its greetings, which go straight to file descriptor 2 before any setting is looked at."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        import tensorflow  # noqa: F401
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
