"""The names of the models, in the contest's order, with each model's default data set.

The class of a model is in ctrlab/models/<name>.py. The names are on the lowest floor, so that the race and the command line can
use them without importing TensorFlow.
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
