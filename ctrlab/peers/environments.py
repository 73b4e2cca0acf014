"""The peers and their Python environments. Each has its own below the cache folder, made once.

The versions were tested together. pip's own configuration decides where packages come from.
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
from ctrlab.peers.cases import Kind
from ctrlab.profiling.progress import track

_BOOT = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)
_DONE = "complete"


@dataclass(frozen=True)
class Peer:
    """A library to compare with.

    Attributes:
        worker: the module that runs it.
        kinds: the kinds of cases that it supports.
        requirements: what pip installs for it; without any it runs in our own environment.
        bare: packages that are then installed without their dependencies, because they require more than is used here.
    """

    name: str
    worker: str
    kinds: tuple[Kind, ...]
    requirements: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()


OURS = Peer("ctrlab", "ctrlab.peers.ours_worker", ("lookup", "lookup_alone", "variable", "deepfm", "dlrm", "din", "gru", "augru"))
PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(
            "torch",
            "ctrlab.peers.torch_worker",
            OURS.kinds,
            # torch's CPU-only build has this version too, with the suffix "+cpu"; pip takes it if it is available.
            (
                "torch==2.13.0",
                "fbgemm-gpu-cpu==1.8.0",
                "numpy==2.4.6",
                "tensordict==0.15.3",
                "torchmetrics==1.0.3",
                "pyre-extensions==0.0.32",
                "tqdm==4.70.1",
            ),
            ("torchrec==1.8.0",),
        ),
        Peer(
            "deepctr",
            "ctrlab.peers.deepctr_worker",
            ("deepfm", "din"),
            ("tensorflow==2.21.0", "tf_keras==2.21.0", "deepctr==0.9.4"),
        ),
        Peer("onednn", "ctrlab.peers.onednn_worker", ("gru", "augru")),
    )
}


def command(peer: Peer) -> list[str]:
    """The command that starts the peer's worker. Our package comes after the environment's own packages on its path.

    Raises:
        CtrlabError: the peer is not available here; the message says why.
    """
    root = str(Path(__file__).resolve().parents[2])
    return [str(python_of(peer)), "-P", "-c", _BOOT, root, peer.worker]


def python_of(peer: Peer) -> Path:
    """The interpreter with the peer's packages, which are installed if necessary.

    Raises:
        CtrlabError: pip can't install them, or the library is not on this machine.
    """
    if peer.name == "onednn":
        from ctrlab.ops.benches import onednn

        if onednn.program() is None:
            raise CtrlabError("oneDNN's headers and library must be there to build against (Debian: libdnnl-dev); they are not.")
    if not peer.requirements:
        return Path(sys.executable)
    folder = folder_of(peer)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not (folder / _DONE).exists():
        _install(peer, folder, python)
    return python


def folder_of(peer: Peer) -> Path:
    """The folder of the peer's environment; it depends on the requirements and on the Python version."""
    wanted = "\n".join((sys.version, *peer.requirements, "", *peer.bare))
    return cache_folder() / "peers" / f"{peer.name}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"


def installed(peer: Peer) -> bool:
    return not peer.requirements or (folder_of(peer) / _DONE).exists()


def _install(peer: Peer, folder: Path, python: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # the rest of an interrupted installation
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = [lambda: venv.create(folder, with_pip=True), lambda: _run([*pip, *peer.requirements], peer)]
    if peer.bare:
        steps.append(lambda: _run([*pip, "--no-deps", *peer.bare], peer))
    for step in track(steps, f"Installing {peer.name} for the comparison, once"):
        step()
    (folder / _DONE).touch()


def _run(pip: Sequence[str], peer: Peer) -> None:
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.splitlines()
        errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: ")] or said or ["no reason given"]
        raise CtrlabError(f"pip could not install {peer.name}: {errors[-1]}")
