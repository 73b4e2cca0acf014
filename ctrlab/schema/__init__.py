"""Column types, and the schema: the list of a data set's columns.

A `Schema` is the only place that knows a data set's columns, in file order: names, raw types, defaults, hash sizes. Readers,
converters, generators and models all use it. This module does not import TensorFlow, so a converter can run without it.

Raw types (what a reader yields, B = batch):

    Label, Numeric          float32 [B], finite
    Categorical             string  [B]   (int64 [B] for the encoding "identity")
    MultiHot, Sequence      string  [B, (L)] ragged, or the unsplit text, string [B]
    NumericList             float32 [B, (L)] ragged, or the unsplit text, string [B]

In an encoded schema (`Schema.encoded`) id columns hold ids that were computed offline: int32 (int64 if necessary), [B] or ragged
[B, (L)].
"""

from ctrlab.schema.columns import (
    KINDS,
    RAW_IDS,
    Categorical,
    Column,
    Encoding,
    IdColumn,
    Label,
    MultiHot,
    Numeric,
    NumericList,
    Role,
    Sequence,
    Transform,
    entry_dtype,
)
from ctrlab.schema.schema import Schema

__all__ = [
    "KINDS",
    "RAW_IDS",
    "Categorical",
    "Column",
    "Encoding",
    "IdColumn",
    "Label",
    "MultiHot",
    "Numeric",
    "NumericList",
    "Role",
    "Schema",
    "Sequence",
    "Transform",
    "entry_dtype",
]
