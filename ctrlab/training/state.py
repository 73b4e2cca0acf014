"""The state of a model and its optimizer as plain arrays by name. "Same weights, same answers" is checked on it.

The names and shapes don't depend on the optimizations, so a state saved with one set loads with any other.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ctrlab.embedding.table.proxy import Proxy
from ctrlab.errors import CtrlabError


def variables_of(model, optimizer=None) -> dict[str, object]:
    """{path: Keras variable} of every weight, plus every slot and the step count if an optimizer is given."""
    found = {f"model/{v.path}": v for v in model.weights}
    if optimizer is not None:
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        found |= {f"optimizer/{v.path}": v for v in optimizer.variables}
    expected = len(model.weights) + (len(optimizer.variables) if optimizer is not None else 0)
    if len(found) != expected:
        raise CtrlabError(f"Variable names must differ; {model.name} has {expected} variables under {len(found)} names.")
    return found


def get_state(model, optimizer=None) -> dict[str, np.ndarray]:
    """A copy of every variable, {path: array}. For an embedding variable it is an empty array that carries the table's rows."""
    return {path: v.numpy() for path, v in variables_of(model, optimizer).items()}


def copy_state(source: tuple, *targets: tuple) -> None:
    """Gives each target, a (model, optimizer), the source's state, as `get_state` and `set_state` would. TensorFlow shares the
    arrays until either is stepped, so only stepped arrays are copied.

    Raises:
        CtrlabError: the names or a shape differ; that target is unchanged.
    """
    variables = variables_of(*source)
    state = {path: v.numpy() if isinstance(v, Proxy) else v.value for path, v in variables.items()}
    for target in targets:
        set_state(state, *target)


def set_state(state: dict[str, np.ndarray | tf.Variable], model, optimizer=None) -> None:
    """Restores a state from `get_state`.

    Raises:
        CtrlabError: the names or a shape differ; nothing has changed then.
    """
    variables = variables_of(model, optimizer)
    odd = sorted(set(state) ^ set(variables))
    if odd:
        raise CtrlabError(f"A state must have the model's variables; {odd[0]!r} is in one of them only ({len(odd)} such names).")
    for path, v in variables.items():
        if tuple(v.shape) != (shape := tuple(state[path].shape)):
            raise CtrlabError(f"Shapes must match; {path} is {tuple(v.shape)} in the model and {shape} in the state.")
    for path, v in variables.items():
        v.assign(state[path])
