"""A progress bar on a terminal, and silence elsewhere: in a notebook rich would leave every frame of it (and says it is a
terminal there, since kernels set FORCE_COLOR, so the stream itself is asked)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

T = TypeVar("T")


def track(steps: Sequence[T], what: str) -> Iterator[T]:
    """Iterates over `steps`, showing how far it is; the bar is gone when it is done."""
    console = Console(stderr=True, force_jupyter=False)
    with Progress(console=console, transient=True, disable=not console.file.isatty()) as progress:
        yield from progress.track(steps, description=what)
