"""The whole state of a training, to tell whether anything changed."""

import numpy as np

from ctrlab.embedding import embedding_variables


def held(model, optimizer):
    """Every byte of tables, variables, slots and counts."""
    found = {v.path: np.asarray(v.value).tobytes() for v in (*model.weights, *optimizer.variables)}
    for table in embedding_variables(model):
        state = table.state()
        order = np.argsort(state.keys)
        arrays = [state.keys, state.values, state.frequencies, state.steps, *state.slots.values()]
        found |= {f"{table.name} {k}": array[order].tobytes() for k, array in enumerate(arrays)}
    return found


def changed(one, other):
    return [name for name in one if one[name] != other[name]]
