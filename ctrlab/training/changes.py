"""What training changes of a model's dense embedding tables, for copies that are kept up to date: servers, other processes.

A step touches few rows of a table [V, D]. Once tracked, a table logs which, for any number of consumers, each under a name. A
consumer's first cut is everything, each one after it the rows that changed since the version that it confirmed, as they are now;
not confirmed, they are given again. It is given everything, too, where it falls behind the log, of at most max(65,536, V) rows,
and after the table was assigned as a whole, as a restore does. Versions are the table's own, count its cuts, and never fall.

    changes = track(model, optimizer)  # before the first step
    cut = changes.cut("server")
    for table, changed in cut.items():
        send(table, changed.ids, changed.rows)
    changes.confirm("server", cut)

Embedding variables track their own: `ctrlab.embedding.table.cut`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from ctrlab import _native, keras_hooks
from ctrlab.errors import CtrlabError, choose
from ctrlab.models.tables import Embeddings
from ctrlab.ops.refusals import one_sentence
from ctrlab.training.optimizers import TouchedRows


@dataclass(frozen=True)
class Changed:
    """Of one table, what its rows are now.

    Attributes:
        ids: int64 [u], ascending. rows: float32 [u, D], of these.
        since: the consumer's version until now; None: this is everything.
        version: what the consumer has once it has this.
    """

    ids: np.ndarray
    rows: np.ndarray
    since: int | None
    version: int


class Changes:
    """The logs of a model's tables. Cuts are taken between steps; the other calls at any time, from any thread."""

    def __init__(self, tables: Mapping[str, keras.Variable]):
        self._tables = dict(tables)
        make = _native.library().ops.ctrlab_change_log
        self._logs = {id(v): make(table_name=name, rows=v.shape[0]) for name, v in self._tables.items()}
        for variable in self._tables.values():
            variable.assign = self._noting(variable, variable.assign)
            keras_hooks.wrap_restore(variable, functools.partial(self._noting, variable))

    @property
    def tables(self) -> tuple[str, ...]:
        """Paths of their variables."""
        return tuple(self._tables)

    def cut(self, consumer: str) -> dict[str, Changed]:
        """Of each table, the rows that changed since the version that the consumer confirmed; all rows, for one not known."""
        return {name: self._cut(variable, consumer) for name, variable in self._tables.items()}

    def confirm(self, consumer: str, cut: Mapping[str, Changed]) -> None:
        """The consumer has all of a cut: of those after the one that it confirmed last, or, where it has confirmed none, its last
        cut. One that is not known, as after `forget`, stays so.

        Raises:
            UnknownName: the cut names a table that is not tracked; nothing is confirmed then. CtrlabError: of a table, a version
                above that of its last cut or below the one that it confirmed last; where it has confirmed none, any but its last
                cut's. Tables before that one are confirmed. Another consumer's version between these is not noticed.
        """
        logs = {name: self._log(name) for name in cut}
        with one_sentence():
            for name, changed in cut.items():
                _native.library().ops.ctrlab_changes_confirm(log=logs[name], consumer=consumer, version=changed.version)

    def caught_up(self, consumer: str) -> dict[str, int]:
        """The consumer has what the tables hold now: the version of each."""
        caught_up = _native.library().ops.ctrlab_changes_caught_up
        return {name: int(caught_up(log=self._log(name), consumer=consumer)) for name in self._tables}

    def forget(self, consumer: str) -> None:
        """Nothing is noted for this consumer any more; its next cut is everything."""
        for name in self._tables:
            _native.library().ops.ctrlab_changes_forget(log=self._log(name), consumer=consumer)

    def forget_all(self) -> None:
        """Every consumer's next cut is everything: for one who changed a table by its `tf.Variable`, past `assign` and steps."""
        for variable in self._tables.values():
            self._start_anew(variable)

    def note(self, updates: Iterable[tuple[keras.Variable, tf.Tensor | tf.IndexedSlices]]) -> None:
        """Notes what a step has changed: the rows of a merged sparse gradient, all where it is dense. For the optimizer."""
        updates = [(variable, gradient) for variable, gradient in updates if id(variable) in self._logs]
        for variable, gradient in updates:
            if not isinstance(gradient, tf.IndexedSlices):
                self._start_anew(variable)
        sparse = [(v, gradient.indices) for v, gradient in updates if isinstance(gradient, tf.IndexedSlices)]
        if not sparse:
            return
        with tf.device("CPU:0"):
            _native.library().ops.ctrlab_mark_changes(
                logs=[self._logs[id(v)] for v, _ in sparse],
                variables=[v.value.handle for v, _ in sparse],
                ids=[tf.cast(ids, tf.int64) for _, ids in sparse],
            )

    def _log(self, name: str) -> tf.Tensor:
        return self._logs[id(self._tables[choose("table", name, self._tables)])]

    def _cut(self, variable, consumer: str) -> Changed:
        found = _native.library().ops.ctrlab_changes_cut(log=self._logs[id(variable)], consumer=consumer)
        since, version = found.numbers.numpy().tolist()
        if since < 0:
            rows = variable.value.numpy()
            return Changed(np.arange(len(rows)), rows, None, version)
        return Changed(found.ids.numpy(), tf.gather(variable.value, found.ids).numpy(), since, version)

    def _start_anew(self, variable) -> None:
        with tf.device("CPU:0"):
            _native.library().ops.ctrlab_changes_start_anew(log=self._logs[id(variable)], variable=variable.value.handle)

    def _noting(self, variable, assign):
        """A method that assigns the variable, noted: what restores, loads or sets weights calls such a one."""

        def noted(value):
            assigned = assign(value)
            self._start_anew(variable)
            return assigned

        return noted


def track(model: keras.Model, optimizer: TouchedRows) -> Changes:
    """Logs, from here on, what the optimizer changes of the model's dense embedding tables: ours, and `keras.layers.Embedding`s.

    A step of the optimizer has one op more then, where the tables are. Without tracking nothing is added to it.

    Raises:
        CtrlabError: a step was traced already, which would note nothing; the model has no such table; another optimizer.

    >>> changes = track(model, optimizer)  # doctest: +SKIP
    """
    if not isinstance(optimizer, TouchedRows):
        raise CtrlabError(
            f"`track` takes a ctrlab.training.TouchedRows; received {type(optimizer).__name__}: train the model with one."
        )
    if optimizer.changes or optimizer.was_traced:
        had = "is tracked already" if optimizer.changes else "has traced a step without it"
        raise CtrlabError(f"Changes are tracked from before an optimizer's first step; {optimizer.name} {had}: make a new one.")
    tables = {}
    for layer in keras_hooks.all_layers(model):
        if isinstance(layer, Embeddings):
            tables |= {table.path: table for table in layer.tables.values()}
        elif isinstance(layer, keras.layers.Embedding):
            tables[layer.embeddings.path] = layer.embeddings
    if not tables:
        raise CtrlabError(
            f"Changes are tracked of dense embedding tables; {model.name} has none that is built: build the model first."
        )
    optimizer.changes = Changes(tables)
    return optimizer.changes
