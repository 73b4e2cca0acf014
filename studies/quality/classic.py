"""The classic models that a click model has to beat: logistic regression and gradient boosting, both scikit-learn's.

Logistic regression gets every id hashed and one-hot, lists as bags, and every number as one of its quantile bins or as missing.
It has no pairs of columns. Gradient boosting gets numbers, ids as the smoothed label rate of their rows (scikit-learn's
TargetEncoder, cross-fitted), and for each history how often the candidate's id occurs in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import scipy.sparse as sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import KFold
from sklearn.preprocessing import TargetEncoder

from ctrlab.schema import Categorical, Column, Numeric, NumericList, Schema

WORDS = 1 << 18
"""Number of hashed one-hot columns per column of the schema, so that few words of one column collide."""

BINS = 50
"""Number of quantile bins of a numeric column; fewer if many rows have the same number."""

STRENGTHS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Inverse strengths C of the L2 penalty that are tried on the validation rows."""


def logistic(schema: Schema, label: str, fit: pa.Table, validation: pa.Table) -> tuple[LogisticRegression, OneHot]:
    """Logistic regression: C is the one with the highest AUC on `validation`, then it is fitted to both parts."""
    hot = OneHot(schema, fit)
    x, held = hot(fit), hot(validation)
    y, seen = labels(fit, label), labels(validation, label)
    scores = {c: roc_auc_score(seen, _regression(c).fit(x, y).decision_function(held)) for c in STRENGTHS}
    model = _regression(max(scores, key=scores.get)).fit(sparse.vstack([x, held]), np.concatenate([y, seen]))
    return model, hot


def _regression(strength: float) -> LogisticRegression:
    return LogisticRegression(C=strength, max_iter=1_000, tol=1e-5)


def boosting(schema: Schema, label: str, fit: pa.Table, validation: pa.Table) -> tuple[HistGradientBoostingClassifier, Rates]:
    """Gradient boosting with early stopping on `validation`."""
    rates = Rates(schema, fit, label)
    model = HistGradientBoostingClassifier(learning_rate=0.05, max_iter=500, max_leaf_nodes=31, early_stopping=True)
    model.fit(rates.fitted, labels(fit, label), X_val=rates(validation), y_val=labels(validation, label))
    return model, rates


class OneHot:
    """Converts rows to a sparse matrix. The bins of numbers, and the words with a column, come from the rows with which it was
    made.
    """

    def __init__(self, schema: Schema, rows: pa.Table):
        self.columns = [c for c in schema.features if not getattr(c, "negative_of", "")]
        self.edges = {c.name: _edges(_values(c, rows[c.name])) for c in self.columns if isinstance(c, Numeric | NumericList)}
        self.used = slice(None)
        self.used = np.flatnonzero(self(rows).getnnz(axis=0))  # a word that was not seen has no weight

    def __call__(self, rows: pa.Table) -> sparse.csr_matrix:
        """float64 [rows, words and bins]."""
        parts = [self._binned(c, rows) if c.name in self.edges else _bag(rows[c.name]) for c in self.columns]
        return sparse.hstack(parts).tocsr()[:, self.used]

    def _binned(self, column: Column, rows: pa.Table) -> sparse.csr_matrix:
        x, edges = _values(column, rows[column.name]), self.edges[column.name]
        bins = np.where(np.isnan(x), 0, 1 + np.searchsorted(edges, x))
        return sparse.csr_matrix((np.ones(len(x)), bins, np.arange(len(x) + 1)), shape=(len(x), len(edges) + 2))


class Rates:
    """Converts rows to a dense matrix for trees.

    Attributes:
        fitted: the matrix of the rows with which it was made; their rates leave out each row's own label.
    """

    def __init__(self, schema: Schema, rows: pa.Table, label: str):
        numbers = [c for c in schema.features if isinstance(c, Numeric | NumericList)]
        self.numbers = [c for c in numbers if not np.isnan(_values(c, rows[c.name])).all()]  # scikit-learn can't bin nothing
        self.words = [c for c in schema.features if isinstance(c, Categorical)]
        self.histories = [c for c in schema.histories if c.of]
        self.encoder = TargetEncoder(cv=KFold(5, shuffle=True, random_state=0))
        self.fitted = self._joined(
            rows, [self.encoder.fit_transform(self._words(rows), labels(rows, label))] if self.words else []
        )

    def __call__(self, rows: pa.Table) -> np.ndarray:
        """float64 [rows, columns]."""
        return self._joined(rows, [self.encoder.transform(self._words(rows))] if self.words else [])

    def _words(self, rows: pa.Table) -> np.ndarray:
        return np.stack([np.array(_text(rows[c.name]), dtype=object) for c in self.words], axis=1)

    def _joined(self, rows: pa.Table, parts: list[np.ndarray]) -> np.ndarray:
        if self.numbers:
            parts = [*parts, _numbers(self.numbers, rows)]
        shares = [_share(rows[c.name].to_pylist(), _text(rows[c.of])) for c in self.histories]
        return np.concatenate([*parts, *shares], axis=1)


def labels(rows: pa.Table, label: str) -> np.ndarray:
    """int64 [rows]"""
    return rows[label].to_numpy().astype(np.int64)


def quality(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    """AUC and log loss of probabilities [rows]."""
    return {"auc": float(roc_auc_score(y, p)), "log_loss": float(log_loss(y, p.astype(np.float64), labels=[0, 1]))}


def _numbers(columns: Sequence[Column], rows: pa.Table) -> np.ndarray:
    """The numeric columns, float64 [rows, columns]; NaN if missing."""
    return np.stack([_values(c, rows[c.name]) for c in columns], axis=1)


def _values(column: Column, values: pa.ChunkedArray) -> np.ndarray:
    """A column's numbers, or the means of its lists, float64 [rows]; NaN if missing."""
    if isinstance(column, NumericList):
        return np.array([np.mean(entries) if entries else np.nan for entries in values.to_pylist()], np.float64)
    return values.to_numpy().astype(np.float64)


def _edges(x: np.ndarray) -> np.ndarray:
    """The distinct quantiles of a column, as the edges of bins."""
    return np.unique(np.nanquantile(x, np.arange(1, BINS) / BINS)) if not np.isnan(x).all() else np.empty(0)


def _bag(values: pa.ChunkedArray) -> sparse.csr_matrix:
    entries = values.to_pylist()
    words = ([str(w) for w in row or ()] if isinstance(row, list) else [str(row or "")] for row in entries)
    return FeatureHasher(WORDS, input_type="string", alternate_sign=False).transform(words)


def _text(values: pa.ChunkedArray) -> list[str]:
    return [str(word or "") for word in values.to_pylist()]


def _share(histories: list, candidates: list[str]) -> np.ndarray:
    """The fraction of a history's events whose id is the candidate's, and the history's length: float64 [rows, 2]."""
    found = [(sum(str(e) == c for e in h or ()) / max(1, len(h or ())), len(h or ())) for h, c in zip(histories, candidates)]
    return np.array(found, np.float64)
