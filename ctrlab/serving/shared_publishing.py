"""Publishes a model that several workers train, each of which has a shard of its tables. Servers see what one publisher writes.

    all                  cut their shards after the same step
    each, in its thread  writes the weights file of its shard:   models/ctr/.parts-<random>/<publication>-<worker>
    the first            merges them into the version or the update, and renames it, as a process alone does
    all                  confirm their cuts if that succeeded, else none: then the next publication has these changes, too

The next stage is decided in *looks*: every few steps the workers exchange their progress. So all go to the next line after the
same step, and no thread waits for another worker: a worker that dies only ends the training. A look costs an exchange of some
bytes. The first worker decides the number of steps until the next look, by its clock and the pace of the steps.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import tensorflow as tf

from ctrlab.embedding.formats.tensor_file import make_folder
from ctrlab.errors import CtrlabError
from ctrlab.models.base import CTRModel
from ctrlab.serving.graph import probabilities
from ctrlab.serving.inputs import Features, specs_of
from ctrlab.serving.merging import merge_weights
from ctrlab.serving.publishing import Content, Publisher
from ctrlab.serving.publishing_folder import PARTS, explained
from ctrlab.training.optimizers import TouchedRows

LOOKS = 10
"""Number of looks in the time between two publications."""
LOOK_SECONDS = 1.0
"""The most seconds from one look to the next while a publication is in progress."""


class SharedPublisher(Publisher):
    """Publishes the part of one of several workers, like `Publisher`. All workers must make it and call it together, after each
    step.

    It publishes up to two looks later than a single process, because a look must report that all parts are written. A version is
    not tried on its warm-up requests, so no worker needs memory for a whole table. The workers answer these requests together,
    and a server compares its answers with theirs before it serves the version.

    Args:
        workers: a result of `ctrlab.distributed.join`.
        folder: a folder that all workers see.
        model, optimizer, options: as in `Publisher`, except `optimizations`: the workers' answers use unpacked rows.
    Raises:
        CtrlabError: as in `Publisher`; a worker sees another folder.

    >>> with SharedPublisher(run.workers, "models/ctr", run.model, run.optimizer, every=60) as publisher:     # doctest: +SKIP
    ...     run.train(on_step=publisher)
    """

    def __init__(
        self,
        workers,
        folder: str | os.PathLike,
        model: CTRModel,
        optimizer: TouchedRows,
        *,
        rows: Sequence[Features] = (),
        **options,
    ):
        if "optimizations" in options:
            raise CtrlabError("Several workers publish rows in float32; leave out the optimizations.")
        self.workers, self.shard, self.leads = workers, workers.shard, workers.first
        if not self.leads:  # the first worker alone asks
            rows = [{name: feature[:0] for name, feature in features.items()} for features in rows]
        super().__init__(folder, model, optimizer, rows=rows, **options)
        try:
            workers.agree({"warm-up requests": str(len(rows))})
            self._parts = self._common_folder()
        except BaseException:
            self._held.close()
            raise
        together = workers.program()

        @tf.function(input_signature=[specs_of(self._columns)], autograph=False)
        def answer(request):
            with together(None):
                return probabilities(self.model, self._columns, request)

        self._answer = answer
        self._content_now: Content | None = None  # what is on its way
        self._number = 0  # of publications so far
        self._merging = False
        self._asked = False  # by the first worker's clock
        self._left = self._between = 1  # steps
        self._looked = (time.monotonic(), 0)  # and the step then

    def __call__(self, number: int, loss: float) -> None:
        """Call it after a step. It takes a look if one is due."""
        self._left -= 1
        if self._left <= 0:
            self._look()
            if self._asked and self._content_now is None:
                self._begin()

    def due(self) -> int:
        """The number of steps until the next look."""
        return self._left

    def publish(self) -> None:
        """Starts to publish the current model. All workers must call it together, between two steps."""
        self.wait()
        self._begin()

    def wait(self) -> None:
        """Waits until the last publication is written, or has failed. All workers must call it together."""
        while self._content_now is not None:
            self._writing.result()
            self._look()

    def _common_folder(self) -> Path:
        """Requires a folder in which all workers can write. If one can't, all fail, after all have tried."""
        name, problem = f"{PARTS}{secrets.token_hex(8)}", ""
        if self.leads:
            with explained(self.folder):
                make_folder(self.folder / name)
            self._held.callback(shutil.rmtree, self.folder / name, ignore_errors=True)
        found = self.folder / self.workers.told(name)[0]
        if found.is_dir():
            try:
                with explained(self.folder):
                    (found / str(self.shard.index)).touch()
            except CtrlabError as refused:
                problem = str(refused)
        else:
            problem = (
                f"Workers publish to one folder that all of them see; {self.folder} on worker {self.shard.index} is another than "
                "on worker 0: name one on a disk that they share."
            )
        if problem := _first_problem(self._said(problem=problem)):
            raise CtrlabError(problem)
        return found

    def _part(self, worker: int) -> Path:
        """The path of a worker's part. Each part has its own name, because a network disk may show an earlier file for a
        while.
        """
        return self._parts / f"{self._number}-{worker}"

    def _said(self, **mine) -> list[dict]:
        """The message of each worker."""
        return [json.loads(each) for each in self.workers.told(json.dumps(mine))]

    def _look(self) -> None:
        """Exchanges the progress of all workers, and moves the publication in progress to its next stage on all of them."""
        content, step = self._content_now, int(self.optimizer.iterations)
        done = content is not None and self._writing.done()
        mine = {"done": done, "problem": self._writing.result() if done else "", "rows": content.rows if content else 0}
        said = self._said(**mine, due=time.monotonic() >= self._due, steps=self._next(step))
        self._asked, self._left = said[0]["due"], said[0]["steps"]
        self._between, self._looked = self._left, (time.monotonic(), step)
        if content is None:
            return
        if self._merging:
            if said[0]["done"]:
                self._settle(said[0]["problem"])
        elif all(each["done"] for each in said):
            if problem := _first_problem(said):
                self._settle(problem)
                return
            self._merging = True
            if self.leads:
                self._writing = self._thread.submit(self._write_merged, content, sum(each["rows"] for each in said))

    def _next(self, step: int) -> int:
        """Steps until the next look, at the pace since the last one; at most twice as many as then, because a pace changes."""
        then, before = self._looked
        each = (time.monotonic() - then) / max(1, step - before)
        wanted = self.every / LOOKS
        if self._content_now:
            wanted = min(wanted, LOOK_SECONDS)
        return max(1, min(2 * self._between, int(wanted / max(each, 1e-6))))

    def _begin(self) -> None:
        self._due = time.monotonic() + self.every
        if self.leads:
            with contextlib.suppress(OSError):  # then each says what it can't write
                self._parts.mkdir(exist_ok=True)  # whoever tidies up may have taken it
        content = self._cut_by_all(self._said(full=self._full_is_due())[0]["full"])
        if content is None:
            return
        if content.full:
            with self.workers.explained():
                content = replace(content, answers=[self._answer(request).numpy() for request in self._requests])
        self._content_now, self._merging, self._read_step = content, False, content.moment.step
        self._number += 1
        self._writing = self._thread.submit(self._write_part, content)

    def _cut_by_all(self, full: bool) -> Content | None:
        """The content that this worker publishes: everything, if one of the workers must publish everything. None if it can't
        be copied.
        """
        content, problem = None, ""
        try:
            with explained(self.folder):
                content = self._content(full)
        except CtrlabError as error:
            problem = str(error)
        said = self._said(problem=problem, lost=content is not None and content.lost)
        if problem := _first_problem(said):
            self._fail(CtrlabError(problem))
            return None
        if any(each["lost"] for each in said):
            del content  # free these copies before the next ones are made
            return self._cut_by_all(full=True)
        return content

    def _write_part(self, content: Content) -> str:
        """Writes this worker's part. Returns the problem in a sentence, or "" if there was none."""
        part = self._part(self.shard.index)
        try:
            with explained(self.folder):
                super()._write_weights(part, "", content)
        except CtrlabError as problem:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            return str(problem)
        return ""

    def _write_merged(self, content: Content, rows: int) -> str:
        """Merges all parts into the version or the update. Returns the problem in a sentence, or "" if there was none."""
        try:
            size = self._put(content)
        except CtrlabError as problem:
            return str(problem)
        self._count(content.full, size, rows)
        self._tidy()
        return ""

    def _write_weights(self, path: Path, bundle: str, content: Content) -> int:
        return merge_weights([self._part(i) for i in range(self.shard.count)], path, bundle, content.moment)

    def _settle(self, problem: str) -> None:
        content, self._content_now = self._content_now, None
        with contextlib.suppress(OSError):
            self._part(self.shard.index).unlink(missing_ok=True)
        if problem:
            self._fail(CtrlabError(problem))
            return
        self._confirm(content)
        self._failed = None

    def _fail(self, problem: CtrlabError) -> None:
        if self.leads:
            super()._fail(problem)
        self._failed = problem


def _first_problem(said: Sequence[dict]) -> str:
    found = [f"Worker {i}: {each['problem']}" if i else each["problem"] for i, each in enumerate(said)]
    return next((problem for problem, each in zip(found, said) if each["problem"]), "")
