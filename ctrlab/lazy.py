"""Names of a package that are imported on first use: importing TensorFlow takes seconds, and many commands don't need it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping


def loader(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """Makes a package's `__getattr__`.

    Args:
        places: {name: the module of the package that defines it}; no module may have the name of something it defines.
    """

    def load(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{places[name]}"), name)

    return load
