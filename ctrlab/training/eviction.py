"""Eviction during training, at intervals of a given number of steps."""

from __future__ import annotations

from ctrlab.embedding.options import require_whole
from ctrlab.embedding.variable import embedding_variables
from ctrlab.errors import CtrlabError


class Evictions:
    """A hook for `train` and `Run.train`: it lets the embedding variables of a model evict after each `every` steps.

    For `fit` there is `EvictionCallback`. Each variable evicts by its own option `eviction`; those without one keep their rows.

    Args:
        every: number of steps.
    Attributes:
        removed: number of rows removed so far.
    Raises:
        CtrlabError: no embedding variable of the model has the option; `every` is not a whole number of at least 1.

    >>> train(model, optimizer, batches, on_step=Evictions(model, every=1_000))     # doctest: +SKIP
    """

    def __init__(self, model, every: int):
        require_whole("The steps between evictions", every, 1, 31)
        self.tables = [table for table in embedding_variables(model) if table.options.eviction]
        if not self.tables:
            raise CtrlabError(
                f"Embedding variables evict by their option `eviction`; received {model.name}, which has none with it: give "
                "Options(eviction=GlobalStepEviction(...))."
            )
        self.every, self.removed, self._since = every, 0, 0

    def due(self) -> int:
        """The number of steps until the next eviction."""
        return self.every - self._since

    def __call__(self, number: int, loss: float) -> None:
        self.advance(1)

    def advance(self, steps: int) -> None:
        """Counts steps that were taken, and evicts if it is time."""
        self._since += steps
        if self._since >= self.every:
            self._since = 0
            self.removed += sum(table.evict() for table in self.tables)
