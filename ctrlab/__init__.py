"""The CTR lab: six click models on stock TensorFlow, made fast one optimization at a time.

>>> import ctrlab
>>> model = ctrlab.build("deepfm", optimizations="all")
"""

from __future__ import annotations

__version__ = "0.1.0"


def __getattr__(name: str):
    # Importing TensorFlow takes seconds; `ctrlab --help` and the converters do without it.
    if name == "build":
        from ctrlab.models import build

        return build
    raise AttributeError(f"module 'ctrlab' has no attribute {name!r}")
