"""The output of the commands about the files that they wrote."""

from __future__ import annotations

from pathlib import Path

from ctrlab.cli.app import console


def tell(*paths: Path) -> None:
    """Prints each file and its size."""
    for path in paths:
        console().print(f"{path}: {path.stat().st_size:,} bytes", soft_wrap=True, highlight=False)
