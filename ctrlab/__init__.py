"""The CTR lab: six click models on stock TensorFlow, made fast one optimization at a time.

>>> import ctrlab
>>> model = ctrlab.build("deepfm", optimizations="all")

It also lets `keras.models.load_model` and `tf.saved_model.load` load what this package saved.
"""

from ctrlab.lazy import loader
from ctrlab.registration import expect

__all__ = ["build", "errors", "optimizations", "schema"]
__version__ = "0.1.0"
__getattr__ = loader(__name__, {"build": "models"})  # `ctrlab --help` and the converters must not import TensorFlow
expect()
