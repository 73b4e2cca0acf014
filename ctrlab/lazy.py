"""Names of a package that are loaded when first asked for: importing TensorFlow takes seconds, and much does without it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping


def loader(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """What a package's `__getattr__` is to be.

    Args:
        places: {name: the module of the package that has it}; no module may have the name of what it holds.
    """

    def load(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{places[name]}"), name)

    return load
