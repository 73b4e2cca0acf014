"""The served versions of one model: the newest, those with a label, and the `keep` newest.

The newest version has a processor that follows the folder. Every other one has a processor for that version alone, which takes
its updates, too. A process reads a version's weights once, so a label on the newest costs a session, not a second copy.

The folder is what is to be served: a version that was deleted is served on only if nothing can take its place, or while it has a
label. The log says this, and so do the answers about a model's versions and the metrics.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ctrlab.errors import CtrlabError
from ctrlab.paths import identity
from ctrlab.server.logs import Once
from ctrlab.serving.label_file import MOST, read_labels
from ctrlab.serving.processor import Code, Processor, Refused
from ctrlab.serving.versions import ignored, versions

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
"""Seconds between two looks at labels and kept versions."""
LONGEST_WAIT = 60.0
"""The most seconds between two attempts to serve after an error of the moment."""


@dataclass
class _Pinned:
    version: int
    processor: Processor
    users: int = 0
    retired: bool = False
    loads: int = 1


@dataclass(frozen=True)
class Attempt:
    """An attempt to serve, which failed. The next one comes when the files have changed; after an error of the moment, such as a
    full disk, also after a while.

    Attributes:
        problem: why it failed.
        files: the files before it.
        wait: seconds to the next one; None: only when the files have changed.
        since: its time, by `time.monotonic`.
    """

    problem: Refused
    files: frozenset
    wait: float | None
    since: float

    @classmethod
    def after(cls, before: Attempt | None, problem: Refused, files: frozenset) -> Attempt:
        """A further attempt; after each, the wait is twice as long."""
        last = before.wait if before and before.wait else LOOK_SECONDS / 2
        wait = min(2 * last, LONGEST_WAIT) if problem.code == Code.UNAVAILABLE else None
        return cls(problem, files, wait, time.monotonic())

    def is_over(self, files: frozenset) -> bool:
        """Whether it is time for the next attempt, given the files as they are now."""
        waited = self.wait is not None and time.monotonic() - self.since >= self.wait
        return waited or files != self.files


class ServedModel:
    """The served versions of a model. Thread-safe, except that only one thread may call `look`.

    Args:
        folder: the model's folder.
        keep: the number of newest versions that clients may ask for by number.
        configuration: the configuration of each processor.
    Raises:
        Refused: no version can be served. CtrlabError: `keep` is too small.

    Attributes:
        newest: the processor of the newest version.
        labels: {label: the version that is served for it}.
        numbers: the versions that were served at the last look.
    """

    def __init__(self, folder: Path, name: str, *, keep: int = 1, **configuration):
        if keep < 1:
            raise CtrlabError(f"A server keeps at least the newest version of a model; received keep={keep}.")
        self.folder, self.name, self._keep, self._configuration = folder, name, keep, configuration
        self.newest = Processor(folder, name=name, **configuration)
        self.labels: dict[str, int] = {}
        self.numbers: frozenset[int] = frozenset()
        self._pinned: dict[int, _Pinned] = {}
        self._refused: dict[int, Attempt] = {}
        self._ignored: dict[str, str] = {}
        self._unreadable, self._once = Once(), Once()
        self._told = (0, 0)  # the newest version that was logged, and the number of loads then
        self._lock = threading.Lock()
        self.look()

    def look(self) -> None:
        """Adopts the current labels and folders. Versions that can still be served stay served in any case."""
        try:
            given, there, self._ignored = read_labels(self.folder), versions(self.folder), ignored(self.folder)
            there = [version for version in there if str(version) not in self._ignored]
        except CtrlabError as problem:
            self._unreadable.tell([f"{self.folder}: the versions of {self.name} stay as they are. {problem}"])
            return
        self._unreadable.tell([])
        newest = self._tell_newest()
        kept = [version for version in there if version <= newest][-self._keep :] if self._keep > 1 else []
        self._refused = {version: why for version, why in self._refused.items() if version in given.values() or version in kept}
        wanted = {version for version in kept if self._pin(version)}
        labels = {}
        for label, version in given.items():
            found = version if self._pin(version) else self.labels.get(label)
            if found is not None:
                labels[label] = found
                wanted.add(found)
        with self._lock:
            self.labels = labels
            retired = [self._pinned.pop(version) for version in set(self._pinned) - wanted]
            for pinned in retired:
                pinned.retired = True
            unused = [pinned.processor for pinned in retired if not pinned.users]
        for processor in unused:
            processor.close()
        for version in sorted(pinned.version for pinned in retired):
            if version != newest:
                said = "it has no label, and is not one of the newest" if version in there else "it was deleted, and has no label"
                log.info("Version %d of %s is no longer served: %s", version, self.name, said, extra=self._about(version))
        self._tell_others(newest)

    @contextlib.contextmanager
    def use(self, version: int | None = None, label: str = "") -> Iterator[Processor]:
        """The processor that answers a request for this version, or this label, or neither. The processor stays open while it is
        used. If the version is not served, it is the newest one's processor: see `require`.

        Raises:
            Refused: no version has the label.
        """
        with self._lock:
            if label:
                if label not in self.labels:
                    has = ", ".join(self.labels) or "none"
                    raise Refused(Code.NOT_FOUND, f"Model {self.name} has the labels {has}; received a request for {label}.")
                version = self.labels[label]
            pinned = self._pinned.get(version)
            if pinned:
                pinned.users += 1
        if not pinned:
            yield self.newest
            return
        try:
            yield pinned.processor
        finally:
            with self._lock:
                pinned.users -= 1
                last = pinned.retired and not pinned.users
            if last:
                pinned.processor.close()

    def require(self, version: int | None, found: int) -> None:
        """Raises Refused if a client asked for another version than the one that was found."""
        if version is not None and version != found:
            raise Refused(Code.NOT_FOUND, f"Version {found} of {self.name} is served; received a request for {version}.")

    def info(self, version: int | None = None, label: str = "") -> dict:
        """The `info` of the processor that answers a request for this version, or this label, or neither.

        Raises:
            Refused: it is not served.
        """
        with self.use(version, label) as processor:
            info = processor.info()
        self.require(version, info["version"])
        return info

    def infos(self) -> dict[int, dict]:
        """{version: the `info` of its processor} for the served versions, the newest last."""
        with self._lock:
            processors = [(version, pinned.processor) for version, pinned in self._pinned.items()]
        found = {}
        for version, processor in processors:
            with contextlib.suppress(Refused):  # retired meanwhile
                found[version] = processor.info()
        info = self.newest.info()
        found.pop(info["version"], None)
        return dict(sorted(found.items())) | {info["version"]: info}

    def refused(self) -> dict[int, str]:
        """{version: why it is not served} for the versions that should be served. If the files of a version changed, and can't be
        loaded, that is said here, although what was loaded before serves on.
        """
        info = self.newest.info()
        found = {int(name): why for name, why in self._ignored.items() if name.isascii() and name.isdecimal()}
        found = {version: why for version, why in found.items() if info["version"] < version <= MOST}
        found |= {int(version): why for version, why in info["refused"].items()}
        return found | {version: str(refused.problem) for version, refused in self._refused.items()}

    def note(self, info: dict) -> str:
        """What is odd about a served version, given its `info`, in a sentence; or ""."""
        version = info["version"]
        if info["gone"]:
            said = f"Version {version} of {self.name} serves on, but it is no longer in {self.folder}"
            return f"{said}: a server that starts now can't serve it. Put it back, or export another."
        if info["stopped"]:
            return f"Version {version} of {self.name} takes no more updates: {info['stopped']}"
        return info["refused"].get(str(version), "")

    def close(self) -> None:
        """Closes all processors; call it when no request is inside."""
        for processor in [self.newest, *(pinned.processor for pinned in self._pinned.values())]:
            processor.close()

    def _tell_newest(self) -> int:
        """Logs another newest version; returns its number."""
        info = self.newest.info()
        version, loads = info["version"], info["loads"]
        if (version, loads) != self._told:
            before, self._told = self._told[0], (version, loads)
            about = {"extra": self._about(version)}
            if version > before:
                log.info("Version %d of %s is served", version, self.name, **about)
            elif version < before:
                log.warning("Version %d of %s was deleted: version %d is served", before, self.name, version, **about)
            else:
                self._tell_changed(version)
        return version

    def _tell_changed(self, version: int) -> None:
        said = "The files of version %d of %s changed: it is loaded anew, and served"
        log.warning(said, version, self.name, extra=self._about(version))

    def _about(self, version: int) -> dict:
        """The fields of a log record."""
        return {"model": self.name, "version": version}

    def _tell_others(self, newest: int) -> None:
        """Logs what is odd about the versions and about requests to them, and is not logged yet."""
        infos = self.infos()
        for version in infos.keys() & self._pinned.keys() - {newest}:
            pinned, loads = self._pinned[version], infos[version]["loads"]
            if loads != pinned.loads:
                self._tell_changed(version)
            pinned.loads = loads
        self.numbers = frozenset(infos)
        refused = {version: why for version, why in self.refused().items() if version not in infos}
        sentences = [f"Version {version} of {self.name} is not served: {why}" for version, why in refused.items()]
        said = {*refused.values()}
        sentences += [why for why in self._ignored.values() if why not in said]
        if left_out := sorted({name for info in infos.values() for name in info["ignored"]}):
            said = "Requests have columns that the model does not know, and that are left out"
            sentences.append(f"{said}: to {self.name}, {', '.join(left_out)}")
        self._once.tell([*sentences, *filter(None, map(self.note, infos.values()))])

    def _pin(self, version: int) -> bool:
        """Whether this version has a processor; makes one if possible."""
        if version in self._pinned:
            return True
        before, files = self._refused.get(version), files_in(self.folder / str(version))
        if before and not before.is_over(files):
            return False
        try:
            pinned = _Pinned(version, Processor(self.folder, name=self.name, version=version, **self._configuration))
        except Refused as refused:
            self._refused[version] = Attempt.after(before, refused, files)
            return False
        self._refused.pop(version, None)
        with self._lock:
            self._pinned[version] = pinned
        if version != self._told[0]:
            log.info("Version %d of %s is served beside the newest", version, self.name, extra=self._about(version))
        return True


def files_in(folder: Path) -> frozenset:
    """The files of a folder, as they are now. What can't be read, or goes meanwhile, is left out."""
    found = set()
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            with contextlib.suppress(OSError):
                found.add((path, identity(path.stat())))
    return frozenset(found)
