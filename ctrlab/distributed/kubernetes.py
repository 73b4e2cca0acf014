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
        CtrlabError: a number or a name that Kubernetes would refuse.

    >>> print(kubernetes_job(["ctrlab", "train", "dlrm"], 2, image="lab:1", claim="runs").splitlines()[0])
    # The workers of one training: pods of an indexed Job, train-0 to train-1. Needs Kubernetes 1.33.
    """
    if workers < 1 or cpus < 1:
        raise CtrlabError(f"A Job has at least one worker, of one CPU or more; received {workers} workers of {cpus} CPUs.")
    last = f"{name}-{workers - 1}"
    if not re.fullmatch("[a-z]([a-z0-9-]*[a-z0-9])?", name) or len(last) > MOST_LETTERS:
        raise CtrlabError(
            f"A Job's name has small letters, digits and hyphens, and begins with a letter; the names of its pods have at most "
            f"{MOST_LETTERS} letters. Received {name!r}, whose last pod is {last!r}."
        )
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?([KMGT]i?)?", memory):
        raise CtrlabError(f"Memory is given as 16Gi or 500M; received {memory!r}.")
    addresses = [f"{name}-{i}.{name}:{PORT}" for i in range(workers)]
    values = {"name": name, "workers": workers, "last": workers - 1, "port": PORT, "mount": MOUNT, "cpus": cpus, "memory": memory}
    values |= {"retries": RETRIES, "lost": WorkerLost.exit_code, "image": json.dumps(image), "claim": json.dumps(claim)}
    values["command"] = json.dumps([word.replace("$", "$$") for word in command])  # the kubelet looks for variables
    values["config"] = config_of(addresses, INDEX)[CONFIG].replace(json.dumps(INDEX), INDEX)  # there will be a number
    return Template(Path(__file__).with_suffix(".yaml").read_text()).substitute(values)
