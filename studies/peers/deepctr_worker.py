"""DeepCTR's side: its own DeepFM and DIN at our sizes, trained with a compiled step and Keras's Adagrad.

It runs in its own environment, with deepctr, tf_keras and TensorFlow. DeepCTR has no DLRM.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import metadata

import numpy as np

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # must be set before TensorFlow is imported: DeepCTR is written for Keras 2

import tensorflow as tf

from studies.peers import cases
from studies.peers.cases import Batch, Case
from studies.peers.session import Running, serve_cases

# DeepCTR is imported late: a thread of its import prints, which must not go into the stream of answers.


def prepare_deepfm(case: Case, batches: list[Batch], threads: int) -> Running:
    from deepctr.feature_column import DenseFeat, SparseFeat
    from deepctr.models import DeepFM

    _set_threads(threads)
    columns = [SparseFeat(f"C{t}", case.rows, embedding_dim=case.dim) for t in range(case.tables)]
    columns.append(DenseFeat("numbers", case.numbers))
    model = DeepFM(
        columns, columns, dnn_hidden_units=case.units["deep"], dnn_use_bn=True, l2_reg_linear=0.0, l2_reg_embedding=0.0
    )

    def features(batch: Batch) -> dict[str, np.ndarray]:
        return {f"C{t}": ids for t, ids in enumerate(batch["ids"])} | {"numbers": batch["numbers"]}

    return _running(model, features, batches, "no second tower (128-64); pairs summed to one number")


def prepare_din(case: Case, batches: list[Batch], threads: int) -> Running:
    from deepctr.feature_column import SparseFeat, VarLenSparseFeat
    from deepctr.models import DIN

    _set_threads(threads)
    # Row 0 is for padding, so ids are shifted by one.
    singles = [SparseFeat(name, case.sizes[name] + 1, embedding_dim=case.dim) for name in ("user", "item", "category")]
    lists = [
        VarLenSparseFeat(
            SparseFeat(f"hist_{name}", case.sizes[name] + 1, embedding_dim=case.dim, embedding_name=name), case.longest
        )
        for name in ("item", "category")
    ]
    model = DIN(
        singles + lists,
        ["item", "category"],
        dnn_hidden_units=case.units["head"],
        att_hidden_size=case.units["attention"],
        att_activation="sigmoid",
        att_weight_normalization=True,
        l2_reg_embedding=0.0,
    )

    def features(batch: Batch) -> dict[str, np.ndarray]:
        padded = {f"hist_{name}": _padded(batch[many] + 1, batch["splits"], case.longest) for name, many in _LISTS}
        return {name: batch[name] + 1 for name in ("user", "item", "category")} | padded

    return _running(model, features, batches, "histories padded to the longest; no layer on the target, no sum of the history")


_LISTS = (("item", "items"), ("category", "categories"))


def _padded(ids: np.ndarray, splits: np.ndarray, longest: int) -> np.ndarray:
    """Flat lists [N] -> [B, T], with zeros after each list's end."""
    made = np.zeros((len(splits) - 1, longest), ids.dtype)
    made[np.arange(longest) < np.diff(splits)[:, None]] = ids
    return made


def _set_threads(threads: int) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def _running(model, features: Callable, batches: list[Batch], note: str) -> Running:
    # The legacy optimizer is faster here: its sparse step is one TensorFlow op on the touched rows.
    optimizer = tf.keras.optimizers.legacy.Adagrad(cases.LEARNING_RATE, initial_accumulator_value=cases.FIRST_ACCUMULATOR)
    loss_of = tf.keras.losses.BinaryCrossentropy()

    @tf.function(reduce_retracing=True)
    def step(inputs, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    given = [{name: tf.constant(array) for name, array in features(batch).items()} for batch in batches]
    labels = [tf.constant(batch["labels"]) for batch in batches]
    versions = f"DeepCTR {metadata.version('deepctr')} on TensorFlow {tf.__version__}"
    return Running(lambda i: float(step(given[i], labels[i])), versions, note=note)


if __name__ == "__main__":
    serve_cases({"deepfm": prepare_deepfm, "din": prepare_din})
