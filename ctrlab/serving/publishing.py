"""Publishes a model while it trains: full versions, and between them updates with the changes.

    models/ctr/7/                a full version, as `ctrlab export` writes it
    models/ctr/7.updates/1       what changed since, up to a later step; 2: what changed since 1
    models/ctr/7.updates/2

A server that serves version 7 applies the updates that appear beside it. Each is one file: the changed rows, the removed keys,
and the dense tensors, without the slots that only training needs. The trainer copies these between two steps, and a thread writes
them. A failed update is not confirmed to any table, so the next one contains its changes, too. Its number is used again only if
its file never appeared, because a server may have applied it. If somebody deleted or replaced what an update would follow, a full
version comes instead. Several workers: `ctrlab.serving.shared_publishing`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path

import keras
import numpy as np

from ctrlab.embedding.formats.tensor_file import make_folder, sync_folder
from ctrlab.embedding.options import require_whole
from ctrlab.embedding.table.cut import Cut
from ctrlab.errors import CtrlabError
from ctrlab.models.base import CTRModel
from ctrlab.serving import warm_up
from ctrlab.serving.bundled import Bundled, weights_in
from ctrlab.serving.export import Trained, complete
from ctrlab.serving.inputs import Features, Kind, inputs_of, of_one_user, to_tensors
from ctrlab.serving.manifest import NAME, File
from ctrlab.serving.own import subject
from ctrlab.serving.publishing_folder import FullVersion, PublisherLock, delete_old, explained, updates_of
from ctrlab.serving.versions import new_version
from ctrlab.serving.weights import Moment, write_update, write_weights
from ctrlab.training.changes import Changed, track
from ctrlab.training.optimizers import TouchedRows
from ctrlab.whole_batch import WHOLE

THREAD = "ctrlab-publish"
log = logging.getLogger(__name__)


@dataclass
class Published:
    """Counts of everything that was published so far. Rows and bytes are those of updates."""

    versions: int = 0
    updates: int = 0
    rows: int = 0
    bytes: int = 0
    version_bytes: int = 0
    """The size of the last full version's weights, in bytes."""


@dataclass(frozen=True)
class Content:
    """The content of the model between two steps: everything, or the changes.

    Attributes:
        answers: the answers to the warm-up requests, if the version is not tried on them.
    """

    full: bool
    moment: Moment
    weights: Mapping[str, np.ndarray]
    fixed: Mapping[str, Changed]
    growing: Sequence[Cut]
    answers: Sequence[np.ndarray] | None = None

    @property
    def lost(self) -> bool:
        """Whether this should hold changes that a table no longer knows."""
        return not self.full and any(cut.since is None for cut in [*self.fixed.values(), *self.growing])

    @property
    def rows(self) -> int:
        return sum(len(changed.ids) for changed in self.fixed.values()) + sum(cut.rows for cut in self.growing)


