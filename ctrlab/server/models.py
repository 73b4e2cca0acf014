"""The models of a server, and the requests that wait for them."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from ctrlab.errors import CtrlabError
from ctrlab.server.application import LONGEST_ID, WARM_UP, shown
from ctrlab.server.cores import allocated, group, pool_of
from ctrlab.server.ids import id_in, require_id
from ctrlab.server.logs import Once, Refusals
from ctrlab.server.metrics import Metrics
from ctrlab.server.request_log import RequestLog
from ctrlab.server.served import LOOK_SECONDS, Attempt, ServedModel, files_in
from ctrlab.serving.processor import ALL, Code, Format, Refused, Reply
from ctrlab.serving.versions import ignored, versions

log = logging.getLogger(__name__)
MEMBERS = 16
"""Threads per core with batching, because most threads then wait for their batch."""
LONGEST_LABEL = 101
"""Characters of an unknown label that a message shows; no valid label has more than 100."""


MOST_REASONS = 3
"""Folders that a message explains."""


class Overloaded(CtrlabError):
    """The request came while too many others were waiting."""


class Late(CtrlabError):
    """The client of the request no longer waits, so the request was not started."""


def _absolute(folder: Path) -> Path:
    """The folder's path from the root. Links stay in it, because whoever serves by a link may switch it."""
    return Path(os.path.abspath(folder))


def folders_in(folder: Path) -> dict[str, Path]:
    """{name: folder} of a model, or of the models in a folder. A link is followed whenever it is read, and names its model.

    Raises:
        CtrlabError: there is none, or no address can have the name of the only one.
    """
    folder = _absolute(folder)
    if versions(folder):
        if odd := _odd_name(folder):
            raise CtrlabError(odd)
        return {folder.name: folder}
    places = [place for place in sorted(folder.glob("*")) if place.is_dir() and not _odd_name(place)]
    found = {place.name: place for place in places if versions(place)}
    if not found:
        said = f"A server has a model's folder, or a folder of such; {folder} is neither: write one by ctrlab export."
        odd = [why for name, why in ignored(folder).items() if name.isascii() and name.isdecimal()]
        raise CtrlabError(" ".join([said, *(odd or _beside(folder, {}))[:MOST_REASONS]]))
    return found


def _odd_name(place: Path) -> str:
    """Why a model's folder can't have this name, in a sentence; or ""."""
    if ":" not in place.name and place.name.isprintable():
        return ""
    return f"A model's name stands in addresses, so it is printable and has no colon; {str(place)!r} is not served: rename it."


def _beside(folder: Path, models: dict[str, Path]) -> list[str]:
    """Why each other folder beside the models is not served, in a sentence."""
    found = []
    for place in sorted(folder.glob("[!.]*")):
        if place.name in models or not place.is_dir():
            continue
        if versions(place):
            since = f"{place} has come since this server was started, and is not served: start the server again."
            found.append(_odd_name(place) or since)
        else:
            found.append(" ".join([f"{place} has no version, and is not served.", *[*ignored(place).values()][:MOST_REASONS]]))
    return found


def _files_of_versions(folder: Path) -> frozenset:
    """The files of a model's versions. Whatever comes and goes beside them, such as updates, is no other version."""
    try:
        return frozenset().union(*(files_in(folder / str(version)) for version in versions(folder)))
    except CtrlabError:  # the folder can't be read now
        return frozenset()


class _Line:
    """Threads that answer requests, and the requests that wait for them."""

    def __init__(self, threads: int, most_waiting: int):
        self.pool = ThreadPoolExecutor(threads, "ctrlab-serve")
        self.inside = 0
        self._most = threads + most_waiting
        self._lock = threading.Lock()

    def enter(self) -> None:
        """Raises Overloaded if too many are inside."""
        with self._lock:
            if self.inside >= self._most:
                raise Overloaded(f"{self._most} requests are worked on or wait, as many as this server takes: try again later.")
            self.inside += 1

    def leave(self, _=None) -> None:
        with self._lock:
            self.inside -= 1


