"""The models by name, in the contest's order, and the data set that each takes when it is given none.

The class of a model is in ctrlab/models/<name>.py. The names lie on the lowest floor, where the race and the command line find
them without importing TensorFlow.
"""

from __future__ import annotations

DATA_SETS: dict[str, str] = {
    "wdl": "food_delivery",
    "deepfm": "food_delivery",
    "dlrm": "food_delivery",
    "din": "amazon_reviews",
    "dien": "amazon_reviews",
    "mmoe": "taobao",
}
