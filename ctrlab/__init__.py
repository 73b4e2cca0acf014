"""The CTR lab: six click models on stock TensorFlow, made fast one optimization at a time.

>>> import ctrlab
>>> model = ctrlab.build("deepfm", optimizations="all")
"""

from ctrlab.lazy import loader

__version__ = "0.1.0"
__getattr__ = loader(__name__, {"build": "models"})  # `ctrlab --help` and the converters must not import TensorFlow
