"""Python environments of other libraries, which are measured beside ours. Each lies below the cache folder and is made once.

pip's own configuration decides where packages come from.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.paths import cache_folder
from ctrlab.profiling.progress import track

_DONE = "complete"


@dataclass(frozen=True)
class Environment:
    """A separate Python environment for a library.

    Attributes:
        name: the library's name.
        requirements: what pip installs for it.
        bare: packages that are then installed without their dependencies, because they require more than is used here.
    """

    name: str
    requirements: tuple[str, ...]
    bare: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The environment's folder, which depends on the requirements and on the Python version."""
        wanted = "\n".join((sys.version, *self.requirements, "", *self.bare))
        return cache_folder() / "peers" / f"{self.name}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"

    @property
    def installed(self) -> bool:
        """Whether all packages have been installed."""
        return (self.folder / _DONE).exists()

    def python(self) -> Path:
        """The environment's interpreter. Its packages are installed first if necessary.

        Raises:
            CtrlabError: pip can't install them.
        """
        python = self.folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        if not self.installed:
            self._install(python)
        return python

    def _install(self, python: Path) -> None:
        folder = self.folder
        shutil.rmtree(folder, ignore_errors=True)  # the rest of an interrupted installation
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        steps = [lambda: venv.create(folder, with_pip=True), lambda: self._run([*pip, *self.requirements])]
        if self.bare:
            steps.append(lambda: self._run([*pip, "--no-deps", *self.bare]))
        for step in track(steps, f"Installing {self.name} for the comparison, once"):
            step()
        (folder / _DONE).touch()

    def _run(self, pip: Sequence[str]) -> None:
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = done.stderr.splitlines()
            errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: ")] or said or ["no reason given"]
            raise CtrlabError(f"pip could not install {self.name}: {errors[-1]}")
