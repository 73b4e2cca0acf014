"""The workers of a training as an indexed Job of Kubernetes. `kubernetes.yaml` beside this file is the manifest."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from string import Template

from ctrlab.distributed.place import CONFIG, config_of
from ctrlab.errors import CtrlabError, WorkerLost

PORT = 2222
MOUNT = "/shared"
"""Where the pods see the volume that all of them share."""
INDEX = "$(JOB_COMPLETION_INDEX)"
"""What the kubelet replaces by a pod's index."""
RETRIES = 3
MOST_LETTERS = 63
"""Of a pod's name in the DNS."""
MOST_WORKERS = 100_000
"""Of an indexed Job."""
MOST_BYTES = (128 << 10) - 1
"""Of a variable in Linux, with its name."""
LEAST_MEMORY = 64 << 20
UNITS = {"": 1} | {s: 1000**n for n, s in enumerate("kMGTPE", 1)} | {f"{s}i": 1024**n for n, s in enumerate("KMGTPE", 1)}
"""Bytes by suffix, as Kubernetes has them: thousands are a small k."""


def kubernetes_job(
    command: Sequence[str], workers: int, *, image: str, claim: str, name: str = "train", cpus: int = 4, memory: str = "16Gi"
) -> str:
    """The manifest of a Job whose pods train together, as YAML.

    A pod knows its place by `TF_CONFIG`. A worker that is lost is replaced; the others end by themselves, with the exit code of
    `WorkerLost`, and are replaced, too.

    Args:
        command: what each pod runs. It should save below `MOUNT`, and go on from its last save.
        image: has the command in it.
        claim: the name of a PersistentVolumeClaim that many machines can write to.
        name: of the Job and its Service.
        cpus, memory: of each worker.
    Raises:
        CtrlabError: a number or a name that Kubernetes would refuse, or more workers than a variable can name.

    >>> print(kubernetes_job(["ctrlab", "train", "dlrm"], 2, image="lab:1", claim="runs").splitlines()[0])
    # The workers of one training: pods of an indexed Job, train-0 to train-1. Needs Kubernetes 1.33.
    """
    _require(workers, image, claim, name, cpus, memory)
    addresses = [f"{name}-{i}.{name}:{PORT}" for i in range(workers)]
    config = config_of(addresses, INDEX)[CONFIG].replace(json.dumps(INDEX), INDEX)  # there will be a number
    if len(f"{CONFIG}={config}") > MOST_BYTES:
        raise CtrlabError(
            f"{CONFIG} names all workers, and a variable has at most {MOST_BYTES:,} bytes; received {workers:,} workers: ask for "
            "fewer, or for a shorter --name."
        )
    values = {"name": name, "workers": workers, "last": workers - 1, "port": PORT, "mount": MOUNT, "cpus": cpus, "memory": memory}
    values |= {"retries": RETRIES, "lost": WorkerLost.exit_code, "image": _quoted(image), "claim": _quoted(claim)}
    values["command"] = _quoted([word.replace("$", "$$") for word in command])  # the kubelet looks for variables
    values["config"] = config
    return Template(Path(__file__).with_suffix(".yaml").read_text()).substitute(values)


def _quoted(words: str | Sequence[str]) -> str:
    """As YAML. JSON would write what is beyond 16 bits as two halves, which YAML refuses.

    Raises:
        CtrlabError: bytes that are no text.
    """
    text = json.dumps(words, ensure_ascii=False)
    if halves := re.search("[\ud800-\udfff]", text):  # by which Python passes such bytes on
        raise CtrlabError(f"A manifest is text in UTF-8; received {halves.string!a}.")
    return re.sub("[^ -~]", lambda found: f"\\U{ord(found[0]):08x}", text)


def _require(workers: int, image: str, claim: str, name: str, cpus: int, memory: str) -> None:
    if not 1 <= workers <= MOST_WORKERS or cpus < 1:
        raise CtrlabError(
            f"A Job has at least one worker and at most {MOST_WORKERS:,}, of one CPU or more; "
            f"received {workers} workers of {cpus} CPUs."
        )
    last = f"{name}-{workers - 1}"
    if not re.fullmatch("[a-z]([a-z0-9-]*[a-z0-9])?", name) or len(last) > MOST_LETTERS:
        raise CtrlabError(
            f"A Job's name has small letters, digits and hyphens, and begins with a letter; the names of its pods have at most "
            f"{MOST_LETTERS} letters. Received {name!r}, whose last pod is {last!r}."
        )
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)", memory)
    if not found or float(found[1]) * UNITS.get(found[2], 0) < LEAST_MEMORY:
        raise CtrlabError(
            f"Memory is a number and one of {', '.join(filter(None, UNITS))}, such as 16Gi or 500M, and at least "
            f"{LEAST_MEMORY >> 20}Mi; received {memory!r}."
        )
    if not re.fullmatch(r"\S+", image):
        raise CtrlabError(f"An image is a name such as registry/lab:1; received {image!r}.")
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", claim):
        raise CtrlabError(f"The name of a claim has small letters, digits, hyphens and dots; received {claim!r}.")
