"""One training run, from initial weights to AUC, described by plain values. Commands, races and tuning are built on it.

Spec   model, data, optimizations, embedding, seed, ...      describes the run
Run    sets threads, builds the model, prepares files        trains, evaluates, saves

rungs of level   model -> build    input -> files and batch size    run -> threads, stage, loop, how checkpoints are written
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import tensorflow as tf

from ctrlab import __version__, data
from ctrlab import optimizations as ladder
from ctrlab.data.follow import LEDGER, Followed
from ctrlab.embedding.prefetch import prefetched
from ctrlab.embedding.variable import embedding_variables
from ctrlab.errors import CtrlabError
from ctrlab.models import build
from ctrlab.training.checkpoint import Checkpoints
from ctrlab.training.early_stopping import EarlyStopping
from ctrlab.training.group import ALONE, Group, Reading
from ctrlab.training.held_out import hold_out
from ctrlab.training.loop import SHUFFLE_ROWS, Evaluation, History, OnStep, batch_size, evaluate, train
from ctrlab.training.optimizers import make_optimizer
from ctrlab.training.several import SeveralSteps
from ctrlab.training.spec import Saving, Spec
from ctrlab.training.stage import stage
from ctrlab.training.state import get_state, set_state
from ctrlab.training.step import predict_step, train_step
from ctrlab.training.threads import Choice, Setting, apply_threads, choose_setting

POLL_SECONDS = 0.2


class Run:
    """A model in training. As a context manager it closes its reader and its checkpoints.

    Make it before TensorFlow runs anything in the process, if its thread setting differs from TensorFlow's default.

    Attributes:
        spec: the description it was made from.
        workers: the group of processes that train together: a result of `ctrlab.distributed.join`, or this process alone.
        rungs: {level: rungs of `spec.optimizations`}.
        choice: the setting of threads and buffers, and its origin.
        model, optimizer: the model that is trained and its optimizer.
        files: the files on disk, `data.DataFiles`; None if the run follows a folder.
        followed: that folder's files, or None.
        batch_size: examples per step.
        step: (features, labels) -> loss, or a `SeveralSteps`: see `train`.
        checkpoints: the saver, or None.
        stopping: the `EarlyStopping` on the validation rows, or None.
    Raises:
        UnknownName, CtrlabError: an invalid spec; the data can't be made; another thread setting is already in force; the
            checkpoint folder can't be used.

    >>> with Run(Spec("deepfm", "all", profile="tiny")) as run:     # doctest: +SKIP
    ...     run.train()
    ...     print(run.evaluate().auc)
    """

    def __init__(self, spec: Spec, workers: Group = ALONE):
        self.spec, self.workers = spec, workers
        self.rungs = {level: ladder.of_level(spec.optimizations, level) for level in ladder.LEVELS}
        own = choose_setting(spec.model, self.rungs["run"])
        self.choice = Choice(spec.setting, "as asked") if spec.setting else own
        apply_threads(self.choice.setting)
        workers.begin(spec)
        self._held = contextlib.ExitStack()
        with workers.telling():
            self._make(spec)
        self._held.enter_context(workers.telling())  # last, so that the others hear of an error before files are closed
        self._batches: Iterator | None = None

    def _make(self, spec: Spec) -> None:
        rungs = ",".join(ladder.resolve(spec.optimizations))
        asked = {"version": __version__, "model": spec.model, "optimizations": rungs, "epochs": str(spec.epochs)}
        if spec.saving:
            asked |= {"steps between saves": str(spec.saving.every), "saves between whole ones": str(spec.saving.full_every)}
        self.workers.agree(asked | spec.in_words)
        self.model, self.optimizer = self._new_model(spec.seed)
        where = {"profile": spec.profile, "source": spec.source, "format": spec.format}
        self.files = None if spec.follow else data.prepare_for(self.model.input_schema, self.rungs["input"], **where)
        self.batch_size = batch_size(self.model, self.rungs["input"])
        if self.files:
            self.workers.agree({"data": f"{self.files.name}, {self.files.rows} rows, {self.files.format}"})
        self.step = train_step(self.model, self.optimizer, self.workers)
        if "loop" in self.rungs["run"] or ladder.STOCK.name in self.rungs["model"]:
            self.step = SeveralSteps(self.step)
        self._predict = predict_step(self.model, self.workers)
        self.stopping = None if spec.validation is None else self._stopping()
        self.checkpoints = self._held.enter_context(self._saver(spec.saving)) if spec.saving else None
        self.followed = self._followed(spec.follow) if spec.follow else None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exception) -> None:
        self._batches = None
        self._held.__exit__(*exception)

    @property
    def batch_count(self) -> int | None:
        """Number of batches in all epochs; None: no end."""
        return None if self.followed else self._reading().steps

    @property
    def position(self) -> int:
        """Batches trained on so far: by earlier runs, and by this one if it saves checkpoints."""
        return self.checkpoints.position if self.checkpoints else 0

    def read(self, setting: Setting | None = None, seed: int | None = None) -> tf.data.Dataset:
        """The remaining training batches, each with the features that the model takes.

        Args:
            setting: the setting of the buffers; default: the run's own.
            seed: determines the order of rows; default: the run's own.
        """
        setting = setting or self.choice.setting
        return stage(self._reading(seed).train(setting.prefetch), self.model, self._depth(setting))

    def train(
        self, steps: int | None = None, on_step: OnStep | Sequence[OnStep] = (), batches: Iterable | None = None
    ) -> History:
        """Takes `steps` steps on the next batches. If `steps` is None, it takes all that are left and saves the final state.

        Args:
            on_step: as in `training.train`.
            batches: use these in place of the run's own; checkpoints do not count them.
        Raises:
            As `training.train`; CheckpointError: a checkpoint could not be written.
        """
        hooks = (on_step,) if callable(on_step) else tuple(on_step)
        if batches is not None:
            with self.workers.explained():
                return train(self.model, self.optimizer, batches, steps, hooks, self.step)
        if self.checkpoints:
            hooks = (*hooks, self.checkpoints)
        if self.stopping and steps is None:
            history = self._train_by_epochs(hooks)
        else:
            with self.workers.explained():
                history = train(self.model, self.optimizer, self.batches, steps, hooks, self.step)
        if self.checkpoints and steps is None:
            self.checkpoints.save_last()
        return history

    def _train_by_epochs(self, hooks: Sequence[OnStep]) -> History:
        """Trains until the quality on the validation rows no longer improves, or until the batches end; then restores the best
        state.
        """
        history = History()
        self.stopping.begin(self.model, self.optimizer)
        done, total = self.position, math.inf if self.batch_count is None else self.batch_count
        while done < total:
            steps = self._epoch_end(done) - done
            history.losses += train(self.model, self.optimizer, self.batches, steps, hooks, self.step).losses
            done += steps
            if self.stopping.look():
                break
        self.stopping.restore()
        return history

    def _epoch_end(self, done: int) -> int:
        """The number of batches at the next end of an epoch after `done`. A batch may hold rows of two epochs; it counts to the
        one in which it ends."""
        epoch = done * self.batch_size // self.files.rows + 1
        while (end := epoch * self.files.rows // self.batch_size) <= done:
            epoch += 1
        return end

    @property
    def batches(self) -> Iterator:
        """The iterator of the training batches."""
        if self._batches is None:
            self._batches = iter(self._held.enter_context(self._ahead(self.read())))
        return self._batches

    def follow(
        self,
        on_step: OnStep | Sequence[OnStep] = (),
        *,
        ends: Callable[[], bool],
        on_wait: Callable[[], None] = lambda: None,
        idle: Callable[[], bool] = lambda: False,
    ) -> None:
        """Trains on each row of the followed folder once, in the order of the files, as they appear, until a signal to end. Then
        it saves the state. A resumed run continues with the first row that its checkpoint has not seen. Rows are trained on as
        text; the rungs "parquet" and "encoded" have no effect.

        Args:
            on_step: as in `training.train`.
            ends: returns whether to end. It is called after each step, and a few times per second while there are too few rows
                for a batch.
            on_wait: called each time there are too few rows.
            idle: called each time there are too few rows; if it returns true, the run ends.
        Raises:
            As `training.train`; CheckpointError: a checkpoint could not be written; CtrlabError: as in `Followed`.
        """
        hooks = (on_step,) if callable(on_step) else tuple(on_step)
        if self.checkpoints:
            hooks = (*hooks, self.checkpoints)
        with contextlib.suppress(_Ended):
            while not ends():
                self.followed.look()
                batches = self.followed.batches(self.batch_size)
                if batches is None:
                    on_wait()
                    if idle():
                        break
                    time.sleep(POLL_SECONDS)
                    continue
                # The last hook: when it raises, all others have been called.
                with self._ahead(stage(batches, self.model, self._depth(self.choice.setting))) as ready:
                    train(self.model, self.optimizer, ready, None, (*hooks, self._count(ends)), self.step)
        if self.checkpoints:
            self.checkpoints.save_last()

    def _count(self, ends: Callable[[], bool]) -> OnStep:
        def counts(number: int, loss: float) -> None:
            self.followed.used += self.batch_size
            if ends():
                raise _Ended

        return counts

    def restart(self, seed: int) -> None:
        """Starts again from `seed`: new weights, no slots, another order of rows. It can't be combined with checkpoints."""
        set_state(get_state(*self._new_model(seed)), self.model, self.optimizer)
        self._batches = iter(self.read(seed=seed))

    def evaluate(self, most_rows: int | None = None) -> Evaluation:
        """AUC and log loss on the held-out rows, or on about the first `most_rows` of them. The batch size is that of training:
        WDL scales its deep input by the norm of the batch, so its answers depend on the batch size."""
        if self.files is None:
            raise CtrlabError(
                "A run that follows a folder has no held-out rows; its losses are of rows that it has not seen yet."
            )
        batches = self._reading().test()
        if most_rows is not None:
            batches = batches.take(-(-most_rows // self.batch_size))
        with self.workers.explained():
            return evaluate(self.model, batches, self._predict, self.workers)

    def _stopping(self) -> EarlyStopping:
        """Takes the validation rows from the files."""
        if self.files is None:
            raise CtrlabError("A run that follows a folder has no end to judge: leave out the validation, or the folder.")
        folder = Path(self._held.enter_context(tempfile.TemporaryDirectory(prefix="ctrlab-validation-")))
        self.files, rows = hold_out(self.files, self.spec.validation, folder)
        return EarlyStopping(
            dataclasses.replace(self.files, test=(rows,)).read_test(self.batch_size, lists=self._lists), self.spec.patience
        )

    def _new_model(self, seed: int):
        spec = self.spec
        with self.workers.building(), _room(spec.model):
            device = spec.device if self.workers.shard.whole else "cpu"
            rungs, chosen = self.rungs["model"], {"device": device, "size": spec.size}
            model = build(spec.model, spec.data_set, rungs, seed, spec.embedding, **chosen)
            optimizer = make_optimizer(model)
            optimizer.build(model.trainable_variables)
        return model, optimizer

    def _saver(self, saving: Saving) -> Checkpoints:
        spec, files = self.spec, self.files
        rows = f"{spec.source} {files.name}, {files.rows} rows" if files else "followed"
        run = {"model": spec.model, "data": rows, "batch size": str(self.batch_size)}
        return self.workers.checkpoints(
            saving.folder,
            self.model,
            self.optimizer,
            every=saving.every,
            full_every=saving.full_every,
            asynchronous="async_checkpoint" in self.rungs["run"],
            resume=saving.resume,
            run=run | spec.in_words,
        )

    def _followed(self, folder: Path) -> Followed:
        ledger = self.spec.saving.folder / LEDGER if self.spec.saving else None
        return Followed(folder, self.model.training_schema, ledger, self.position * self.batch_size)

    @contextlib.contextmanager
    def _ahead(self, batches: tf.data.Dataset) -> Iterator[Iterable]:
        """The batches. Their table rows are loaded from the storage before the step needs them."""
        if not self._stored or not self.workers.shard.whole:  # the others name rows that a worker's step needs, too
            yield batches
            return
        with contextlib.closing(prefetched(batches, lambda batch: self.model.reads(batch[0]))) as rows:
            yield rows

    def _depth(self, setting: Setting) -> int:
        """The depth of the stage, in batches. With storage a stage is always needed: it gives the keys before the step, so
        that rows can be prefetched.
        """
        return max(1, setting.stage) if self._stored else setting.stage

    @property
    def _lists(self) -> Literal["text", "ragged"]:
        """CSV lines hold lists as text, which the model splits; column formats hold them already split."""
        return "text" if self.files.format == "csv" else "ragged"

    def _reading(self, seed: int | None = None) -> Reading:
        return self.workers.reading(
            files=self.files,
            lists=self._lists,
            batch_size=self.batch_size,
            shuffle=SHUFFLE_ROWS,
            seed=self.spec.seed if seed is None else seed,
            epochs=self.spec.epochs,
            saved=self.checkpoints,
        )

    @property
    def _stored(self) -> bool:
        return any(variable.options.storage for variable in embedding_variables(self.model))


@contextlib.contextmanager
def _room(model: str) -> Iterator[None]:
    try:
        yield
    except (tf.errors.ResourceExhaustedError, MemoryError):
        raise CtrlabError(
            f"A model and its optimizer's slots must fit in memory; those of {model!r} do not: give it fewer or smaller rows, or "
            "more workers, each of which has a shard of the tables."
        ) from None


class _Ended(Exception):
    """A followed run received the signal to end."""
