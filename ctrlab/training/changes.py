"""Tracks which rows of a model's dense embedding tables training changes, for copies in servers and other processes.

A step touches few rows of a table [V, D]. A tracked table logs these rows for any number of named consumers. A consumer's first
cut gives everything. Each later cut gives the current content of the rows that changed since the version that the consumer
confirmed, so unconfirmed changes are given again. The log holds at most max(65,536, V) rows. A consumer that falls behind it is
given everything, as is every consumer after the whole table was assigned (a restore does this). A table's version counts its
cuts and never decreases.

    changes = track(model, optimizer)  # before the first step
    cut = changes.cut("server")
    for table, changed in cut.items():
        send(table, changed.ids, changed.rows)
    changes.confirm("server", cut)

Embedding variables do this themselves: `ctrlab.embedding.table.cut`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from ctrlab import _native, devices, keras_hooks
from ctrlab.errors import CtrlabError, choose
from ctrlab.models.tables import Embeddings
from ctrlab.ops.refusals import one_sentence
from ctrlab.training.optimizers import TouchedRows


@dataclass(frozen=True)
class Changed:
    """The changed rows of one table, with their current content.

    Attributes:
        ids: int64 [u], ascending. rows: float32 [u, D], the rows of these ids.
        since: the consumer's version before this cut; None: the cut gives everything.
        version: the consumer's version once it has these rows.
    """

    ids: np.ndarray
    rows: np.ndarray
    since: int | None
    version: int


class Changes:
    """The change logs of a model's tables. Take cuts between steps; all other methods are thread-safe at any time."""

    def __init__(self, tables: Mapping[str, keras.Variable]):
        self._tables = dict(tables)
        make = _native.library().ops.ctrlab_change_log
        self._logs = {id(v): make(table_name=name, rows=v.shape[0]) for name, v in self._tables.items()}
        for variable in self._tables.values():
            variable.assign = self._noting(variable, variable.assign)
            keras_hooks.wrap_restore(variable, functools.partial(self._noting, variable))

    @property
    def tables(self) -> tuple[str, ...]:
        """The paths of the tables' variables."""
        return tuple(self._tables)

    def cut(self, consumer: str) -> dict[str, Changed]:
        """For each table, the rows that changed since the version that the consumer confirmed; all rows for a new consumer."""
        return {name: self._cut(variable, consumer) for name, variable in self._tables.items()}

    def confirm(self, consumer: str, cut: Mapping[str, Changed]) -> None:
        """Says that the consumer has everything up to this cut: its last one, or an earlier one after the cut it confirmed last.
        A consumer that has confirmed nothing can only confirm its last cut. An unknown one, as after `forget`, stays unknown.

        Raises:
            UnknownName: the cut names a table that is not tracked; nothing is confirmed. CtrlabError: for some table, a version
                above the consumer's last cut or below its last confirmed version; before the first confirmation, any version but
                the last cut's. Earlier tables in the cut are confirmed. A version of another consumer in that range is not
                noticed.
        """
        logs = {name: self._log(name) for name in cut}
        with one_sentence():
            for name, changed in cut.items():
                _native.library().ops.ctrlab_changes_confirm(log=logs[name], consumer=consumer, version=changed.version)

    def caught_up(self, consumer: str) -> dict[str, int]:
        """Says that the consumer has what the tables hold now; returns the version of each table."""
        caught_up = _native.library().ops.ctrlab_changes_caught_up
        return {name: int(caught_up(log=self._log(name), consumer=consumer)) for name in self._tables}

    def forget(self, consumer: str) -> None:
        """Stops logging for this consumer; its next cut gives everything."""
        for name in self._tables:
            _native.library().ops.ctrlab_changes_forget(log=self._log(name), consumer=consumer)

    def forget_all(self) -> None:
        """Makes every consumer's next cut give everything. Call it after changing a table through its raw `tf.Variable`."""
        for variable in self._tables.values():
            self._reset_log(variable)

    def note(self, updates: Iterable[tuple[keras.Variable, tf.Tensor | tf.IndexedSlices]]) -> None:
        """Logs what a step changed: the rows of a merged sparse gradient, or all of a dense one. The optimizer calls this."""
        updates = [(variable, gradient) for variable, gradient in updates if id(variable) in self._logs]
        for variable, gradient in updates:
            if not isinstance(gradient, tf.IndexedSlices):
                self._reset_log(variable)
        sparse = [(v, gradient.indices) for v, gradient in updates if isinstance(gradient, tf.IndexedSlices)]
        if not sparse:
            return
        logs = [self._logs[id(v)] for v, _ in sparse]
        _native.library().ops.ctrlab_mark_changes(
            logs=logs,
            variables=[_order(v, log) for (v, _), log in zip(sparse, logs)],
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

    def _reset_log(self, variable) -> None:
        log = self._logs[id(variable)]
        _native.library().ops.ctrlab_changes_start_anew(log=log, variable=_order(variable, log))

    def _noting(self, variable, assign):
        """Wraps a method that assigns the variable, so that the assignment is logged. Restoring and loading weights call it."""

        def noted(value):
            assigned = assign(value)
            self._reset_log(variable)
            return assigned

        return noted


def _order(variable: keras.Variable, log: tf.Tensor) -> tf.Tensor:
    """The handle for which an op on the log waits in a function. The op can't take that of a table on a GPU; there the log may
    know of a change before it is made, which no cut between two steps sees.
    """
    return variable.value.handle if devices.is_ours(variable.value) else log


def track(model: keras.Model, optimizer: TouchedRows) -> Changes:
    """Starts to log the optimizer's changes to the model's dense embedding tables: ours and `keras.layers.Embedding`s.

    It adds one op to each step of the optimizer, on the device of the tables. Untracked optimizers are not affected.

    Raises:
        CtrlabError: a step was already traced without logging, the model has no such table, or the optimizer is another one.

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
