"""Checkpoints of several workers: each writes its shard, and one manifest makes them one save.

    folder/workers.json                               the last whole saves, newest first: see `Common`
    folder/worker-0-of-4/step-000000300.safetensors   worker 0's rows, and the arrays that every worker has whole
    folder/worker-1-of-4/step-000000300.safetensors   worker 1's rows

A worker's folder is like that of a single process: full saves and deltas, each file complete or absent. When all workers have
written their files, the first one adds the save to the manifest. If a worker dies before that, nobody uses the save. So all
workers must see the folder. Any number of workers can resume from a save: each reads its own rows from all files.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ctrlab import whole_batch
from ctrlab.distributed.manifest import Common, folder_of, folders_in, read_manifest, saves_in, write_manifest
from ctrlab.embedding.formats.saves import OF_WORKERS, PassedOver, Save, files_in, paths_in
from ctrlab.embedding.formats.tensor_file import read_metadata
from ctrlab.errors import BadData, WorkerLost, cure_of
from ctrlab.training.checkpoint import CheckpointError, Checkpoints
from ctrlab.training.restoring import Ready, Restored, read, state_variables

POLL_SECONDS = 0.05
LOOKS = 40
"""Number of looks for a file before its worker is checked for being alive."""


class Unfinished(CheckpointError, WorkerLost):
    """Another worker did not write its part of a save."""


class SharedCheckpoints(Checkpoints):
    """Saves the part of one of several workers, like `Checkpoints`, and the manifest of all. All workers must make it and save
    together.

    Args:
        workers: the `Workers`.
        folder: the folder that contains all workers' folders; all workers must see it.
        model, optimizer, options: as in `Checkpoints`.
    Attributes:
        history: (workers, steps) of the training before this run.
    Raises:
        CtrlabError: as in `Checkpoints`; the folder has checkpoints of a single process, or is not the same for all workers.
    """

    def __init__(self, workers, folder, model, optimizer, *, keep: int = 3, resume: bool = False, **options):
        self.workers, self.base, self.history = workers, Path(folder), ()
        self._ends = threading.Event()
        if files_in(self.base) if self.base.is_dir() else ():
            raise CheckpointError(f"Folder {self.base} holds checkpoints of a process alone: name another for those of workers.")
        found = read_manifest(self.base)
        if not (self.base / OF_WORKERS).exists() and any(saves_in(self.base)):
            raise CheckpointError(
                f"A training of several workers goes on by {self.base / OF_WORKERS}, which is missing, though the workers' "
                "saves are there: put it back, or name another folder to begin anew."
            )
        if found and not resume:
            raise CheckpointError(
                f"Folder {self.base} holds checkpoints of an earlier run, up to step {found[0].step}; resume it, or name another."
            )
        shard = workers.shard
        own = folder_of(self.base, shard.index, shard.count)
        # A worker may be one save ahead of the manifest.
        super().__init__(own, model, optimizer, keep=max(keep, 2), resume=resume, **options)

    def __exit__(self, kind, exception, trace) -> None:
        if exception is not None:
            self._ends.set()
        super().__exit__(kind, exception, trace)

    def wait(self) -> None:
        try:
            super().wait()
        except Unfinished:
            if not self._ends.is_set():
                self.workers.told("")  # raises what the other worker ended with
            raise

    def _require_common(self) -> None:
        """Requires that all workers see the same folder. Otherwise a save would wait for files that another worker writes
        elsewhere.
        """
        mark = self.folder / f".seen-by-all-{secrets.token_hex(8)}"
        try:
            if self.workers.first:
                mark.mkdir()
            wanted = folder_of(self.base, 0, self.workers.shard.count) / self.workers.told(mark.name)[0]
            seen = self.workers.told("yes" if wanted.is_dir() else "no")
        except OSError as error:
            cure = cure_of(error, "name another")
            raise CheckpointError(f"Folder {self.folder} can't take checkpoints: {error.strerror}; {cure}.") from None
        finally:
            with contextlib.suppress(OSError):
                mark.rmdir()
        if "no" in seen:
            raise CheckpointError(
                f"Workers save to one folder that all of them see; {self.base} on worker {seen.index('no')} is another than on "
                "worker 0: name one on a disk that they share."
            )

    def _resume(self, resume: bool) -> None:
        self._require_common()
        saves = read_manifest(self.base)
        common, self.restored = self._restore(saves)
        # Those of as many workers may be older than what is restored, and are what is left if that is damaged later.
        whole = [each.step for each in saves if each.workers == self.workers.shard.count and each.step <= common.step]
        for step, path in paths_in(self.folder):
            if step > max(whole, default=-1):  # of a save that not all workers have written
                path.unlink()
        if common:
            self.history, self.position = common.history, common.position
            for table in self._tables.values():
                table.caught_up(self._consumer)
        elif self.workers.first:
            write_manifest(self.base, [])  # from now on a folder without a manifest is one from which it was taken
        self.workers.agree({"checkpoint": f"step {common.step}" if common else "none"})

    def _restore(self, saves: Sequence[Common]) -> tuple[Common | None, Restored | None]:
        """Restores the newest save that all workers can read."""
        passed_over: list[PassedOver] = []
        for common in saves:
            ready, problem = None, ""
            try:
                ready = self._read(common)
            except BadData as error:
                problem = str(error)
            found = list(filter(None, dict.fromkeys(self.workers.told(problem))))
            if not found:
                return common, ready.taken(passed_over)
            passed_over.append(PassedOver(" ".join(found), common.step, common.position))
        if saves:
            problems = " ".join(passed.problem for passed in passed_over)
            raise BadData(f"Folder {self.base} has no save that all workers can read. {problems}")
        return None, None

    def _read(self, common: Common) -> Ready:
        """Reads this worker's part of a save: its own files if the number of workers is the same, otherwise its part of all
        files.
        """
        shard = self.workers.shard
        if common.workers == shard.count:
            return read(common.chains(self.base, [shard.index]), self.model, self.optimizer, self.run)
        return read(common.chains(self.base), self.model, self.optimizer, self.run, shard, common.sharded)

    def _write(self, save: Save, cuts, arrays: dict[str, np.ndarray]) -> None:
        super()._write(save, cuts, arrays)
        if self.workers.first:
            try:
                self._commit(save)
            except OSError as error:
                cure = cure_of(error, "free some space or name another folder")
                raise CheckpointError(
                    f"The checkpoint of step {save.step} could not be named in {self.base / OF_WORKERS}: {error.strerror}. "
                    f"Earlier ones are as they were; {cure}, and resume."
                ) from None

    def _commit(self, save: Save) -> None:
        """Waits for the others' files, then names them in the manifest."""
        count = self.workers.shard.count
        history = (*self.history, (count, save.position - sum(steps for _, steps in self.history)))
        ids = tuple(self._id_of(worker, save) for worker in range(count))
        sharded = [name for name, v in state_variables(self.model, self.optimizer).items() if whole_batch.is_sharded(v)]
        common = Common(save.step, save.position, _joined(history), ids, tuple(sharded))
        earlier = [each for each in read_manifest(self.base) if each.step < save.step]
        saves = [common, *earlier][: self.keep - 1]
        write_manifest(self.base, saves)
        needed = {folder.name for each in saves for folder in each.folders(self.base)}
        for folder in folders_in(self.base):
            if folder.name not in needed:
                shutil.rmtree(folder, ignore_errors=True)

    def _id_of(self, worker: int, save: Save) -> str:
        """The id of another worker's file of the same save, once it exists."""
        folder, looked = folder_of(self.base, worker, self.workers.shard.count), 0
        while True:
            for name in (replace(save, number=0).name, replace(save, number=1).name):
                with contextlib.suppress(BadData):
                    found = Save.from_metadata(read_metadata(folder / name), folder / name)
                    if found.position == save.position:
                        return found.id
            looked += 1
            if self._ends.wait(POLL_SECONDS) or (looked % LOOKS == 0 and worker in self.workers.missing()):
                raise Unfinished(
                    f"A save is whole when all workers have written theirs; {folder} has none of step {save.step}, and the "
                    "training ends: it goes on from the save before."
                )


def _joined(history: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The history with neighbouring entries of equal numbers of workers joined."""
    found: list[tuple[int, int]] = []
    for workers, steps in history:
        if found and found[-1][0] == workers:
            steps += found.pop()[1]
        found.append((workers, steps))
    return tuple(found)
