"""Writes the pages of the API reference: one a package, of what its `__all__` names, and one a module that is named there."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import ctrlab

FOLDER = "reference"


def setup(app) -> dict:
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / FOLDER))
    return {"parallel_read_safe": True}


def public() -> dict[str, dict[str, object]]:
    """{package: {name: what it is}} of all packages that have an `__all__`."""
    found = {}
    for package in ["ctrlab", *(m.name for m in pkgutil.iter_modules(ctrlab.__path__, "ctrlab.") if m.ispkg)]:
        module = importlib.import_module(package)
        if names := getattr(module, "__all__", None):
            found[package] = {name: _get(module, name) for name in names}
    return found


def _get(package: ModuleType, name: str) -> object:
    try:
        return getattr(package, name)
    except AttributeError:
        return importlib.import_module(f"{package.__name__}.{name}")


def write(folder: Path) -> None:
    """Makes the folder anew. A page that has not changed keeps its time, so that Sphinx does not read it again."""
    pages = {}
    packages = public()
    for package, names in packages.items():
        modules = [name for name, value in names.items() if inspect.ismodule(value)]
        pages[package] = _package_page(package, modules, {n: v for n, v in names.items() if n not in modules})
        pages |= {f"{package}.{name}": _module_page(f"{package}.{name}") for name in modules}
    pages["index"] = _title("Reference") + _toctree(packages)
    folder.mkdir(exist_ok=True)
    for old in set(folder.iterdir()) - {folder / f"{name}.rst" for name in pages}:
        old.unlink()
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _package_page(package: str, modules: list[str], names: dict[str, object]) -> str:
    parts = [_title(f"``{package}``"), f".. automodule:: {package}\n"]
    parts += [f".. {_directive(value)}:: {package}.{name}\n{_options(value)}" for name, value in names.items()]
    return "\n".join(parts) + (_toctree(f"{package}.{name}" for name in modules) if modules else "")


def _module_page(module: str) -> str:
    return f"{_title(f'``{module}``')}\n.. automodule:: {module}\n   :members:\n"


def _directive(value: object) -> str:
    if inspect.isclass(value):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction" if callable(value) else "autodata"


def _options(value: object) -> str:
    if inspect.isclass(value):
        return "   :show-inheritance:\n" if issubclass(value, BaseException) else "   :members:\n"
    return "   :no-value:\n" if isinstance(value, Mapping) else ""


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n"


def _toctree(pages) -> str:
    return "\n.. toctree::\n\n" + "".join(f"   {page}\n" for page in pages)
