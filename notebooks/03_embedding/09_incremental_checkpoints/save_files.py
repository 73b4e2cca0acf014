"""Reads the files that `Checkpoints` writes for one embedding variable, as plain arrays and notes: for the lesson on deltas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ctrlab.embedding.formats.tensor_file import read_tensors


def rows(file: Path, variable: str = "items") -> dict[str, np.ndarray]:
    """The part of a save for a variable: keys int64 [n], values float32 [n, D], and for a delta removed int64 [r]."""
    prefix, arrays = f"embedding/{variable}/", read_tensors(file)[0]
    wanted = {name: f"{prefix}{name}" for name in ("keys", "values", "removed")}
    return {name: arrays[key] for name, key in wanted.items() if key in arrays}


def notes(files: Iterable[Path]) -> dict[Path, dict]:
    """The metadata of each file: {file: {"id", "step", "previous"}}; `previous` is None for a full save."""
    said = {file: read_tensors(file)[1] for file in files}
    return {file: {"id": m["id"], "step": int(m["step"]), "previous": m["previous"] or None} for file, m in said.items()}


def same_rows(mine: Mapping[str, np.ndarray], table) -> bool:
    """Whether keys and values, in any order, are exactly those of an embedding variable."""
    now = table.state()
    in_order, theirs = np.argsort(mine["keys"]), np.argsort(now.keys)
    return all(np.array_equal(mine[name][in_order], getattr(now, name)[theirs]) for name in ("keys", "values"))
