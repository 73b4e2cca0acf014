"""The plan of a fleet: its arms, their instances, and the command of each."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.fleet.instances.instance import Instance
from ctrlab.fleet.instances.split import Split
from ctrlab.fleet.instances.supervisor import Patience
from ctrlab.server.application import require_token
from ctrlab.server.nodes import cpus_of, nodes, shared_out

TOKEN = "CTRLAB_TOKEN"
OWN = ("--host", "--port", "--grpc-port", "--token", "--no-token")
"""Options of `ctrlab serve` that the fleet sets itself, so that a plan must not contain them."""
ALL = "all"
"""The name of the arm, if a fleet has only one."""


@dataclass(frozen=True)
class Plan:
    """The plan of a fleet.

    Attributes:
        arms: {name: the folder of models that its instances serve}.
        percent: {name: percent of the users}, for more than one arm.
        experiment: the A/B test's name.
        instances: number of instances per arm.
        token: the token that clients send, and that instances take; "": none.
        options: options of each `ctrlab serve`.
        cpus: the CPUs of each instance, such as "0-3;4-7"; "auto": CPUs are divided among them; "": each may use all.
        seconds: time within which a request is answered, including its second try.
    Raises:
        CtrlabError: arms and percents make no sense, or a folder or CPU does not exist.
    """

    arms: Mapping[str, Path]
    percent: Mapping[str, float] = field(default_factory=dict)
    experiment: str = ""
    instances: int = 2
    token: str = ""
    options: Sequence[str] = ()
    cpus: str = ""
    seconds: float = 30.0
    patience: Patience = Patience()  # noqa: RUF009 (frozen)

    def __post_init__(self):
        require_token(self.token)
        if not self.experiment.isprintable():
            raise CtrlabError(f"An A/B test has a name that can be printed; received {self.experiment!r}.")
        if odd := [word for word in self.options if word.partition("=")[0] in OWN]:
            raise CtrlabError(f"A fleet gives its instances their addresses and the token; received {odd[0]}: leave it out.")
        for name, folder in self.arms.items():
            if not Path(folder).is_dir():
                raise CtrlabError(f"An arm has a folder of models, as `ctrlab export` writes them; {folder} of {name} is none.")
        if len(self.arms) > 1:
            Split(self.experiment, self.percent)
        elif self.percent and list(self.percent.values()) != [100]:
            raise CtrlabError(f"The only arm has all users; received {next(iter(self.percent.values())):g} percent: name 100.")
        elif self.experiment:
            raise CtrlabError(f"An A/B test has several arms; received the experiment {self.experiment} and one arm.")
        self.made()

    def split(self) -> Split | None:
        """The split of users among the arms, if there are several."""
        return Split(self.experiment, self.percent) if len(self.arms) > 1 else None

    def made(self) -> list[Instance]:
        """Makes the plan's instances; none has a process yet."""
        names = [(arm, f"{arm}-{number}") for number in range(1, self.instances + 1) for arm in self.arms]
        if not names:
            raise CtrlabError(f"A fleet has at least one instance of each arm; received {self.instances}.")
        sets = cpu_sets(self.cpus, len(names))
        return [Instance(name, arm, cpus) for (arm, name), cpus in zip(names, sets)]

    def command(self, instance: Instance) -> list[str]:
        """The command of an instance's process: `ctrlab serve` on its own ports."""
        ports = ["--port", "0", "--grpc-port", "0"]
        secret = [] if self.token else ["--no-token"]
        return [sys.executable, "-m", "ctrlab", "serve", str(self.arms[instance.arm]), *ports, *secret, *self.options]

    def environment(self) -> dict[str, str]:
        """The environment variables of each process. They make its lines long, so that its message about a wrong option is one
        line.
        """
        return os.environ | {TOKEN: self.token, "TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "1000"}


def cpu_sets(text: str, count: int) -> list[frozenset[int]]:
    """The set of CPUs of each instance; an empty set: it may use all.

    Raises:
        CtrlabError: the number of sets is wrong, or this process may not use one of the CPUs.
    """
    free = os.sched_getaffinity(0)
    if not text:
        return [frozenset()] * count
    if text == "auto":
        if count > len(free):
            raise CtrlabError(f"--cpus auto gives each instance a CPU of its own; received {count} for {len(free)} CPUs.")
        return [frozenset(each) for each in shared_out(count, nodes())]
    sets = [cpus_of(part) for part in text.split(";")]
    if None in sets or len(sets) != count:
        raise CtrlabError(f"--cpus has a set for each of the {count} instances, such as 0-3;4-7; received {text!r}.")
    if odd := sorted(set().union(*sets) - free):
        raise CtrlabError(f"An instance's CPUs are this process's; received {text!r}, and CPU {odd[0]} is not.")
    return [frozenset(each) for each in sets]


def arms_of(texts: Iterable[str]) -> tuple[dict[str, Path], dict[str, float]]:
    """{arm: folder} and {arm: percent} of one folder, or of arms such as new=models:10.

    Raises:
        CtrlabError: the text is malformed, or a name occurs twice.
    """
    texts = list(texts)
    if len(texts) == 1 and not re.fullmatch(r"[^=/]+=.*:[0-9.]+", texts[0]):
        return {ALL: Path(texts[0])}, {}
    folders, percent = {}, {}
    for text in texts:
        found = re.fullmatch(r"([A-Za-z0-9_.-]{1,50})=(.+):([0-9]+(?:\.[0-9]+)?)", text)
        if not found or found[1] in folders:
            raise CtrlabError(f"An arm has a name of its own, a folder and a percent, such as new=models:10; received {text!r}.")
        folders[found[1]], percent[found[1]] = Path(found[2]), float(found[3])
    return folders, percent
