"""Masked arrays of NumPy. TensorFlow and Keras take what lies behind a mask for values, so arrays that lack one are refused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ctrlab.errors import BadData

FILL = "fill them, `values.filled(...)`, with the column's default"
LEAVE_OUT = "leave these rows out"


def require_features(features) -> None:
    """Raises BadData if a feature, by its name, is a masked array of which a value is masked."""
    for name, values in features.items() if isinstance(features, Mapping) else ():
        if isinstance(values, np.ma.MaskedArray):
            require_values(f"feature {name!r}", values, FILL)


def require_values(what: str, values, cure: str = LEAVE_OUT) -> None:
    """Raises BadData if `values` is a masked array of which a value is masked."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        place = int(np.argwhere(np.ma.getmaskarray(values))[0][0]) if values.ndim else 0
        raise BadData(f"Arrays have all their values; those of {what} have a masked one in row {place}, counted from 0: {cure}.")
