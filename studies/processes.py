"""How a study starts a worker: a module of the checkout, in any interpreter, from any folder."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout's root."""
_BOOT = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def command_of(module: str, python: str | Path = sys.executable) -> list[str]:
    """The command that runs a module as a program. The checkout comes after the interpreter's own packages on its path."""
    return [str(python), "-P", "-c", _BOOT, str(ROOT), module]
