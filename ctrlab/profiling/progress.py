"""A progress bar on a terminal, and silence elsewhere: in a notebook rich would leave an Output widget in the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

T = TypeVar("T")


def track(steps: Sequence[T], what: str) -> Iterator[T]:
    """Iterates over `steps`, showing how far it is; the bar is gone when it is done."""
    console = Console(stderr=True, force_jupyter=False)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(steps, description=what)
