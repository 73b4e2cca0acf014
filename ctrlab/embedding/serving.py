"""The serving copy of embedding variables in a SavedModel: keys and values at the moment of the export.

The exported object is separate from the model, which can go on training and be saved as usual. If several sessions, or several
calls of `tf.saved_model.load`, load the same SavedModel in one process, its rows are in memory once. A later load still reads
the rows from the file and discards them.
"""

from __future__ import annotations

import secrets

import tensorflow as tf

from ctrlab import keras_hooks
from ctrlab.embedding.table.resource import WHOLE, export_all, import_tensors
from ctrlab.embedding.table_state import FIELDS, ROWS
from ctrlab.embedding.variable import EmbeddingVariable, embedding_variables
from ctrlab.errors import CtrlabError


class Served(keras_hooks.Resource):
    """An embedding variable in a SavedModel: keys and values, without slots, counts, filter and storage.

    Functions that look up in the variable use this copy if they are exported with it and without the variable itself.

    Args:
        container, served_name: all sessions of a process find one table under these names.
    """

    def __init__(self, table: EmbeddingVariable, container: str, served_name: str):
        super().__init__(device="CPU:0")
        self.table, self.container, self.served_name = table, container, served_name
        self._exported = False

    @property
    def resource_handle(self) -> tf.Tensor:
        """The variable's own handle. The export replaces it by the handle that `make_handle` makes."""
        return self.table.resource_handle if self.own_handle is None else self.own_handle

    def make_handle(self) -> tf.Tensor:
        return self.table.make(None, None, self.container, self.served_name)

    def before_export(self) -> None:
        if self._exported:
            raise CtrlabError(
                f"What is served is exported once; embedding variable {self.table.name} was: call served(model) for each export."
            )
        self.table.require_one_piece(served=True)
        self._exported = True

    def saved_tensors(self) -> dict[str, tf.Tensor]:
        parts = export_all(self.resource_handle)
        return {"keys": parts.keys, "values": parts.values}

    def restore_tensors(self, tensors: dict[str, tf.Tensor]):
        n = tf.shape(tensors["keys"])[0]
        rest = {name: tf.zeros([n if name in ROWS else 0], dtype) for name, dtype in FIELDS.items() if name not in tensors}
        slots = {"slots": tf.zeros([0, n, self.table.dim]), "slot_names": tf.zeros([0], tf.string)}
        return import_tensors(self.resource_handle, tensors | rest | slots, WHOLE, "all")


class ServedTables(tf.Module):
    """The embedding variables of a model, each as `Served`: see `served`.

    Attributes:
        container: names the tables of this SavedModel in the process that loads it; each export gets a new one.
        tables: in the order of the model's weights. Their `served_name` is the variable's name, with a number added if several
            variables of the model have that name.
    """

    def __init__(self, tables: list[EmbeddingVariable]):
        super().__init__()
        self.container = secrets.token_hex(16)
        names = [table.name for table in tables]
        earlier = [names[:t].count(name) for t, name in enumerate(names)]
        shared = [f"{name}/{n}" if n else name for name, n in zip(names, earlier)]  # no variable's name has a slash
        self.tables = [Served(table, self.container, name) for table, name in zip(tables, shared)]


def served(model) -> ServedTables:
    """The serving copies of a Keras model's or layer's embedding variables. An export tracks them in place of the model.

    The SavedModel has keys and values at the moment it is written; of the other weights it has those that its endpoints use. The
    six models export this way by themselves. An export that tracks the model itself (`model.export`,
    `tf.saved_model.save(model)`) contains everything that the variables hold.

    >>> archive = keras.export.ExportArchive()  # doctest: +SKIP
    >>> archive.track(served(model))
    >>> archive.add_endpoint("serve", lambda keys: model(keys, training=False), [model.input])
    >>> archive.write_out("served")
    """
    return ServedTables(embedding_variables(model))
