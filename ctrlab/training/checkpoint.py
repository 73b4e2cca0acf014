"""Checkpoints that don't stop training: a snapshot between two steps, written to disk by a background thread.

A synchronous save blocks training until the disk has everything. An asynchronous save blocks it for one copy in memory
(`ctrlab.ops.snapshot`; for embedding tables, a copy of the rows in memory that will be written). It blocks longer if the
previous save is not on disk yet. The copy takes as much memory again as its source; rows on disk are read from their store
while the file is written. A new file appears complete, then the pointer `latest.json` is updated, then unneeded files are
deleted. So a process killed at any moment only loses the checkpoint it was writing. The next step, or `close`, raises what
the disk refused. `ctrlab.embedding.formats.saves` describes the files.

Each folder is a consumer of the embedding tables' changes. A failed save is not confirmed, so the next save contains all changes
since the last one on disk. If somebody deleted or replaced a save that the next one would build on, that one is full.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tensorflow as tf

from ctrlab import devices
from ctrlab.embedding.formats.folder_lock import take
from ctrlab.embedding.formats.saves import OF_WORKERS, POINTER, Save, files_in, is_there, spare
from ctrlab.embedding.formats.table_arrays import rows_a_part, shapes_of, write_table
from ctrlab.embedding.formats.tensor_file import CODES, write_durably, writing
from ctrlab.embedding.table.cut import Cut
from ctrlab.errors import CtrlabError, cure_of
from ctrlab.models.saving import description
from ctrlab.ops import snapshot
from ctrlab.training.generators import get_generators
from ctrlab.training.restoring import Restored, restore, state_variables, tables_of

THREAD = "ctrlab-checkpoint"


class CheckpointError(CtrlabError):
    """A checkpoint that could not be written."""


class Checkpoints:
    """Saves a training run at regular intervals, and resumes it. Use it as a hook of `train` and as a context manager.

    The state consists of the model's variables and seeds, the optimizer's slots and step count, the process's random generators
    and the position: the number of batches that were trained on. With the same seed, `read(..., start=position)` yields the
    remaining batches.

    Args:
        folder: made if missing. It belongs to one run.
        every: save each time this many batches have been trained on; None: only when `save` is called.
        full_every: one in this many saves writes embedding tables whole. The saves between write only the rows that changed since
            the previous save. A restore opens all files of such a chain at once: see `ulimit -n`. Without an embedding table each
            save is full.
        keep: number of newest checkpoints to keep; the saves that they build on are kept too.
        asynchronous: write in the thread "ctrlab-checkpoint"; otherwise in the training loop.
        resume: start from the last complete checkpoint, if there is one: see `restored`.
        run: settings that must not change when the run is resumed, e.g. {"seed": "2021"}.
    Raises:
        CtrlabError: the folder holds another run's checkpoints and `resume` is not set; they are of another model; the folder
            can't be made, or is in use; a variable has a dtype that tensor files lack, such as bfloat16.

    >>> with Checkpoints("run", model, optimizer, every=1_000) as checkpoints:     # doctest: +SKIP
    ...     train(model, optimizer, batches, on_step=checkpoints)
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        model,
        optimizer,
        *,
        every: int | None = None,
        full_every: int = 1,
        keep: int = 3,
        asynchronous: bool = True,
        resume: bool = False,
        run: Mapping[str, str] | None = None,
    ):
        for name, number in {"every": every, "full_every": full_every, "keep": keep}.items():
            if number is not None and number < 1:
                raise CtrlabError(f"`{name}` must be at least 1; received {number}.")
        self.folder, self.every, self.full_every, self.keep, self.run = Path(folder), every, full_every, keep, dict(run or {})
        self.model, self.optimizer = model, optimizer
        self.position = 0
        self.restored: Restored | None = None
        self._last: Save | None = None  # what the tables' consumer has; None: the next save must be full
        self._tables = tables_of(model)
        self._consumer = f"checkpoints in {str(self.folder.resolve())!r}"  # repr: a path may not be valid text
        variables = state_variables(model, optimizer)
        if odd := [name for name, v in variables.items() if np.dtype(tf.as_dtype(v.dtype).as_numpy_dtype) not in CODES]:
            takes, received = ", ".join(map(str, CODES)), variables[odd[0]].dtype
            raise CheckpointError(f"Checkpoints take variables of {takes}; {odd[0]} is {received}: give its layer another dtype.")
        self._open(resume)
        self._sources = {name: v.value for name, v in variables.items()}
        if asynchronous:
            with tf.device("CPU:0"):  # allocated now, before the first save
                self._buffers = {name: tf.Variable(tf.zeros_like(v), trainable=False) for name, v in self._sources.items()}
        self._copy = snapshot.fused if all(map(devices.is_ours, self._sources.values())) else snapshot.baseline
        self._thread = ThreadPoolExecutor(1, THREAD) if asynchronous else None
        self._writing: Future | None = None
        self._saved = self.position if self.restored else None

    def __call__(self, number: int, loss: float) -> None:
        """Call it after a step. It counts the batch, raises what the thread could not write, and saves if a save is due."""
        self.advance(1)

    def due(self) -> int | None:
        """Number of batches until the next save; None: no save is planned."""
        return self.every - self.position % self.every if self.every else None

    def advance(self, batches: int) -> None:
        """Counts `batches` more batches."""
        before, self.position = self.position, self.position + batches
        if self._writing and self._writing.done():
            self.wait()
        if self.every and before // self.every < self.position // self.every:
            self.save()

    def save(self) -> None:
        """Saves the current state. If asynchronous, it waits for the previous save and returns when the copy is made.

        Call it between two steps. Embedding tables first evict by their own options.

        Raises:
            CheckpointError: the disk refused this save (synchronous) or the previous one (asynchronous).
        """
        self.wait()
        self._saved = None  # stays None until the file is on disk: after any failure `save_last` has to write it
        save, cuts = self._cut()
        others = {f"generators/{name}": value for name, value in get_generators().items()}
        if self._thread is None:
            self._write(save, cuts, _views(self._sources) | others)
            return
        self._copy(list(self._sources.values()), list(self._buffers.values()))
        self._writing = self._thread.submit(lambda: self._write(save, cuts, _views(self._buffers) | others))

    def save_last(self) -> None:
        """Saves the current state unless the last save already has it, and waits until it is on disk.

        Raises:
            CheckpointError: the disk refused it.
        """
        self.wait()
        if self._saved != self.position:
            self.save()
            self.wait()

    def wait(self) -> None:
        """Waits until the last save is on disk.

        Raises:
            CheckpointError: the disk refused it.
        """
        writing, self._writing = self._writing, None
        if writing:
            writing.result()

    def close(self) -> None:
        """Waits for the last save, ends the thread and releases the folder.

        Raises:
            CheckpointError: the disk refused the last save.
        """
        try:
            if self._thread:
                self._thread.shutdown()
            self.wait()
        finally:
            self._forget()
            self._lock.release()

    def callback(self) -> tf.keras.callbacks.Callback:
        """A Keras callback that saves: `model.fit(batches, callbacks=[checkpoints.callback()])`."""
        from ctrlab.training.callback import CheckpointCallback

        return CheckpointCallback(self)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind, exception, trace) -> None:
        try:
            self.close()
        except CheckpointError as problem:
            if exception is None:
                raise
            exception.add_note(str(problem))  # the error that ended the training comes first

    def _open(self, resume: bool) -> None:
        try:
            self._lock = take(self.folder)
        except OSError as error:
            cure = cure_of(error, "name another")
            raise CheckpointError(f"Folder {self.folder} can't take checkpoints: {error.strerror}; {cure}.") from None
        try:
            self._resume(resume)
        except BaseException:
            self._lock.release()
            raise

    def _resume(self, resume: bool) -> None:
        found = files_in(self.folder)
        if found and not resume:
            raise CheckpointError(
                f"Folder {self.folder} holds checkpoints of an earlier run, up to step {max(found)}; resume it, or name another."
            )
        if (self.folder / OF_WORKERS).exists():
            raise CheckpointError(
                f"Folder {self.folder} holds checkpoints of several workers: go on with as many as you like by --workers, 1 also."
            )
        if not found and (self.folder / POINTER).exists():
            raise CheckpointError(
                f"A run goes on from its last checkpoint; {self.folder / POINTER} names one, and no checkpoint is in the folder: "
                "put the files back, or name another folder to begin anew."
            )
        if found:
            self.restored = restore(self.folder, self.model, self.optimizer, self.run)
            self.position = self.restored.position
            self._last = None if self.restored.renamed else self.restored.save  # a delta's tables have the names of its full save
            for table in self._tables.values():
                table.caught_up(self._consumer)

    def _cut(self) -> tuple[Save, dict[str, Cut]]:
        """The metadata of the next file, and a cut of each table: the whole table or its changes."""
        step, last = int(self.optimizer.iterations), self._last
        for table in self._tables.values():
            if table.options.eviction:
                table.evict(step)
        # A delta at the same step as the save before it would get the same file name.
        follows = self._tables and last and last.number + 1 < self.full_every and last.step < step
        if follows and is_there(self.folder, last):
            cuts = self._cuts()
            if all(cut.since is not None for cut in cuts.values()):
                return last.delta(step, self.position), cuts
            del cuts  # free this copy of the rows before the next one is made
        self._forget()
        return Save.full(step, self.position, self.run, description(self.model)), self._cuts()

    def _cuts(self) -> dict[str, Cut]:
        return {name: table.cut(self._consumer) for name, table in self._tables.items()}

    def _forget(self) -> None:
        for table in self._tables.values():
            table.forget(self._consumer)

    def _write(self, save: Save, cuts: Mapping[str, Cut], arrays: dict[str, np.ndarray]) -> None:
        delta, path = bool(save.number), self.folder / save.name
        shapes = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        for name, cut in cuts.items():
            shapes |= shapes_of(name, cut, delta)
        try:
            with writing(path, shapes, save.to_metadata()) as put:
                for name, array in arrays.items():
                    put(name, array)
                for name, cut in cuts.items():
                    parts = cut.parts(rows=rows_a_part(cut.dim, len(cut.slot_names)))
                    write_table(put, name, cut, parts, delta)
            said = {"file": save.name, "step": save.step, "position": save.position}
            write_durably(self.folder / POINTER, [json.dumps(said).encode()])
        except (OSError, CtrlabError) as error:
            why, cure = str(error).rstrip("."), "resume from them"
            if isinstance(error, OSError):
                why, cure = error.strerror, f"{cure_of(error, 'free some space or name another folder')}, and resume"
            else:
                self._last = None  # a table's change log may be wrong now, so the next save writes the whole table
            raise CheckpointError(
                f"The checkpoint of step {save.step} could not be written to {self.folder}: {why}. "
                f"Earlier ones are as they were; {cure}."
            ) from None
        for name, cut in cuts.items():
            self._tables[name].confirm(self._consumer, cut.version)
        self._last, self._saved = save, save.position
        try:
            for old in spare(self.folder, path, self.keep):
                old.unlink(missing_ok=True)
        except CtrlabError as error:  # a save that can't be opened does not tell which files it needs
            raise CheckpointError(
                f"Checkpoints that are no longer needed are deleted; now it is not known which these are: {error} "
                f"That of step {save.step} is written, and a later save deletes them."
            ) from None
        except OSError as error:
            raise CheckpointError(
                f"Checkpoints that are no longer needed are deleted; {self.folder} does not allow it: {error.strerror}. "
                f"That of step {save.step} is written; make the folder writable, or delete them."
            ) from None


def _views(variables: Mapping[str, tf.Variable]) -> dict[str, np.ndarray]:
    """The variables' values, without copying them."""
    return {name: np.asarray(memoryview(v.read_value())) for name, v in variables.items()}
