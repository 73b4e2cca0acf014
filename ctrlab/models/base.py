"""The base of all six models: a Keras model over a Schema that makes its weights in the constructor, under stable names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

import keras
import tensorflow as tf

from ctrlab import devices, keras_hooks
from ctrlab import optimizations as ladder
from ctrlab.embedding import EmbeddingVariable, choices, close
from ctrlab.embedding.serving import served
from ctrlab.embedding.variable import Closes
from ctrlab.errors import CtrlabError
from ctrlab.model_names import DATA_SETS
from ctrlab.models.fitting import Fitted
from ctrlab.models.scaling import Standardized
from ctrlab.models.sizes import Sizes
from ctrlab.paths import replacing
from ctrlab.profiling.work import Work
from ctrlab.schema import Schema, entry_dtype


class CTRModel(Closes, keras_hooks.Served, Fitted, keras.Model):
    """A click model: it takes the features of a Schema and gives one logit per task.

    Called with the features of a batch (see `ctrlab.schema` for their types) it returns logits, float32 [B, K], with K the
    number of the schema's labels. A subclass makes every variable in its constructor. So a new model has its weights at once, and
    a checkpoint written with one set of optimizations loads with any other.

    Attributes:
        presets: the model's numbers by name: the contest's, which the race and the peers run, those for "small" data, and, except
            for DIN and DIEN, those for "few_rows".
        sizes: this model's numbers.
        hyper: the optimizer, learning rate, clipping and batch size in its sizes.
        most_buckets: the contest's number of buckets, if it is smaller than the data set's schema says; else None.
        rungs: the optimizations of level "model" that are on.
        choices: the kind of embedding of each table, {table: `ctrlab.embedding.choices.Choice`}.
        device: where it computes: "cpu" or "gpu".
        input_schema: the schema with the ids that those choices need. Raw columns and encoded files are read with this schema.
    """

    presets: ClassVar[Mapping[str, Sizes]]
    most_buckets: ClassVar[int | None] = None
    device: str = "cpu"

    def __init__(
        self,
        schema: Schema,
        optimizations="none",
        seed: int = 2021,
        embedding="hashed",
        sizes: Sizes | None = None,
        name: str | None = None,
    ):
        if (policy := keras.config.dtype_policy().name) != "float32":
            raise CtrlabError(
                f"The six models compute in float32; received Keras's global policy {policy}: call "
                'keras.config.set_dtype_policy("float32") before, and take the rung "bf16" for products in bfloat16.'
            )
        super().__init__(name=name or type(self).__name__.lower())
        self.built = True  # a subclass makes the weights now, not at the first call: a new model can be saved
        if not schema.labels:
            raise CtrlabError(f"A model needs at least one Label column; schema {schema.name!r} has none.")
        self.schema = schema
        self.sizes = self.presets["contest"] if sizes is None else sizes
        parts = tuple(self.presets["contest"].units)
        if {*parts} != {*self.sizes.units}:
            raise CtrlabError(
                f"The parts of model {self.kind!r} are {', '.join(parts)}; received units of {', '.join(self.sizes.units)}."
            )
        self.hyper = self.sizes.hyper
        self.choices = choices.resolve(embedding, schema)
        self.input_schema = choices.input_schema(schema, self.choices)
        self.rungs = frozenset(ladder.resolve(optimizations, level="model"))
        self.seed = seed
        self.tasks = tuple(label.name for label in schema.labels)
        numbers = len(schema.numerics) + len(schema.numeric_lists)
        self.scaling = Standardized(numbers, "numbers") if numbers and self.sizes.scaled else None

    @classmethod
    def on_device(cls, device: str = "auto", **arguments) -> Self:
        """A new model, made with the `arguments` of the constructor, whose variables are on a device of `ctrlab.devices`."""
        rungs = ladder.resolve(arguments["optimizations"], level="model")
        kinds = choices.resolve(arguments["embedding"], arguments["schema"]).values()
        variables = any(isinstance(kind, choices.Variable) for kind in kinds)
        found = devices.chosen(device, devices.staying(cls._kind(), rungs, variables))
        with devices.on(found):
            model = cls(**arguments)
        model.device = found
        return model

    @property
    def kind(self) -> str:
        """The model's name in `MODELS`."""
        return self._kind()

    @classmethod
    def _kind(cls) -> str:
        return cls.__module__.rpartition(".")[2]

    @property
    def rows_apart(self) -> bool:
        """Whether the logits of a row do not depend on the other rows of the batch, except for rounding."""
        return not self.sizes.joint_norm

    @property
    def data_set(self) -> str:
        """The data set of this model if no schema is given."""
        return DATA_SETS[self.kind]

    def inputs(self, features, training: bool) -> tuple[dict, tf.Tensor | None]:
        """The ids of each column, and the numbers, float32 [B, n], or None without numbers; standardized if the model's sizes say
        so.
        """
        numbers = self.encoder.numbers(features, checked=not training)
        if self.scaling is not None:
            numbers = self.scaling(numbers, training=training)
        return self.encoder.ids(features), numbers

    def field_names(self) -> list[str]:
        """The names of the id columns, without negatives.

        Raises:
            CtrlabError: there is none.
        """
        if not self.encoder.id_columns:
            raise CtrlabError(
                f"Model {self.kind!r} needs at least one id column (Categorical, MultiHot or Sequence); schema "
                f"{self.schema.name!r} has none."
            )
        return [c.name for c in self.encoder.id_columns]

    def input_signature(self) -> dict[str, tf.TypeSpec]:
        """The features that a served model takes, for any batch size, as readers yield them: lists are ragged."""
        features = [c for c in self.schema.features if not getattr(c, "negative_of", "")]
        ragged = {c.name for c in features if hasattr(c, "separator")}
        return {
            c.name: tf.RaggedTensorSpec([None, None], entry_dtype(c), row_splits_dtype=tf.int64)
            if c.name in ragged
            else tf.TensorSpec([None], entry_dtype(c))
            for c in features
        }

    @property
    def training_schema(self) -> Schema:
        """The columns that training reads: `input_schema` without negatives that this model does not use."""
        read = {column.name for column in self.encoder.negatives}
        columns = tuple(c for c in self.input_schema.columns if not getattr(c, "negative_of", "") or c.name in read)
        return replace(self.input_schema, columns=columns)

    def work(self, rows: int, positions: float, distinct: float | None = None) -> Work:
        """The least work of one training step.

        Args:
            rows: examples in the batch.
            positions: ids in the batch's lists, without negatives.
            distinct: number of distinct embedding table rows that the batch reads; None: one per id.
        """
        raise NotImplementedError

    def users(self, features) -> tf.Tensor | None:
        """The user of each example, int64 [B], as the id in the embedding table, the same for all file formats; None if the
        schema has no user. Users with colliding ids count as one."""
        if not self.schema.user:
            return None
        return self.encoder.ids(features, [self.input_schema[self.schema.user]])[self.schema.user]

    def reads(self, features) -> list[tuple[EmbeddingVariable, tf.Tensor]]:
        """The lookups of a training step on `features`: embedding variables, possibly repeated, each with its keys int64 [n]."""
        ids = self.encoder.ids(features, [*self.encoder.id_columns, *self.encoder.negatives])
        found = [read for layer in self.layers if hasattr(layer, "reads") for read in layer.reads(ids)]
        return [(variable, keys.flat_values if isinstance(keys, tf.RaggedTensor) else keys) for variable, keys in found]

    def serving(self, input_signature=None):
        input_signature = input_signature or [self.input_signature()]
        return tf.function(lambda features: self(features, training=False), input_signature=input_signature)

    def save(self, filepath, overwrite=True, zipped=None, **kwargs):
        """Saves as Keras does. A `.keras` file is written completely; if that fails, an earlier file stays as it was."""
        path = Path(os.path.realpath(filepath))  # of a link, the file to which it leads
        if path.suffix != ".keras" or not path.parent.is_dir() or path.is_dir() or (path.exists() and not overwrite):
            super().save(filepath, overwrite, zipped, **kwargs)
            return
        with replacing(path, ".keras") as part:  # Keras chooses the format by the name's ending
            super().save(part, True, zipped, **kwargs)

    def export(self, filepath, format="tf_saved_model", verbose=None, input_signature=None, **kwargs):
        """Exports as Keras does. `input_signature`: a list with one dict, {feature: `tf.TypeSpec`}; None: `input_signature()`."""
        if format != "tf_saved_model":
            super().export(filepath, format, verbose, input_signature, **kwargs)
            return
        archive = keras.export.ExportArchive()
        archive.track(served(self))
        serve = self.serving(input_signature)
        serve.get_concrete_function()
        archive.add_endpoint("serve", serve, **kwargs)
        archive.write_out(str(filepath), verbose=bool(verbose))

    def probabilities(self, features) -> tf.Tensor:
        """The probabilities, float32 [B, K], that a served model returns."""
        with devices.of(self):
            return tf.sigmoid(self(features, training=False))

    def close(self) -> None:
        """Frees the rows and the storage of its embedding variables: see `EmbeddingVariable.close`."""
        close(self)

    def get_config(self):
        return {
            "schema": self.schema.to_config(),
            "optimizations": sorted(self.rungs),
            "seed": self.seed,
            "embedding": {t: choices.to_config(c) for t, c in self.choices.items() if c != choices.Hashed()},
            "sizes": self.sizes.to_config(),
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        embedding = {table: choices.from_config(choice) for table, choice in config["embedding"].items()}
        sizes = Sizes.from_config(config["sizes"]) if "sizes" in config else None  # earlier versions had the contest's only
        described = {"schema": Schema.from_config(config["schema"]), "embedding": embedding, "sizes": sizes}
        return cls.on_device(**(config | described))
