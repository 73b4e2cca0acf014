"""Click data: tables of your own, schemas, the data sets (generated or converted once, into a cache), readers for all formats.

    files = prepare("food_delivery", profile="lesson")
    for features, labels in files.read_train(batch_size=512, shuffle=20_000, seed=1):
        ...

    train, test = split("clicks.csv", 0.2, by="time")
    schema = Schema.infer(train, label="clicked")
    write(train, schema, "train.parquet")
    for features, labels in read("train.parquet", schema, batch_size=512):
        ...

Importing this package does not import TensorFlow; calling `read` does.
"""

from ctrlab.data.cache import DataFiles, prepare, prepare_for
from ctrlab.data.encode import encode
from ctrlab.data.faults import explained
from ctrlab.data.on_ray import ray_engine
from ctrlab.data.reader import read, read_dealt
from ctrlab.data.sets import SCHEMAS, ceiling, generate, schema
from ctrlab.data.source import FORMATS
from ctrlab.data.splits import split
from ctrlab.data.writer import write
from ctrlab.schema.frames import table

__all__ = [
    "FORMATS",
    "SCHEMAS",
    "DataFiles",
    "ceiling",
    "encode",
    "explained",
    "generate",
    "prepare",
    "prepare_for",
    "ray_engine",
    "read",
    "read_dealt",
    "schema",
    "split",
    "table",
    "write",
]
