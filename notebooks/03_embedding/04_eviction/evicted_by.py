"""The small model of these lessons, with the learner's function in place of its eviction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ctrlab.embedding.reference import Row
from ctrlab.lessons.factorization import FactorizationMachine


class EvictedBy(FactorizationMachine):
    """The model with eviction by a given function instead of the definition. Its tables evict by age and admit every key.

    Args:
        function: (arrays with a row per key by name, step, steps_to_live) -> (the arrays that are left, the removed keys).
    """

    def __init__(self, function: Callable[[dict, int, int], tuple[dict, np.ndarray]], *args, **options):
        super().__init__(*args, **options)
        self._function = function

    def evict(self) -> int:
        before = self.rows()
        for table in self.tables.values():
            state = table.state()
            arrays = {"keys": state.keys, "values": state.values, **state.slots}
            arrays |= {"frequencies": state.frequencies, "steps": state.steps}
            left, gone = self._function(arrays, self.steps, table.options.eviction.steps_to_live)
            table.rows = {
                key: Row(left["values"][i], {name: left[name][i] for name in state.slots}, int(count), int(step))
                for i, (key, count, step) in enumerate(zip(left["keys"].tolist(), left["frequencies"], left["steps"]))
            }
            table.touched.update(gone.tolist())
        return before - self.rows()
