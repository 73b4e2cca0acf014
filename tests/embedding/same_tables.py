"""Whether two tables hold the same, and where not, how many keys of which column."""

import numpy as np


def require_same_table(what, ours, theirs):
    """Two states of a table, or changes of one, bit for bit, whatever the order of their keys."""
    for keys, columns in {
        "keys": ("values", "frequencies", "steps", *theirs.slots),
        "candidate_keys": ("candidate_counts", "candidate_steps"),
        "removed": (),
    }.items():
        here, there = getattr(ours, keys), getattr(theirs, keys)
        lost, more = np.setdiff1d(there, here).size, np.setdiff1d(here, there).size
        again = here.size - np.unique(here).size
        assert not lost + more + again, f"{what}: of {there.size} {keys}, {lost} lost, {more} too many, {again} twice"
        orders = np.argsort(here), np.argsort(there)
        for name in columns:
            pair = [(state.slots | vars(state))[name][order] for state, order in zip((ours, theirs), orders)]
            other = np.flatnonzero((pair[0] != pair[1]).any(axis=tuple(range(1, pair[0].ndim)))).size
            assert not other, f"{what}: of {there.size} {name}, {other} are others"
