"""The lessons' own modules: `ctrlab.lessons.topics.fused_gru.checks` is notebooks/02_ops/04_fused_gru/checks.py.

A folder's number is its place in the course and not part of the name, so lessons can be reordered. Python finds the
modules in every process that imports this package, also in a worker process that unpickles one of their functions.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from ctrlab.lessons import places


class _Folders:
    """Finds `ctrlab.lessons.topics.<topic>`, a package whose modules lie in the lesson's folder."""

    @staticmethod
    def find_spec(name: str, path=None, target=None) -> ModuleSpec | None:
        package, _, topic = name.rpartition(".")
        folder = places.folders().get(topic) if package == __name__ else None
        if folder is None:
            return None
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        return spec


sys.meta_path.append(_Folders)


def module(lesson: str, name: str) -> ModuleType | None:
    """A module of a lesson, `module("02_ops/04_fused_gru", "checks")`; None if the lesson's folder has no such file."""
    folder = places.folders().get(places.topic(lesson))
    if folder is None or not (folder / f"{name}.py").is_file():
        return None
    return importlib.import_module(f"{__name__}.{places.topic(lesson)}.{name}")
