"""A table's life by chance: updates, evictions and saves of a reference table, from few keys, so that they come back and meet."""

import numpy as np
from hypothesis import strategies as st

from ctrlab.embedding.options import CounterFilter, GlobalStepEviction, L2Eviction, Options
from ctrlab.embedding.reference import ReferenceTable
from ctrlab.embedding.table_state import TableState
from ctrlab.ops.sparse_update import Rule

DIM = 2
KEYS = [-(2**63), -2, -1, 0, 1, 2, 7, 2**40, 2**63 - 1]
EVICTIONS = [None, GlobalStepEviction(2), L2Eviction(0.8)]

updates = st.lists(st.sampled_from(KEYS), min_size=1, max_size=8)
histories = st.lists(st.one_of(updates, st.just("evict"), st.just("save")), max_size=30)
tables = st.builds(
    lambda threshold, eviction: new_table(CounterFilter(threshold), eviction), st.integers(1, 3), st.sampled_from(EVICTIONS)
)


def new_table(admission=None, eviction=None) -> ReferenceTable:
    options = Options(admission=admission, eviction=eviction)
    return ReferenceTable(DIM, options, lambda keys: np.ones((len(keys), DIM)), Rule("adam_async"))


def live(table: ReferenceTable, history: list):
    """Yields at each save of the history."""
    for step, event in enumerate(history, 1):
        if event == "evict":
            table.evict(step)
        elif event == "save":
            yield step
        else:
            gradients = np.sin(np.arange(len(event) * DIM) + step).reshape(-1, DIM)
            table.update(np.array(event, np.int64), gradients, learning_rate=0.1, step=step)


def as_rows(state: TableState) -> dict[str, dict]:
    """The content of a state as rows, independent of the order of its keys."""
    rows = zip(state.values.tolist(), *(slot.tolist() for slot in state.slots.values()), state.frequencies, state.steps)
    waiting = zip(state.candidate_counts.tolist(), state.candidate_steps.tolist())
    return {
        "rows": dict(zip(state.keys.tolist(), rows, strict=True)),
        "candidates": dict(zip(state.candidate_keys.tolist(), waiting, strict=True)),
        "filter": state.filter.tolist(),
        "removed": sorted(state.removed.tolist()),
    }
