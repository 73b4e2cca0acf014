"""A trained model as a .keras file."""

from __future__ import annotations

import os
from pathlib import Path

import keras


def save_model(model: keras.Model, path: Path) -> None:
    """Writes the whole file or none of it.

    Args:
        path: ends in ".keras".
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}.keras")
    try:
        model.save(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
