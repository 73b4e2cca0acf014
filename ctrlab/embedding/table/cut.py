"""Cuts: what changed in an embedding variable since the version that a consumer confirmed. Stages: a state taken in parts.

A consumer (a saver of deltas, a server that is kept up to date) has a name. Its first cut gives everything. Each later cut gives
what changed since the version that the consumer confirmed, so unconfirmed changes are given again. The table logs changed keys
for its consumers, at most max(65,536, rows) keys. A consumer that falls behind this log is given everything, and so is every
consumer after the table took another state.
"""

from __future__ import annotations

from collections.abc import Iterator

from ctrlab import _native
from ctrlab.embedding.table.resource import WHOLE, exported, state_of, take_state
from ctrlab.embedding.table_state import TableState
from ctrlab.errors import CtrlabError
from ctrlab.ops.refusals import one_sentence

PART_ROWS = 65_536


class Cut:
    """The content or the changes of a table at one moment, to be read once, in parts, while training goes on.

    Rows in memory are copied. Rows below are kept on disk until the cut is deleted.

    Attributes:
        since: the consumer's version before this cut; None: the cut gives everything.
        version: the consumer confirms this version when it has all parts.
        rows, candidates, filter_bytes, removed: totals over all parts.
        slot_names: in the optimizer's order.
        dim: D.
    """

    def __init__(self, found, dim: int):
        self._handle = found.cut
        since, self.version, self.rows, self.candidates, self.filter_bytes, self.removed = found.numbers.numpy().tolist()
        self.since = None if since < 0 else since
        self.slot_names = tuple(name.decode() for name in found.slot_names.numpy())
        self.dim = dim
        self._read = False

    def parts(self, rows: int = PART_ROWS) -> Iterator[TableState]:
        """Yields everything once: at most `rows` rows and as many candidates per part. Filter and removed keys come first.

        Raises:
            CtrlabError: it was read before, or the storage refuses a read.
        """
        if self._read:
            raise CtrlabError("The parts of a cut are read once; these were. Take another cut.")
        self._read = True
        done = False
        while not done:
            with one_sentence():
                part = _native.library().ops.ctrlab_embedding_cut_part(cut=self._handle, rows=rows)
            done = bool(part.done)
            yield state_of(part, self.slot_names)


class Stage:
    """An empty table with a variable's settings. It takes a state in parts; `EmbeddingVariable.adopt` then swaps it in at once.

    It has its own storage in the variable's folder, so the state may be larger than memory.
    """

    def __init__(self, variable, handle):
        self.variable, self.handle = variable, handle

    def load_state(self, part: TableState, *, shard: tuple[int, int] = WHOLE, how: str = "more") -> None:
        """Takes a part of a state ("more"), or of changes to its content ("changes"), like `EmbeddingVariable.load_state`."""
        take_state(self.handle, self.variable.name, self.variable.dim, part, shard, how)

    def state(self) -> TableState:
        """The stage's whole content."""
        return exported(self.handle, WHOLE)

    def keys(self) -> int:
        """The number of keys that have a row or a count."""
        rows, candidates, *_ = _native.library().ops.ctrlab_embedding_stats(handle=self.handle).stats.numpy().tolist()
        return rows + candidates
