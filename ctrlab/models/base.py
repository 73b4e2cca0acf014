"""What all six models are: a Keras model over a Schema, with its weights made at once and under stable names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import keras
import tensorflow as tf

from ctrlab import keras_hooks
from ctrlab import optimizations as ladder
from ctrlab.embedding import EmbeddingVariable, choices
from ctrlab.embedding.serving import served
from ctrlab.errors import CtrlabError
from ctrlab.features import Schema, entry_dtype
from ctrlab.model_names import DATA_SETS
from ctrlab.profiling.work import Work


@dataclass(frozen=True)
class Hyper:
    """How the model's paper or the contest trains it.

    Attributes:
        optimizer: a kind of `ctrlab.training.optimizers`.
        clip_norm: per variable, on the merged gradient; None for none.
    """

    optimizer: str
    learning_rate: float
    clip_norm: float | None = None
    batch_size: int = 512


class CTRModel(keras_hooks.Served, keras.Model):
    """A click model: features of a Schema in, one logit a task out.

    Called with the features of a batch (see `ctrlab.features` for their types) it returns logits, float32 [B, K], with K the
    number of the schema's labels. A subclass makes every variable in its constructor, so that a new model has its weights
    and a checkpoint of one set of optimizations loads into any other.

    Attributes:
        hyper: optimizer, learning rate, clipping and batch size.
        most_buckets: where the contest hashes smaller than the data set's schema says, the number; else None.
        rungs: the optimizations of level "model" that are on.
        choices: how each table keeps its embeddings, {table: `ctrlab.embedding.choices.Choice`}.
        input_schema: the schema with the ids that those choices want: what raw columns, and encoded files, are read by.
    """

    hyper: ClassVar[Hyper]
    most_buckets: ClassVar[int | None] = None

    def __init__(self, schema: Schema, optimizations="none", seed: int = 2021, embedding="hashed", name: str | None = None):
        super().__init__(name=name or type(self).__name__.lower())
        if not schema.labels:
            raise CtrlabError(f"A model needs at least one Label column; schema {schema.name!r} has none.")
        self.schema = schema
        self.choices = choices.resolve(embedding, schema)
        self.input_schema = choices.input_schema(schema, self.choices)
        self.rungs = frozenset(ladder.resolve(optimizations, level="model"))
        self.seed = seed
        self.tasks = tuple(label.name for label in schema.labels)

    @property
    def data_set(self) -> str:
        """The data set that this model takes when no schema is given."""
        return DATA_SETS[type(self).__module__.rpartition(".")[2]]

    def input_signature(self) -> dict[str, tf.TypeSpec]:
        """The features that a served model takes, of any number of rows, as readers yield them: lists are ragged."""
        features = [c for c in self.schema.features if not getattr(c, "negative_of", "")]
        ragged = {c.name for c in features if hasattr(c, "separator")}
        return {
            c.name: tf.RaggedTensorSpec([None, None], entry_dtype(c), row_splits_dtype=tf.int64)
            if c.name in ragged
            else tf.TensorSpec([None], entry_dtype(c))
            for c in features
        }

    def work(self, rows: int, positions: float, distinct: float | None = None) -> Work:
        """The least that one training step must do.

        Args:
            rows: of the batch.
            positions: ids in the batch's lists, negatives left out.
            distinct: rows of embedding tables that all ids of the batch name together, each counted once; None: as many as ids.
        """
        raise NotImplementedError

    def users(self, features) -> tf.Tensor | None:
        """Who saw each row, int64 [B]: the id that a table knows the user by, in all forms of files; None where the schema names
        no user. Users whose ids fall together in the table are one."""
        if not self.schema.user:
            return None
        return self.encoder.ids(features, [self.input_schema[self.schema.user]])[self.schema.user]

    def reads(self, features) -> list[tuple[EmbeddingVariable, tf.Tensor]]:
        """What a training step on `features` looks up: embedding variables, one or several times, with keys int64 [n]."""
        ids = self.encoder.ids(features, [*self.encoder.id_columns, *self.encoder.negatives])
        found = [read for layer in self.layers if hasattr(layer, "reads") for read in layer.reads(ids)]
        return [(variable, keys.flat_values if isinstance(keys, tf.RaggedTensor) else keys) for variable, keys in found]

    def serving(self, input_signature=None):
        input_signature = input_signature or [self.input_signature()]
        return tf.function(lambda features: self(features, training=False), input_signature=input_signature)

    def export(self, filepath, format="tf_saved_model", verbose=None, input_signature=None, **kwargs):
        """An `input_signature` is a list of one dict, {feature: `tf.TypeSpec`}; None: `input_signature()`."""
        if format != "tf_saved_model":
            super().export(filepath, format, verbose, input_signature, **kwargs)
            return
        archive = keras.export.ExportArchive()
        archive.track(served(self))
        serve = self.serving(input_signature)
        serve.get_concrete_function()
        archive.add_endpoint("serve", serve, **kwargs)
        archive.write_out(str(filepath), verbose=bool(verbose))

    def build(self, input_shape=None):
        """Nothing is left to build: every variable was made in the constructor."""
        self.built = True

    def get_config(self):
        return {
            "schema": self.schema.to_config(),
            "optimizations": sorted(self.rungs),
            "seed": self.seed,
            "embedding": {t: choices.to_config(c) for t, c in self.choices.items() if c != choices.Hashed()},
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        embedding = {table: choices.from_config(choice) for table, choice in config["embedding"].items()}
        return cls(**(config | {"schema": Schema.from_config(config["schema"]), "embedding": embedding}))
