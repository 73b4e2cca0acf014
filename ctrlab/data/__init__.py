"""Click data: schemas, generation or conversion of each data set (once, into a cache), and readers of batches for all formats.

    files = prepare("food_delivery", profile="lesson")
    for features, labels in files.read_train(batch_size=512, shuffle=20_000, seed=1):
        ...

Importing this package does not import TensorFlow; calling `read` does.
"""

from ctrlab.data.cache import DataFiles, prepare, prepare_for
from ctrlab.data.encode import encode
from ctrlab.data.faults import explained
from ctrlab.data.reader import read
from ctrlab.data.sets import SCHEMAS, ceiling, generate, schema
from ctrlab.data.source import FORMATS
from ctrlab.data.writer import write

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
    "read",
    "schema",
    "write",
]