class Models:
    """Answers requests in threads of its own. Thread-safe.

    Args:
        folder: the folder of a model, or of several models.
        threads: the number of requests in work at once; None: one per core, or `MEMBERS` per core with the configuration
            `batch_rows`.
        most_waiting: the number of further requests that may wait; beyond that a request is refused at once. With the policy
            "by_model" of the configuration `group` both numbers hold per model: requests for one model never wait for those of
            another.
        dedicated: models that have CPUs of their own, such as "ctr=0-3"; the others share the rest. Then each CPU is a member of
            a group, with one thread. It replaces `threads` and the configuration `group`.
        log: the log of answered requests; it is closed with the models.
        keep: the number of newest versions per model that clients may ask for by number; those with a label are served in
            addition.
        configuration: the configuration of each processor.
    Raises:
        CtrlabError: there is no model, or a number is too small. Refused: no model has a version that can be served. If some
            have, these are served; the log names the others, and they are served as soon as they can be.
    """

    def __init__(
        self,
        folder: Path,
        *,
        threads: int | None = None,
        most_waiting: int = 100,
        dedicated: Sequence[str] = (),
        keep: int = 1,
        log: RequestLog | None = None,
        **configuration,
    ):
        threads = threads or (MEMBERS if configuration.get("batch_rows") else 1) * len(os.sched_getaffinity(0))
        if threads < 1 or most_waiting < 0:
            raise CtrlabError(
                f"A server has at least 1 thread and no fewer than 0 waiting; received {threads} and {most_waiting}."
            )
        folders = folders_in(folder)
        self._root = None if _absolute(folder) in folders.values() else _absolute(folder)
        self._folders, self._once = folders, Once()
        cores = allocated(dedicated, folders) if dedicated else {}
        self.served: dict[str, ServedModel] = {}
        self._unserved: dict[str, Attempt] = {}
        self._options = {
            name: configuration | (group(pool_of(name, cores), cores[pool_of(name, cores)]) if cores else {}) | {"keep": keep}
            for name in folders
        }
        try:
            for name in folders:
                self._open(name)
            if not self.served:
                raise self._unserved[name].problem
        except BaseException:
            self._close()
            raise
        self._log = log
        self._refusals = Refusals()
        self.metrics = Metrics(self.served, lambda: self.inside, log)
        apart = configuration.get("group", {}).get("policy") == "by_model"
        pools = {name: name if apart else pool_of(name, cores) for name in folders}
        lines = {pool: _Line(len(cores.get(pool, ())) or threads, most_waiting) for pool in pools.values()}
        self._lines = {name: lines[pool] for name, pool in pools.items()}
        self.came = 0.0
        """Time of the last request, by `time.monotonic`."""
        self._tell_beside()
        self._ends = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="ctrlab-models", daemon=True)
        self._watcher.start()

    def of(self, name: str) -> ServedModel:
        """The served model of this name. Raises Refused if there is none."""
        if name not in self.served:
            received = f"received a request for {shown(name)}"
            raise Refused(Code.NOT_FOUND, f"This server has the models {', '.join(list(self.served))}; {received}.")
        return self.served[name]

    def submit(
        self,
        name: str,
        request: bytes,
        format: Format,
        header: int = ALL,
        version: int | None = None,
        label: str = "",
        deadline: float | None = None,
        id: str = "",
    ) -> Future[Reply]:
        """Starts to answer a request.

        Args:
            version, label: the version or label that the client asked for; None and "": the newest version.
            deadline: the time, by `time.monotonic`, after which nobody waits for the answer.
            id: the request's id, if it came beside the message.
        Returns: A future of the reply, with the request's id; it may raise Refused or Late.
        Raises:
            Refused: there is no such model, or the id is none. Overloaded: too many wait.
        """
        came = self.came = time.monotonic()
        try:
            require_id(id)
            served, line = self.of(name), self._lines[name]
            line.enter()
        except (Refused, Overloaded) as problem:
            self.refuse(name, _why(problem), str(problem), id[:LONGEST_ID])
            raise

        def answer() -> Reply:
            begun = time.monotonic()
            if deadline is not None and begun > deadline:
                raise Late("The request's deadline has passed while it waited, so it was not begun.")
            with served.use(version, label) as processor:
                reply = processor.process(request, format, header)
                served.require(version, reply.version)
            reply = reply._replace(id=id or id_in(reply.data, format) or secrets.token_hex(16))
            require_id(reply.id)
            self.metrics.answered(name, begun - came, time.monotonic() - came, reply)
            if self._log and reply.id != WARM_UP:
                self._log.add(served, reply.id, request, format, header, reply)
            return reply

        try:
            found = line.pool.submit(answer)
        except BaseException:
            line.leave()
            raise
        found.add_done_callback(line.leave)
        found.add_done_callback(lambda done: self._count(name, done, id))
        return found

    @property
    def inside(self) -> int:
        """The number of requests that are in work or wait."""
        return sum(line.inside for line in {*self._lines.values()})

    def close(self) -> None:
        """Closes the models, after all requests inside are answered."""
        self._ends.set()
        self._watcher.join()
        for line in {*self._lines.values()}:
            line.pool.shutdown()
        self._refusals.tell()
        self.end_log()
        self._close()

    def end_log(self) -> None:
        """Writes the log of answered requests. What is still in work is answered to nobody, and is not in it."""
        if self._log:
            self._log.close()

    def refuse(self, model: str, why: str, sentence: str, id: str = "") -> None:
        """Counts a request without an answer; it is logged within `LOOK_SECONDS`.

        Args:
            model: the model that was asked for; one that this server does not have is counted as "".
            why: the reason, in a word.
        """
        known = model if model in self.served else ""
        self.metrics.refuse(known, why)
        self._refusals.add(known, why, sentence, id)

    def _count(self, name: str, done: Future, id: str) -> None:
        if not done.cancelled() and (problem := done.exception()):
            self.refuse(name, _why(problem), str(problem), id)

    def _close(self) -> None:
        for served in self.served.values():
            served.close()

    def _watch(self) -> None:
        while not self._ends.wait(LOOK_SECONDS):
            for step in (self._look, self.metrics.forget, self._tell_beside, self._refusals.tell):
                try:
                    step()
                except Exception:  # such as no free descriptor: the thread goes on, and looks again
                    log.exception("A look at the models failed")

    def _look(self) -> None:
        for served in list(self.served.values()):
            served.look()
        for name, attempt in list(self._unserved.items()):
            if attempt.is_over(_files_of_versions(self._folders[name])):
                self._open(name)

    def _open(self, name: str) -> None:
        """Serves a model, or logs why it can't be served and when it is tried again."""
        place, before = self._folders[name], self._unserved.get(name)
        files = _files_of_versions(place)
        try:
            self.served[name] = ServedModel(place, name, **self._options[name])
        except Refused as problem:
            cure = "export it again, or take its folder away"
            told = Refused(problem.code, f"Model {name} is not served: {str(problem).rstrip('.')}; {cure}.")
            if before is None or str(before.problem) != str(told):
                log.warning("%s", told)
            self._unserved[name] = Attempt.after(before, told, files)
        else:
            self._unserved.pop(name, None)

    def _tell_beside(self) -> None:
        if self._root:
            with contextlib.suppress(OSError, CtrlabError):  # a look later it may be readable
                self._once.tell(_beside(self._root, self._folders))


class State(NamedTuple):
    """Whether a version is served; and why it is not, or what is odd about it, or ""."""

    served: bool
    why: str


def states(served: ServedModel, version: int | None, label: str) -> dict[int, State]:
    """The state of each version, the newest first; for the requested version or label, or else for all versions.

    Raises:
        Refused: it is not served.
    """
    one = version is not None or label
    infos = [served.info(version, label)] if one else reversed(served.infos().values())
    found = {info["version"]: State(True, served.note(info)) for info in infos}
    refused = {} if one else served.refused()
    return found | {number: State(False, why) for number, why in refused.items() if number not in found}


def _why(problem: BaseException) -> str:
    return problem.code.name.lower() if isinstance(problem, Refused) else type(problem).__name__.lower()