class Publisher:
    """Publishes a model at fixed intervals. Use it as a hook of `train` and as a context manager; make it before the first step.

    Training never waits for a disk: while one publication is written, the next one is postponed. A failed publication is logged,
    and tried again with the next one. `close` publishes the remaining changes, and raises the error of the last publication.

    Args:
        folder: the model's folder; its versions become folders in it.
        model: as in `export_model`. In an own model, only embedding variables have rows that can be sent separately; each update
            contains all other weights completely, those of `keras.layers.Embedding` included.
        every: seconds between two publications.
        full_every: one of this many publications is a full version; so is the first, one whose changes the tables no longer
            know, and one before which the last version or an update of it was deleted or replaced.
        keep: the number of full versions of publishers that stay, with their updates. Older ones without a label are deleted;
            exports never are. A failed deletion is tried again after the next publication.
        inputs, rows, memory_rows, share_users, optimizations: as in `export_model`.
        run: settings of the training, for the manifest.
    Raises:
        CtrlabError: a step was taken before; a number is invalid; a row lacks a column; users can't be shared; another publisher
            uses the folder.

    >>> with Publisher("models/ctr", model, optimizer, every=60) as publisher:     # doctest: +SKIP
    ...     train(model, optimizer, batches, on_step=publisher)
    """

    shard, leads = WHOLE, True
    """The shard of each table that this process holds, and whether this process writes versions."""

    def __init__(
        self,
        folder: str | os.PathLike,
        model: CTRModel | keras.Model,
        optimizer: TouchedRows,
        *,
        every: float = 60.0,
        full_every: int = 60,
        keep: int = 3,
        inputs: Kind = "text",
        rows: Sequence[Features] = (),
        memory_rows: int | None = None,
        share_users: bool = False,
        optimizations: str | Iterable[str] = "none",
        run: Mapping[str, str] | None = None,
    ):
        _require_numbers(every, full_every, keep)
        if memory_rows is not None:
            require_whole("`memory_rows`", memory_rows, 1, 31)
        self.folder, self.every, self.full_every, self.keep = Path(folder), float(every), int(full_every), int(keep)
        self.model, self.optimizer, self.run = subject(model), optimizer, dict(run or {})
        self.published = Published()
        self._columns = inputs_of(self.model, inputs, share_users=share_users)
        examples = [of_one_user(features, self._columns) for features in rows[: warm_up.MOST]]
        self._requests = [to_tensors(features, self._columns, self.model) for features in examples]
        self._bundled = Bundled(self.model, self._columns, memory_rows, optimizations)
        self._held = contextlib.ExitStack()
        if self.leads:
            self._lock = PublisherLock(self.folder)
            self._held.callback(self._lock.release)
        try:
            self._changes = track(model, optimizer) if self._bundled.tables else None
        except BaseException:
            self._held.close()
            raise
        self._consumer = f"publisher {secrets.token_hex(8)}"
        self._thread = ThreadPoolExecutor(1, THREAD)
        self._writing: Future | None = None
        self._failed: CtrlabError | None = None
        self._last = False  # whether no publication is to come
        self._version: FullVersion | None = None  # the last one; None: the next publication is full
        self._highest = 0  # number of a version of this publisher
        self._update = 0
        self._read_step: int | None = None  # of the last content that was taken
        self._due = time.monotonic() + self.every
        self._not_tidied = ""  # why

    def __call__(self, number: int, loss: float) -> None:
        """Call it after a step. It publishes if that is due, and if the last publication is written."""
        if time.monotonic() >= self._due and (self._writing is None or self._writing.done()):
            self.publish()

    def on_wait(self) -> None:
        """Call it while training waits for rows: it publishes the steps that were taken, if that is due."""
        if self._read_step != int(self.optimizer.iterations):
            self(0, 0.0)

    def publish(self) -> None:
        """Starts to publish the current model. Call it between two steps. It waits until the previous publication is written."""
        self.wait()
        self._due = time.monotonic() + self.every
        try:
            with explained(self.folder):
                content = self._read()
        except CtrlabError as problem:
            self._fail(problem)
            return
        self._read_step = content.moment.step
        self._writing = self._thread.submit(self._write, content)

    def wait(self) -> None:
        """Waits until the last publication is written, or has failed."""
        writing, self._writing = self._writing, None
        if writing:
            writing.result()

    def close(self) -> None:
        """Publishes the last steps, waits until they are written, and stops logging changes.

        Raises:
            CtrlabError: the last publication failed.
        """
        try:
            self.wait()
            if self._failed or self._read_step != int(self.optimizer.iterations):
                self._last = True
                self.publish()
                self.wait()
        finally:
            self._end()
        if self._failed:
            raise self._failed

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind, exception, trace) -> None:
        if exception is None:
            self.close()
            return
        self._end()

    def _end(self) -> None:
        self._thread.shutdown()
        self._forget()
        self._held.close()

    def _read(self) -> Content:
        content = self._content(self._full_is_due())
        if content.lost:
            del content  # free these copies before the next ones are made
            content = self._content(full=True)
        return content

    def _full_is_due(self) -> bool:
        if self._version and (lost := self._version.lacks(self.folder, self._update)):
            log.warning("%s A full version follows.", lost)
            self._version = None
        return self._version is None or self._update + 1 >= self.full_every

    def _content(self, full: bool) -> Content:
        moment = Moment.now(int(self.optimizer.iterations), 0 if full else self._update + 1)
        return Content(full, moment, self._bundled.trace.weight_values() if self.leads else {}, *self._cut(anew=full))

    def _cut(self, anew: bool) -> tuple[dict[str, Changed], list[Cut]]:
        if anew:
            self._forget()
        fixed = self._changes.cut(self._consumer) if self._changes else {}
        return fixed, [table.cut(self._consumer) for table in self._bundled.growing]

    def _forget(self) -> None:
        if self._changes:
            self._changes.forget(self._consumer)
        for table in self._bundled.growing:
            table.forget(self._consumer)

    def _write(self, content: Content) -> None:
        try:
            size = self._put(content)
            with explained(self.folder):
                self._confirm(content)
        except CtrlabError as problem:
            self._fail(problem)
            return
        self._failed = None
        self._count(content.full, size, content.rows)
        self._tidy()

    def _put(self, content: Content) -> int:
        """Writes the version or the update; returns the bytes of its weights."""
        try:
            with explained(self.folder):
                self._lock.hold()
                return self._write_version(content) if content.full else self._write_update(content)
        except CtrlabError:
            if content.full:
                self._version = None
            raise

    def _fail(self, problem: CtrlabError) -> None:
        self._failed = problem
        if not self._last:  # else `close` raises it
            log.warning("%s The next publication is to have these changes, too.", problem)

    def _write_version(self, content: Content) -> int:
        bundle, name = secrets.token_hex(16), self.folder.resolve().name
        graph = self._bundled.saved_model(bundle)
        trained = Trained(self.run, content.moment.step)
        with new_version(self.folder, above=self._highest) as (number, folder):
            size = self._write_weights(weights_in(folder), bundle, content)
            known, served = content.answers, self._bundled.rungs
            complete(folder, name, self.model, self._columns, self._requests, graph, trained, served, known)
            make_folder(updates_of(self.folder, number))
            version = FullVersion(number, bundle, File.of(folder / NAME))
            self._highest = number
        self._version, self._update = version, 0
        return size

    def _write_update(self, content: Content) -> int:
        folder = updates_of(self.folder, self._version.number)
        part = folder / f".{content.moment.update}-{secrets.token_hex(8)}"
        try:
            size = self._write_weights(part, self._version.bundle, content)
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.rename(folder / str(content.moment.update))
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        self._update = content.moment.update  # whatever the disk refuses now, a server may have applied it
        sync_folder(folder)
        return size

    def _write_weights(self, path: Path, bundle: str, content: Content) -> int:
        fixed = [content.fixed[table.path] for table in self._bundled.tables]
        growing = [(cut, bool(limit)) for cut, limit in zip(content.growing, self._bundled.limits)]
        dense = self._bundled.trace.dense_values(content.weights) if self.leads else []
        others = (growing, dense, self._bundled.formats, self.shard)
        if content.full:
            return write_weights(path, bundle, content.moment, [table.rows for table in fixed], *others)
        return write_update(path, bundle, content.moment, fixed, *others)

    def _confirm(self, content: Content) -> None:
        if self._changes:
            self._changes.confirm(self._consumer, content.fixed)
        for table, cut in zip(self._bundled.growing, content.growing):
            table.confirm(self._consumer, cut.version)

    def _count(self, full: bool, size: int, rows: int) -> None:
        found = self.published
        if full:
            found.versions, found.version_bytes = found.versions + 1, size
            return
        found.updates += 1
        found.bytes += size
        found.rows += rows

    def _tidy(self) -> None:
        """Deletes old versions. A failure here does not make the publication fail."""
        try:
            delete_old(self.folder, self.keep)
            self._not_tidied = ""
        except (CtrlabError, OSError, MemoryError) as problem:
            why = str(problem) or type(problem).__name__
            if why != self._not_tidied:
                log.warning("Old versions in %s stay until the next publication: %s", self.folder, why)
            self._not_tidied = why


def _require_numbers(every: float, full_every: int, keep: int) -> None:
    whole = all(isinstance(number, Integral) and number >= 1 for number in (full_every, keep))
    if not whole or not isinstance(every, Real) or not every > 0:
        rule = "A publisher's `every` is seconds above 0, `full_every` and `keep` are whole numbers of at least 1"
        raise CtrlabError(f"{rule}; received {every!r}, {full_every!r} and {keep!r}.")
