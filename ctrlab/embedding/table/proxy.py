"""What stands for an embedding variable where Keras and tapes expect a variable: one of shape [0, D] that holds nothing.

Lookups take its handle, so their gradient flows to it, as `tf.IndexedSlices` whose indices are keys, through tapes, `fit` and
`tf.function` alike; `ctrlab.training.TouchedRows` steps the table instead of it, and any other Keras optimizer is refused.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from ctrlab.embedding.table_state import TableState
from ctrlab.errors import CtrlabError

if TYPE_CHECKING:
    from ctrlab.embedding.variable import EmbeddingVariable


class Rows(np.ndarray):
    """What `get_weights` gives of an embedding variable: an array of shape [0, D], with all that the table holds beside it.

    Attributes:
        state: a copy in memory, of 24 + 4 D (1 + slots) bytes a row; None where NumPy has made another array of this one.
    """

    state: TableState | None = None


class Proxy(keras.Variable):
    """What Keras and tapes take for the embedding variable: shape [0, D], always empty.

    What Keras copies and puts back by `numpy` and `assign` (`get_weights`, `set_weights`, `EarlyStopping`) is the table's state.
    Keras hands the gradient of a variable that says `overwrite_with_gradient` to its `assign`, whatever the optimizer. So a
    gradient that arrives there comes from one that would not have stepped the table.

    Attributes:
        read_as: the type that its rows are cast to by the layer that reads them.
    """

    read_as = "float32"

    def __init__(self, table: EmbeddingVariable):
        # Under mixed precision Keras gives a copy in fewer bits, and lookups take a handle, which a copy has not.
        super().__init__("zeros", shape=(0, table.dim), dtype="float32", name=table.name, autocast=False)
        self.overwrite_with_gradient = True
        self._table = weakref.ref(table)  # which holds this: so a table, and the files below it, go with their last user

    @property
    def table(self) -> EmbeddingVariable:
        """The embedding variable that this stands for.

        Raises:
            CtrlabError: nobody holds it any more.
        """
        table = self._table()
        if table is None:
            raise CtrlabError(
                f"Embedding variable {self.name} is gone and only its proxy is left: keep the variable, or its layer, as "
                "long as the proxy is used."
            )
        return table

    def numpy(self):
        """The table as it is now, as `Rows`."""
        rows = super().numpy().view(Rows)
        rows.state = self.table.state()
        return rows

    def assign(self, value):
        """Takes `Rows`: all of them in place of what the table holds, with their slots if the optimizer has the same.

        Raises:
            CtrlabError: a gradient, or an array that has no rows with it.
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
