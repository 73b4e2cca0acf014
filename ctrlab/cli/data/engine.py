"""The engine that does the work of a command on data."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from ctrlab.data.engine import Engine

EngineName = Literal["here", "ray"]
EngineOption = Annotated[
    EngineName, typer.Option(help="Who works: this process, or those of Ray; of RAY_ADDRESS, else of this machine.")
]


def engine_of(name: EngineName) -> contextlib.AbstractContextManager[Engine]:
    """A context with the engine of that name."""
    if name == "here":
        return contextlib.nullcontext(map)
    from ctrlab.data.on_ray import ray_engine

    return ray_engine()
