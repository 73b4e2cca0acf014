"""The AUC of one task, as a metric of Keras's `fit` and `evaluate`."""

from __future__ import annotations

import keras

THRESHOLDS = 10_000
"""So many make the error of the area small beside that of a validation set's size."""


@keras.saving.register_keras_serializable("ctrlab")
class TaskAUC(keras.metrics.AUC):
    """The AUC of column `task` of labels and logits, [B, K] each. Keras's own AUC of several columns is their mean.

    >>> metric = TaskAUC(task=1, name="auc_buy")
    >>> metric.update_state([[0, 1], [1, 0], [0, 1]], [[0.0, 2.0], [0.0, -1.0], [0.0, 0.5]])
    >>> round(float(metric.result()), 3)
    1.0
    """

    def __init__(self, task: int, name: str = "auc", dtype=None):
        super().__init__(num_thresholds=THRESHOLDS, from_logits=True, name=name, dtype=dtype)
        self.task = task

    def update_state(self, y_true, y_pred, sample_weight=None):
        k = slice(self.task, self.task + 1)
        y_true, y_pred = keras.ops.convert_to_tensor(y_true), keras.ops.convert_to_tensor(y_pred)
        super().update_state(y_true[:, k], y_pred[:, k], sample_weight)

    def get_config(self):
        return {"task": self.task, "name": self.name, "dtype": self.dtype}


def aucs(tasks) -> list[TaskAUC]:
    """One a task: "auc" if there is only one, otherwise "auc_<label>"."""
    return [TaskAUC(k, "auc" if len(tasks) == 1 else f"auc_{task}") for k, task in enumerate(tasks)]
