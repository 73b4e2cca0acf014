"""Silence for what is said below Python."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nothing written to file descriptor 2 is seen: TensorFlow's C++ greets there before any log level is looked at."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
