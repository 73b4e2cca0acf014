"""The model to beat: logistic regression on hashed one-hots of all ids, lists as multi-hots, and the scaled numbers."""

import numpy as np
import scipy.sparse as sparse
import tensorflow as tf
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from ctrlab.schema import Numeric, NumericList

WORDS = 2**13  # a column


def matrix(schema, batches) -> sparse.csr_matrix:
    """One row a row: WORDS columns for each id column, then the numbers."""
    return sparse.vstack([_rows(schema, features) for features, _ in batches]).tocsr()


def _rows(schema, features):
    blocks = []
    for column in schema.features:
        values = features[column.name]
        if isinstance(column, Numeric | NumericList):
            number = tf.reduce_mean(values, 1) if isinstance(column, NumericList) else values
            blocks.append(sparse.csr_matrix(np.nan_to_num(np.log1p(np.maximum(number.numpy(), 0)))[:, None]))
            continue
        flat = values.flat_values if isinstance(values, tf.RaggedTensor) else values
        splits = values.row_splits.numpy() if isinstance(values, tf.RaggedTensor) else np.arange(len(flat) + 1)
        text = flat if flat.dtype == tf.string else tf.strings.as_string(flat)
        ids = tf.strings.to_hash_bucket_fast(text, WORDS).numpy()
        blocks.append(sparse.csr_matrix((np.ones(len(ids)), ids, splits), shape=(len(splits) - 1, WORDS)))
    return sparse.hstack(blocks)


def labels_of(batches) -> np.ndarray:
    return np.concatenate([labels for _, labels in batches])  # [rows, K]


def auc(schema, train, test) -> dict[str, float]:
    """AUC by label on `test`, trained on `train`: lists of batches with ragged lists."""
    x, x_test, y, y_test = matrix(schema, train), matrix(schema, test), labels_of(train), labels_of(test)
    scale = abs(x).max(axis=0).toarray().ravel()
    x, x_test = (m @ sparse.diags(1 / np.maximum(scale, 1e-9)) for m in (x, x_test))
    found = {}
    for k, label in enumerate(schema.labels):
        model = LogisticRegression(C=0.03, solver="liblinear", tol=0.01).fit(x, y[:, k])
        found[label.name] = float(roc_auc_score(y_test[:, k], model.decision_function(x_test)))
    return found
