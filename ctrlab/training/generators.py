"""The state of the process's global random generators (Python, NumPy, TensorFlow) as plain arrays.

Keras's own seeds are variables of the model. Not included is the counter of `tf.random.set_seed` for stateful ops in eager mode,
which TensorFlow does not expose.
"""

from __future__ import annotations

import random

import numpy as np
import tensorflow as tf

from ctrlab.errors import BadData


def get_generators() -> dict[str, np.ndarray]:
    """{name: array}, in the form that `set_generators` takes."""
    _, words, gauss = random.getstate()
    _, keys, place, has_gauss, cached = np.random.get_state()
    return {
        "python": np.array(words, np.uint32),
        "python_gauss": np.array([] if gauss is None else [gauss], np.float64),
        "numpy": np.array([*keys, place, has_gauss], np.uint32),
        "numpy_gauss": np.array(cached, np.float64),
        "tensorflow": tf.random.get_global_generator().state.numpy(),
    }


def set_generators(state: dict[str, np.ndarray]) -> None:
    """Restores a state from `get_generators`.

    Raises:
        BadData: as in `require_generators`. Nothing has changed then.
    """
    python, numpy, tensorflow = require_generators(state)
    random.setstate(python)
    np.random.set_state(numpy)
    tf.random.get_global_generator().reset(tensorflow)


def require_generators(state: dict[str, np.ndarray]) -> tuple:
    """The states in the form that each library takes.

    Raises:
        BadData: the state is invalid, or comes from another version of these libraries or another TensorFlow algorithm.
    """
    try:
        gauss = state["python_gauss"]
        python = (3, tuple(int(word) for word in state["python"]), float(gauss[0]) if gauss.size else None)
        *keys, place, has_gauss = (int(word) for word in state["numpy"])
        numpy = ("MT19937", np.array(keys, np.uint32), place, has_gauss, float(state["numpy_gauss"]))
        random.Random().setstate(python)
        np.random.RandomState().set_state(numpy)
        tensorflow, shape = state["tensorflow"], tf.random.get_global_generator().state.shape
        if tensorflow.dtype != np.int64 or tensorflow.shape != tuple(shape):
            raise ValueError(f"TensorFlow's is of int64 {list(shape)}, and received {tensorflow.dtype} {list(tensorflow.shape)}")
    except (LookupError, ValueError, TypeError, OverflowError) as error:
        raise BadData(f"The state of the random generators is not one that this version knows: {error}.") from None
    return python, numpy, tensorflow
