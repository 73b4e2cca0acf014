"""The small model of the lessons on embedding variables: a factorization machine in NumPy, with one table per column.

    logit = b + sum_f w_f + sum_{f < g} v_f . v_g        the row of an id is [w | v]

    Rendle, "Factorization Machines", ICDM 2010.

Its tables are `ctrlab.embedding.reference.ReferenceTable`: the definition of an embedding variable, slow and easy to look into.
`ctrlab.lessons.compiled_machine` has the same model on the engine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from sklearn.metrics import roc_auc_score

from ctrlab.embedding.initial_values import initial_values
from ctrlab.embedding.options import Initializer, Options
from ctrlab.embedding.reference import ReferenceTable
from ctrlab.embedding.table_state import TableState
from ctrlab.ops.sparse_update import Rule

Batch = tuple[dict[str, np.ndarray], np.ndarray]


class FactorizationMachine:
    """A model with `step` for training and `predict` for answers.

    Args:
        columns: columns with one id per row each.
        options: options of every table, or {column: options}; a column that is left out keeps every id.
        dim: D, the numbers of v; a row has one number more.
        seed: seed of the rows' initial values, which are uniform for any initializer in the options.
    Attributes:
        tables: {column: ReferenceTable}. steps: number of steps taken.
    """

    learning_rate = 0.1

    def __init__(
        self, columns: Iterable[str], options: Options | Mapping[str, Options] | None = None, dim: int = 8, seed: int = 0
    ):
        self.dim, self.bias, self.steps = dim, 0.0, 0
        self._bias_squares = 0.1
        of = (lambda c: options.get(c, Options())) if isinstance(options, Mapping) else lambda c: options or Options()
        self.tables = {
            c: self._table(c, dataclasses.replace(of(c), initializer=Initializer("uniform", -0.05, 0.05, seed + i)))
            for i, c in enumerate(columns)
        }

    def _table(self, column: str, options: Options):
        dim = 1 + self.dim
        return ReferenceTable(dim, options, lambda keys: initial_values(options.initializer, keys, dim), Rule("adagrad"))

    def step(self, ids: Mapping[str, np.ndarray], labels: np.ndarray) -> float:
        """Takes one step of Adagrad on int64 ids [B] by column and labels [B]. Returns the mean cross-entropy before it."""
        self.steps += 1
        rows = self._rows(ids, training=True)
        logit, vectors = self._logit(rows)
        probability = 1 / (1 + np.exp(-logit))
        error = (probability - labels) / len(labels)
        of_vectors = error[:, None] * (vectors - rows[..., 1:])  # [F, B, D]
        of_weights = np.broadcast_to(error[:, None], (*of_vectors.shape[:2], 1))
        self._update(ids, np.concatenate([of_weights, of_vectors], axis=2))
        self._bias_squares += error.sum() ** 2
        self.bias -= self.learning_rate * error.sum() / np.sqrt(self._bias_squares)
        return float(np.mean(np.logaddexp(0, logit) - labels * logit))

    def predict(self, ids: Mapping[str, np.ndarray]) -> np.ndarray:
        """Logits [B] as in serving: an id without a row reads zeros."""
        return self._logit(self._rows(ids, training=False))[0]

    def states(self) -> dict[str, TableState]:
        """The whole content of each table, by column."""
        return {column: table.state() for column, table in self.tables.items()}

    def rows(self) -> int:
        """The number of rows of all tables together."""
        return sum(len(table.rows) for table in self.tables.values())

    def evict(self) -> int:
        """Applies each table's eviction at this step. Returns the number of removed rows."""
        return sum(table.evict(self.steps) for table in self.tables.values())

    def _rows(self, ids, training: bool) -> np.ndarray:
        return np.stack([table.lookup(ids[column], training) for column, table in self.tables.items()])  # [F, B, 1 + D]

    def _update(self, ids, gradients: np.ndarray) -> None:
        for (column, table), gradient in zip(self.tables.items(), gradients):  # [B, 1 + D]
            table.update(ids[column], gradient, self.learning_rate, self.steps)

    def _logit(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits [B] and the sum of the vectors [B, D]."""
        weights, vectors = rows[..., 0], rows[..., 1:]
        total = vectors.sum(0)  # [B, D]
        pairs = 0.5 * (np.square(total) - np.square(vectors).sum(0)).sum(1)  # [B]
        return self.bias + weights.sum(0) + pairs, total


def train(model: FactorizationMachine, batches: Iterable[Batch], evict_every: int = 0) -> list[float]:
    """Takes one step per batch, and returns the losses. With `evict_every`, the tables evict once per that many steps."""
    losses = []
    for ids, labels in batches:
        losses.append(model.step(ids, labels))
        if evict_every and model.steps % evict_every == 0:
            model.evict()
    return losses


def auc(model: FactorizationMachine, batches: Iterable[Batch]) -> float:
    """The fraction of pairs of a click and a non-click in which the click has the higher logit; ties count half."""
    asked = [(model.predict(ids), labels) for ids, labels in batches]
    scores, labels = (np.concatenate(part) for part in zip(*asked))
    return float(roc_auc_score(labels, scores))


def read(dataset, columns: Iterable[str]) -> Iterator[Batch]:
    """Batches made from a reader's `(features, labels)`: the 64-bit fingerprints of the columns' words, and the first task's
    labels.
    """
    import tensorflow as tf

    for features, labels in dataset:
        yield {c: tf.strings.to_hash_bucket_fast(features[c], (1 << 63) - 1).numpy() for c in columns}, labels.numpy()[:, 0]
