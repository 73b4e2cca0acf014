"""A training from its first weights to its AUC, out of plain values: what commands, races and tuning are shells over.

Spec   model, data, optimizations, embedding, seed, ...      what is trained
Run    threads set, model built, files ready, steps traced   trains, evaluates, saves

rungs of level   model -> build    input -> files and batch size    run -> threads, stage, loop, how checkpoints are written
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tensorflow as tf

from ctrlab import data
from ctrlab import optimizations as ladder
from ctrlab.embedding.choices import NAMES, Variable
from ctrlab.embedding.choices import Choice as Embedding
from ctrlab.embedding.prefetch import prefetched
from ctrlab.embedding.variable import embedding_variables
from ctrlab.errors import choose
from ctrlab.models import Hyper, build
from ctrlab.training.checkpoint import Checkpoints
from ctrlab.training.loop import SHUFFLE_ROWS, Evaluation, History, OnStep, batch_size, evaluate, train
from ctrlab.training.optimizers import make_optimizer
from ctrlab.training.several import SeveralSteps
from ctrlab.training.stage import stage
from ctrlab.training.state import get_state, set_state
from ctrlab.training.step import predict_step, train_step
from ctrlab.training.threads import Choice, Setting, apply_threads, choose_setting


@dataclass(frozen=True)
class Saving:
    """Where checkpoints go, and when: see `Checkpoints`. `every` None: only after the last step."""

    folder: Path
    every: int | None = None
    full_every: int = 1
    resume: bool = False


@dataclass(frozen=True)
class Spec:
    """What is trained.

    Attributes:
        model: a name, as `build` takes it.
        optimizations: rungs of all levels.
        data_set: a name; None: the model's own data set, at the contest's table sizes.
        source: rows that are generated, or the real ones.
        format: of the files, where no rung says otherwise.
        profile: how many rows are generated; None: `CTRLAB_PROFILE`'s.
        embedding: how the large tables keep their embeddings, as `build` takes it.
        hyper: optimizer, learning rate and clipping; None: the model's own.
        seed: of the first weights and of the order of the rows.
        epochs: passes over the training rows; -1: no end.
        setting: threads and buffers; None: those that the rungs choose.
        saving: None: no checkpoints.

    >>> spec = Spec("deepfm", "all", epochs=3)
    """

    model: str
    optimizations: str | Sequence[str] = "none"
    data_set: str | None = None
    source: Literal["generated", "real"] = "generated"
    format: str = "csv"
    profile: str | None = None
    embedding: str | Embedding | Mapping[str, str | Embedding] = "hashed"
    hyper: Hyper | None = None
    seed: int = 2021
    epochs: int = 1
    setting: Setting | None = None
    saving: Saving | None = None

    @property
    def in_words(self) -> dict[str, str]:
        """What must be the same when a run is taken up from its checkpoints, besides model, files and batch size: not where rows
        are stored."""
        named = self.embedding if isinstance(self.embedding, Mapping) else {"": self.embedding}
        choices = [f"{name} {_of_choice(choice)}".strip() for name, choice in sorted(named.items())]
        return {"seed": str(self.seed), "embedding": "; ".join(choices)}


def _of_choice(choice: str | Embedding) -> str:
    choice = NAMES[choose("embedding", choice, NAMES)] if isinstance(choice, str) else choice
    rules = (choice.options.admission, choice.options.eviction) if isinstance(choice, Variable) else ()
    return ", ".join([type(choice).__name__, *(str(rule) for rule in rules if rule)])


class Run:
    """A model in training. A context manager: leaving it ends its reader and its checkpoints.

    Make it before TensorFlow has run anything in the process, where its setting of threads is another than TensorFlow's own.

    Attributes:
        spec: what it was made from.
        rungs: {level: rungs of `spec.optimizations`}.
        choice: the setting of threads and buffers, and where it comes from.
        model, optimizer: what is trained, and by what.
        files: the rows on the disk, `data.DataFiles`.
        batch_size: rows a step.
        step: (features, labels) -> loss, or several in a call: see `train`.
        checkpoints: the saver, or None.
    Raises:
        UnknownName, CtrlabError: a bad spec; the data can't be made; another setting of threads is in force already; the folder
            of checkpoints can't be used.

    >>> with Run(Spec("deepfm", "all", profile="tiny")) as run:     # doctest: +SKIP
    ...     run.train()
    ...     print(run.evaluate().auc)
    """

    def __init__(self, spec: Spec):
        self.spec = spec
        self.rungs = {level: ladder.of_level(spec.optimizations, level) for level in ladder.LEVELS}
        own = choose_setting(spec.model, self.rungs["run"])
        self.choice = Choice(spec.setting, "as asked") if spec.setting else own
        apply_threads(self.choice.setting)
        self.model, self.optimizer = self._new_model(spec.seed)
        where = {"profile": spec.profile, "source": spec.source, "format": spec.format}
        self.files = data.prepare_for(self.model.input_schema, self.rungs["input"], **where)
        self.batch_size = batch_size(self.model, self.rungs["input"])
        self.step = train_step(self.model, self.optimizer)
        if "loop" in self.rungs["run"] or ladder.STOCK.name in self.rungs["model"]:
            self.step = SeveralSteps(self.step)
        self._predict = predict_step(self.model)
        self._held = contextlib.ExitStack()
        self.checkpoints = self._held.enter_context(self._saver(spec.saving)) if spec.saving else None
        self._batches: Iterator | None = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exception) -> None:
        self._batches = None
        self._held.__exit__(*exception)

    @property
    def batch_count(self) -> int | None:
        """Batches in all epochs; None: no end."""
        return None if self.spec.epochs == -1 else self.spec.epochs * self.files.rows // self.batch_size

    @property
    def position(self) -> int:
        """Batches that earlier runs have trained on, and this one where it saves checkpoints."""
        return self.checkpoints.position if self.checkpoints else 0

    def read(self, setting: Setting | None = None, seed: int | None = None) -> tf.data.Dataset:
        """The batches of the training rows that are left, each with the features that the model takes.

        Args:
            setting: of the buffers; the run's own if not given.
            seed: of the order; the run's own if not given.
        """
        setting = setting or self.choice.setting
        options = {"shuffle": SHUFFLE_ROWS, "seed": self.spec.seed if seed is None else seed, "epochs": self.spec.epochs}
        options |= {"drop_remainder": True, "start": self.position, "prefetch": setting.prefetch, "lists": self._lists}
        # Where rows may lie on a disk, the stage is needed in any case: with it the keys are known before the step.
        depth = max(1, setting.stage) if self._stored else setting.stage
        return stage(self.files.read_train(self.batch_size, **options), self.model, depth)

    def train(
        self, steps: int | None = None, on_step: OnStep | Sequence[OnStep] = (), batches: Iterable | None = None
    ) -> History:
        """Takes `steps` steps on the next batches; None: all that are left, and saves the last state.

        Args:
            on_step: as of `training.train`.
            batches: other ones than the run's own; checkpoints do not count them.
        Raises:
            As `training.train`; CheckpointError: a checkpoint could not be written.
        """
        hooks = (on_step,) if callable(on_step) else tuple(on_step)
        if batches is not None:
            return train(self.model, self.optimizer, batches, steps, hooks, self.step)
        if self.checkpoints:
            hooks = (*hooks, self.checkpoints)
        history = train(self.model, self.optimizer, self.batches, steps, hooks, self.step)
        if self.checkpoints and steps is None:
            self.checkpoints.save_last()
        return history

    @property
    def batches(self) -> Iterator:
        """The iterator that the run trains on."""
        if self._batches is None:
            batches = self.read()
            if self._stored:
                rows = prefetched(batches, lambda batch: self.model.reads(batch[0]))
                batches = self._held.enter_context(contextlib.closing(rows))
            self._batches = iter(batches)
        return self._batches

    def begin_anew(self, seed: int) -> None:
        """New weights, no slots, and the rows in another order, all from `seed`; checkpoints are not for this."""
        set_state(get_state(*self._new_model(seed)), self.model, self.optimizer)
        self._batches = iter(self.read(seed=seed))

    def evaluate(self, most_rows: int | None = None) -> Evaluation:
        """AUC and log loss on the held-out rows, or about the first `most_rows` of them, in batches as large as in training:
        WDL scales its deep input by the norm of the batch, and what it was trained on is what it must be judged on."""
        batches = self.files.read_test(self.batch_size, lists=self._lists)
        if most_rows is not None:
            batches = batches.take(-(-most_rows // self.batch_size))
        return evaluate(self.model, batches, self._predict)

    def _new_model(self, seed: int):
        spec = self.spec
        model = build(spec.model, spec.data_set, self.rungs["model"], seed, spec.embedding)
        return model, make_optimizer(model, spec.hyper)

    def _saver(self, saving: Saving) -> Checkpoints:
        spec, files = self.spec, self.files
        run = {"model": spec.model, "data": f"{spec.source} {files.name}, {files.rows} rows", "batch size": str(self.batch_size)}
        return Checkpoints(
            saving.folder,
            self.model,
            self.optimizer,
            every=saving.every,
            full_every=saving.full_every,
            asynchronous="async_checkpoint" in self.rungs["run"],
            resume=saving.resume,
            run=run | spec.in_words,
        )

    @property
    def _lists(self) -> Literal["text", "ragged"]:
        """A line of CSV has its lists as text, which the model splits; in columns they are split already."""
        return "text" if self.files.format == "csv" else "ragged"

    @property
    def _stored(self) -> bool:
        return any(variable.options.storage for variable in embedding_variables(self.model))
