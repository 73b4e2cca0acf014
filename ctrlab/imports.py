"""Finds which modules of ctrlab import which, by parsing their source, without importing them.

Cached results depend on the code that a module uses (`ctrlab.data.cache`), and tests/test_floors.py checks the floors with it.
"""

from __future__ import annotations

import ast
import functools
from importlib.util import resolve_name
from pathlib import Path

PACKAGE = Path(__file__).parent


def modules(root: Path = PACKAGE) -> dict[str, Path]:
    """All modules of the package in the folder `root`, with their files."""

    def name(path: Path) -> str:
        parts = path.relative_to(root.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    return {name(path): path for path in sorted(root.rglob("*.py"))}


def imported(module: str, known: dict[str, Path]) -> frozenset[str]:
    """The modules in `known` that one module imports, including imports inside functions.

    `from package import name` imports the module package.name if it exists, otherwise the package.
    """
    path = known[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    named = _named(path.read_text(encoding="utf-8"), package)
    found = {f"{base}.{name}" if f"{base}.{name}" in known else base for base, name in named}
    return frozenset(found & known.keys() - {module})


def used(*roots: str, known: dict[str, Path]) -> list[str]:
    """`roots` and all modules that they import directly or indirectly, sorted by name.

    Packages are left out if they are only imported because Python imports a package before its modules.
    """
    found, waiting = set(), list(roots)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += imported(module, known)
    return sorted(found)


@functools.lru_cache(maxsize=1024)
def _named(source: str, package: str) -> frozenset[tuple[str, str]]:
    """(module, imported name or "") for each import that can run; imports for type checkers are left out."""
    found = set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            found |= {(base, alias.name) for alias in node.names}
    return frozenset(found)
