"""The proxy of an embedding variable, for code that expects a variable (Keras, tapes). Its shape is [0, D]; it holds no data.

Lookups take the proxy's handle, so gradients flow to it as `tf.IndexedSlices` whose indices are keys, in tapes, `fit` and
`tf.function` alike. `ctrlab.training.TouchedRows` steps the table itself; any other Keras optimizer is refused.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from ctrlab import devices
from ctrlab.embedding.table_state import TableState
from ctrlab.errors import CtrlabError

if TYPE_CHECKING:
    from ctrlab.embedding.variable import EmbeddingVariable


class Rows(np.ndarray):
    """What `get_weights` gives for an embedding variable: an array of shape [0, D] that carries the table's whole state.

    Attributes:
        state: a copy in memory, 24 + 4 D (1 + slots) bytes per row; None if NumPy made another array from this one.
    """

    state: TableState | None = None


class Proxy(keras.Variable):
    """The variable that Keras and tapes see in place of the embedding variable: shape [0, D], always empty.

    `numpy` and `assign` copy the table's state, for `get_weights`, `set_weights` and `EarlyStopping`. Keras passes the gradient
    of a variable with `overwrite_with_gradient` to its `assign`, whatever the optimizer. So a gradient that arrives in
    `assign` comes from an optimizer that can't step the table.

    Attributes:
        read_as: the dtype to which the reading layer casts the rows.
    """

    read_as = "float32"

    def __init__(self, table: EmbeddingVariable):
        # Under mixed precision Keras would pass a cast copy, but lookups need a handle, and a copy has none.
        with devices.ours():
            super().__init__("zeros", shape=(0, table.dim), dtype="float32", name=table.name, autocast=False)
        self.overwrite_with_gradient = True
        self._table = weakref.ref(table)  # the table holds this proxy: no cycle, so it goes with its last user

    @property
    def table(self) -> EmbeddingVariable:
        """The embedding variable of this proxy.

        Raises:
            CtrlabError: the variable was deleted.
        """
        table = self._table()
        if table is None:
            raise CtrlabError(
                f"Embedding variable {self.name} is gone and only its proxy is left: keep the variable, or its layer, as "
                "long as the proxy is used."
            )
        return table

    def numpy(self):
        """The table's current state, as `Rows`."""
        rows = super().numpy().view(Rows)
        rows.state = self.table.state()
        return rows

    def assign(self, value):
        """Replaces the table's content by `Rows`. Their slots are taken if the optimizer has the same ones.

        Raises:
            CtrlabError: a gradient, or an array that carries no rows.
        """
        if isinstance(value, tf.IndexedSlices):
            raise CtrlabError(
                f"Embedding variable {self.name} is trained by ctrlab.training.TouchedRows, which steps the rows of its table; "
                "received the gradient from another optimizer: compile the model with TouchedRows."
            )
        state = getattr(value, "state", None)
        if state is None:
            raise CtrlabError(
                f"Embedding variable {self.name} takes weights with their rows, as get_weights gives them; received an array "
                "without: to keep weights longer than this process, save them to a file."
            )
        if tuple(state.slots) != self.table.slot_names:
            state = replace(state, slots={})
        self.table.load_state(state)
        return self.value
