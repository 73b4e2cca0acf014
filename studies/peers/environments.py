"""The peers and their Python environments. The versions were tested together."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.profiling.environments import Environment
from studies.peers.cases import Kind
from studies.processes import command_of


@dataclass(frozen=True)
class Peer:
    """A library to compare with.

    Attributes:
        name: the library's.
        worker: the module that runs it.
        kinds: the kinds of cases that it supports.
        environment: its own environment; without one it runs in ours.
    """

    name: str
    worker: str
    kinds: tuple[Kind, ...]
    environment: Environment | None = None


KINDS: tuple[Kind, ...] = ("lookup", "lookup_alone", "variable", "deepfm", "dlrm", "din", "gru", "augru")
OURS = Peer("ctrlab", "studies.peers.ours_worker", KINDS)
TORCH = Environment(
    "torch",
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
)
DEEPCTR = Environment("deepctr", ("tensorflow==2.21.0", "tf_keras==2.21.0", "deepctr==0.9.4"))
PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer("torch", "studies.peers.torch_worker", KINDS, TORCH),
        Peer("deepctr", "studies.peers.deepctr_worker", ("deepfm", "din"), DEEPCTR),
        Peer("onednn", "studies.peers.onednn_worker", ("gru", "augru")),
    )
}


def command(peer: Peer) -> list[str]:
    """The command that starts the peer's worker; its packages are installed if necessary.

    Raises:
        CtrlabError: pip can't install them, or the library is not on this machine.
    """
    if peer.name == "onednn":
        from ctrlab.ops.benches import onednn

        if onednn.program() is None:
            raise CtrlabError("oneDNN's headers and library must be there to build against (Debian: libdnnl-dev); they are not.")
    python = peer.environment.python() if peer.environment else Path(sys.executable)
    return command_of(peer.worker, python)
