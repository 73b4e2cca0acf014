"""Functions of a notebook for another process: pickle, with the code of what can't be imported there.

Pickle names a function by its module, and a notebook is none. Here it is its code, its defaults, and what it uses of the
notebook: modules by name, other functions of the notebook in the same way, everything else as pickle has it.
"""

from __future__ import annotations

import builtins
import dis
import importlib
import io
import marshal
import pickle
import sys
import types
from collections.abc import Iterator

from ctrlab.errors import CtrlabError


def packed(thing: object) -> bytes:
    """The bytes of a function, or of what holds functions; `pickle.loads` reads them, with the same Python.

    Raises:
        CtrlabError: something that can't be pickled is among what it uses.
    """
    data = io.BytesIO()
    try:
        _Pickler(data).dump(thing)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as problem:
        raise CtrlabError(
            f"What a function uses goes with it to other processes, and this can't: {problem}. Give it to the function as an "
            "argument, or leave it out."
        ) from problem
    return data.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, thing):
        if isinstance(thing, types.ModuleType):
            return importlib.import_module, (thing.__name__,)
        if isinstance(thing, types.FunctionType) and not _can_be_imported(thing):
            cells = [cell.cell_contents for cell in thing.__closure__ or ()]
            state = {"uses": _used(thing), "cells": cells, "defaults": thing.__defaults__, "by_name": thing.__kwdefaults__}
            # The state comes after the function, which it may hold itself.
            return _made, (marshal.dumps(thing.__code__), len(cells)), state, None, None, _filled
        return NotImplemented


def _can_be_imported(function: types.FunctionType) -> bool:
    found = sys.modules.get(function.__module__) if function.__module__ != "__main__" else None
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _used(function: types.FunctionType) -> dict[str, object]:
    """What it reads of its module, by name."""
    return {name: function.__globals__[name] for name in set(_read(function.__code__)) if name in function.__globals__}


def _read(code: types.CodeType) -> Iterator[str]:
    """The names that it, or a function in it, reads and that are not its own. An attribute's name is none of them."""
    yield from (each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _read(inner)


def _made(code: bytes, cells: int) -> types.FunctionType:
    closure = tuple(types.CellType() for _ in range(cells))
    return types.FunctionType(marshal.loads(code), {"__builtins__": builtins}, closure=closure)


def _filled(function: types.FunctionType, state: dict) -> None:
    function.__globals__.update(state["uses"])
    function.__defaults__, function.__kwdefaults__ = state["defaults"], state["by_name"]
    for cell, value in zip(function.__closure__ or (), state["cells"]):
        cell.cell_contents = value
