"""Opens the workbook: the learner's notebooks in the working folder, an index of the course, JupyterLab on loopback."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

from ctrlab import imports
from ctrlab.errors import BadData, CtrlabError
from ctrlab.lessons import build, index, places
from ctrlab.paths import write_atomically
from ctrlab.profiling import doctor

MANIFEST = ".copied.json"
_IMPORTED = re.compile(r"from (ctrlab[\w.]*) import (\([^)]*\)|[\w ,]+)")


def open_lab(port: int = doctor.PORT, browser: bool = True) -> int:
    """Set the workbook up, write the index, and run JupyterLab until it is stopped. Returns its exit code.

    Raises:
        CtrlabError: the port is taken, or is not a port.
    """
    if not 1 <= port <= 65535:
        raise CtrlabError(f"A port is a number from 1 to 65535; {port} was given.")
    if not doctor.port_is_free(port):
        raise CtrlabError(f"Port {port} is taken, perhaps by another JupyterLab. Choose another: ctrlab lab --port {port + 1}.")
    work = places.work()
    for line in copy_lessons(work):
        print(line)
    index.write(work, doctor.examine())
    token = secrets.token_hex(24)
    print(
        f"The workbook: http://127.0.0.1:{port}/lab/tree/index.ipynb?token={token}\nYour notebooks: {work}\nCtrl-C twice ends it."
    )
    return subprocess.run(server_command(work, port, browser), env=server_environment(work, token), check=False).returncode


def server_command(work: Path, port: int, browser: bool) -> list[str]:
    """The command that serves `work` on loopback and opens the index; the token comes from JUPYTER_TOKEN, unseen by `ps`."""
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": work,
        "ServerApp.open_browser": browser,
        "ServerApp.allow_root": os.geteuid() == 0,  # in a container there may be no one else
        "LabApp.default_url": "/lab/tree/index.ipynb",
        "Application.log_level": "WARN",
    }
    return [sys.executable, "-m", "jupyterlab", *(f"--{name}={value}" for name, value in options.items())]


def server_environment(work: Path, token: str) -> dict[str, str]:
    """This process's environment with the token. JupyterLab's question about news (it would go to the network) is turned off, and
    Markdown files open as pages, so that a link into the glossary shows its entry."""
    config = work / ".jupyter"
    (config / "labconfig").mkdir(parents=True, exist_ok=True)
    settings = {
        "page_config": {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}},
        "default_setting_overrides": {
            "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}}
        },
    }
    for name, values in settings.items():
        write_atomically(config / "labconfig" / f"{name}.json", json.dumps(values))
    path = os.pathsep.join(filter(None, (str(config), os.environ.get("JUPYTER_CONFIG_PATH"))))
    return os.environ | {"JUPYTER_TOKEN": token, "JUPYTER_CONFIG_PATH": path}


def copy_lessons(work: Path) -> list[str]:
    """Put every learner's notebook, the glossary and the cheat sheet into `work`; return lines on what was not expected there.

    The hash of each written file is stored. A file that still has its hash was not touched, and is updated. A touched file is
    left unchanged, and a newer lesson is put beside it as `NN_topic.new.ipynb`.
    """
    manifest = _manifest(work)
    told = []
    for name, text in build.workbook(build.lessons()).items():
        if _place(work, name, text, manifest) or _hash(text) in (manifest[name], manifest.get(_beside(name))):
            continue
        if _place(work, _beside(name), text, manifest):
            told.append(f"{name} has a newer version; yours was left as it is, the new one is {_beside(name)}.")
            if gone := _gone((work / name).read_text(encoding="utf-8", errors="replace")):
                told.append(f"Your {name} imports {', '.join(gone)}, which moved: copy your answers into {_beside(name)}.")
        else:
            told.append(f"{name} has a newer version, and you have changed {_beside(name)} too: rename it to receive the newest.")
    write_atomically(work / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return told


def _manifest(work: Path) -> dict[str, str]:
    work.mkdir(parents=True, exist_ok=True)
    path = work / MANIFEST
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise BadData(
            f"The list of copied lessons must be JSON; {path} is not. Delete it: no notebook will be overwritten."
        ) from error


def _place(work: Path, name: str, text: str, manifest: dict[str, str]) -> bool:
    """Write `text` to work/name, unless a learner has touched that file. Returns whether the file has the text now."""
    path = work / name
    if path.exists():
        there = _hash(path.read_text(encoding="utf-8", errors="replace"))
        if there != _hash(text) and there != manifest.get(name):
            manifest.setdefault(name, "")
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)
    manifest[name] = _hash(text)
    return True


def _gone(notebook: str) -> list[str]:
    """The modules of ctrlab that a notebook imports and that are there no longer."""
    known, gone = imports.modules(), set()
    for base, names in _IMPORTED.findall(notebook):
        if base not in known:
            gone.add(base)
        elif known[base].name == "__init__.py":
            defined = known[base].read_text(encoding="utf-8")
            found = [name.split()[0] for name in re.split(r",|\\n", names.strip("()")) if name.split()]
            gone |= {f"{base}.{name}" for name in found if f"{base}.{name}" not in known and name not in defined}
    return sorted(gone)


def _beside(name: str) -> str:
    stem, _, suffix = name.rpartition(".")
    return f"{stem}.new.{suffix}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
