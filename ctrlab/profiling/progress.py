"""A progress bar on a terminal, and nothing elsewhere. In a notebook rich would print every frame. Kernels set FORCE_COLOR, so
rich takes a notebook for a terminal; therefore this module asks the stream itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

T = TypeVar("T")


def track(steps: Sequence[T], what: str) -> Iterator[T]:
    """Iterates over `steps` and shows the progress; the bar disappears at the end."""
    console = Console(stderr=True, force_jupyter=False)
    with Progress(console=console, transient=True, disable=not console.file.isatty()) as progress:
        yield from progress.track(steps, description=what)
