"""The AUC of one task, as a metric of Keras's `fit` and `evaluate`."""

from __future__ import annotations

import keras

from ctrlab.embedding.options import require_whole
from ctrlab.errors import BadData

THRESHOLDS = 10_000
"""Number of thresholds. With this many, the error of the area is small beside the sampling error of a validation set."""


@keras.saving.register_keras_serializable("ctrlab")
class TaskAUC(keras.metrics.AUC):
    """The AUC of column `task` of labels and logits, [B, K] each, or [B] for one task. Keras's own AUC of several columns is
    their mean.

    Raises:
        CtrlabError: `task` is not a whole number of at least 0. BadData, in `update_state`: labels or logits without that column.

    >>> metric = TaskAUC(task=1, name="auc_buy")
    >>> metric.update_state([[0, 1], [1, 0], [0, 1]], [[0.0, 2.0], [0.0, -1.0], [0.0, 0.5]])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, task: int, name: str = "auc", dtype=None):
        require_whole("The column of a TaskAUC", task, 0, 31)
        super().__init__(num_thresholds=THRESHOLDS, from_logits=True, name=name, dtype=dtype)
        self.task = task

    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(self._column("labels", y_true), self._column("logits", y_pred), sample_weight)

    def _column(self, what: str, values):
        values = keras.ops.convert_to_tensor(values)
        if len(values.shape) == 1:
            values = values[:, None]  # [B, 1]
        if len(values.shape) != 2 or (values.shape[1] is not None and values.shape[1] <= self.task):
            received = f"received {what} {[*values.shape]}"
            raise BadData(f"{self.name} takes column {self.task} of {what} [B, K]; {received}: give a column for each task.")
        return values[:, self.task : self.task + 1]

    def get_config(self):
        return {"task": self.task, "name": self.name, "dtype": self.dtype}


def aucs(tasks) -> list[TaskAUC]:
    """One metric per task: "auc" if there is only one task, otherwise "auc_<label>"."""
    return [TaskAUC(k, "auc" if len(tasks) == 1 else f"auc_{task}") for k, task in enumerate(tasks)]
