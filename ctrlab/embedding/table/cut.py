"""What changed of an embedding variable since the version that a consumer confirmed, and a state that comes in parts.

A consumer (a saver of deltas, a server that is kept up to date) has a name. Its first cut is everything; each one after it is
what changed since the version that the consumer confirmed. Not confirmed, it is given again. The table keeps a log of changed
keys for its consumers, of at most max(65,536, rows) keys: one that falls behind that is given everything, and so is each one
after the table took another state.
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
    """What a table held at one moment, or what had changed of it, to be read once, in parts; training goes on meanwhile.

    Rows that were in memory are copied, those below are held on the disk until the cut goes.

    Attributes:
        since: the consumer's version until now; None: this is everything.
        version: what the consumer confirms once it has it all.
        rows, candidates, filter_bytes, removed: how many of each all parts have together.
        slot_names: of the optimizer, in its order.
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
        """All of it, once: at most `rows` rows and as many candidates a part; filter and removed keys are in the first.

        Raises:
            CtrlabError: it was read before; the storage refuses a read.
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
    """An empty table like a variable's, for a state that comes in parts, which `EmbeddingVariable.adopt` puts in place at once.

    It has a storage of its own in the variable's folder, so the state may be larger than the memory.
    """

    def __init__(self, variable, handle):
        self.variable, self.handle = variable, handle

    def load_state(self, part: TableState, *, shard: tuple[int, int] = WHOLE, how: str = "more") -> None:
        """Takes a part of a state ("more"), or of changes of what it has taken ("changes"), as `EmbeddingVariable.load_state`."""
        take_state(self.handle, self.variable.name, self.variable.dim, part, shard, how)

    def state(self) -> TableState:
        """All that it has taken."""
        return exported(self.handle, WHOLE)

    def keys(self) -> int:
        """How many keys it has taken that have a row or are counted."""
        rows, candidates, *_ = _native.library().ops.ctrlab_embedding_stats(handle=self.handle).stats.numpy().tolist()
        return rows + candidates
