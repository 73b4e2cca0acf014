"""A trained model as a .keras file."""

from __future__ import annotations

from pathlib import Path

import keras

from ctrlab.paths import replacing


def save_model(model: keras.Model, path: Path) -> None:
    """Writes the whole file or none of it.

    Args:
        path: ends in ".keras".
    """
    with replacing(path, ".keras") as part:  # Keras chooses the format by the name's ending
        model.save(part)
