"""The definition of an embedding variable in NumPy float64: a dictionary of rows, one of candidates, and the rules for both.

    lookup      reads a key's row. Without a row it reads the initial value in training and 0 in serving. It changes nothing.
    update      first adds the counts, then admits keys by their counts, then steps the optimizer on every key with a row.
    evict       removes rows and candidates that are too old, or rows whose value is too small.
    changed     gives the current content, or the removal, of every key that was updated or evicted since the last cut; the
                first cut gives everything.

Keys are any int64. The order of keys does not matter, because an update merges and sorts them. A Bloom filter is modelled
without false positives: the engine's filter may admit a key earlier, but never later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ctrlab.embedding.options import GlobalStepEviction, L2Eviction, Options
from ctrlab.embedding.table_state import TableState
from ctrlab.ops.references import merge, sparse_update
from ctrlab.ops.references.arrays import Slices


@dataclass
class Row:
    """One admitted key: value float64 [D], the optimizer's slots, its frequency, and the step of its last change."""

    value: np.ndarray
    slots: dict[str, np.ndarray]
    frequency: int
    step: int


@dataclass
class Candidate:
    """One key that was counted and has no row yet."""

    count: int
    step: int


@dataclass
class ReferenceTable:
    """The content of an embedding variable, and the effect of every call on it.

    Args:
        initial: int64 keys [n] -> their initial values [n, D].
        rule: the optimizer, with its slots' initial values.

    >>> table = ReferenceTable(1, Options(), lambda keys: np.ones((len(keys), 1)), sparse_update.Rule("sgd"))
    >>> table.update(np.array([7, 7]), np.array([[1.0], [2.0]]), learning_rate=0.1, step=1)
    >>> table.lookup(np.array([7, 8]), training=False).ravel()
    array([0.7, 0. ])
    """

    dim: int
    options: Options
    initial: Callable[[np.ndarray], np.ndarray]
    rule: sparse_update.Rule
    rows: dict[int, Row] = field(default_factory=dict)
    candidates: dict[int, Candidate] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)
    was_cut: bool = False

    def lookup(self, keys: np.ndarray, training: bool) -> np.ndarray:
        """Keys int64 [n] -> float64 [n, D]."""
        out = np.asarray(self.initial(keys), np.float64).copy() if training else np.zeros((len(keys), self.dim))
        for i, key in enumerate(keys.tolist()):
            if key in self.rows:
                out[i] = self.rows[key].value
        return out

    def update(self, keys, gradients, learning_rate: float, step: int, clip_norm: float | None = None, times=None) -> None:
        """One optimizer step. Keys int64 [n] with duplicates; each has its own row in the gradients [n, D].

        Args:
            step: 1 for the first.
            clip_norm: the maximum norm of the merged gradient over the keys with a row.
            times: int64 [n], how many occurrences each of the keys stands for; None for one each.
        Raises:
            CtrlabError: FTRL's learning rate is not above 0.
        """
        sparse_update.check_rate(self.rule, learning_rate, step)
        unique, counts, merged = _merged(keys, gradients, times)
        admitted = np.array([self._count(key, count, step) for key, count in zip(unique.tolist(), counts.tolist())], bool)
        gradient = sparse_update.clipped(merged[admitted], clip_norm)
        for key, g in zip(unique[admitted].tolist(), gradient):
            row = self.rows[key]
            sparse_update.reference(self.rule, [(row.value, row.slots, g)], learning_rate, step)

    def norm(self, keys, gradients, times=None) -> float:
        """The sum of squares over which an `update` with the same arguments would clip. It changes nothing."""
        unique, counts, merged = _merged(keys, gradients, times)
        gets_row = [self._gets_row(key, count) for key, count in zip(unique.tolist(), counts.tolist())]
        return float(np.sum(np.square(merged[np.array(gets_row, bool)])))

    def _gets_row(self, key: int, count: int) -> bool:
        """Whether the key has a row once it has come `count` more times."""
        before = self.candidates.get(key, Candidate(0, 0)).count
        return key in self.rows or before + count >= (self.options.admission.threshold if self.options.admission else 1)

    def _count(self, key: int, count: int, step: int) -> bool:
        """Adds to the key's count and gives it a row once the count is high enough; returns whether it has a row."""
        self.touched.add(key)
        if key in self.rows:
            self.rows[key].frequency += count
            self.rows[key].step = step
            return True
        gets_row = self._gets_row(key, count)
        count += self.candidates.pop(key, Candidate(0, 0)).count
        if not gets_row:
            self.candidates[key] = Candidate(count, step)
            return False
        value = np.asarray(self.initial(np.array([key])), np.float64)[0].copy()
        slots = {name: np.full(self.dim, float(start)) for name, start in self.rule.slots.items()}
        self.rows[key] = Row(value, slots, count, step)
        return True

    def evict(self, step: int) -> int:
        """Removes what the eviction rule selects at `step`; returns the number of removed rows."""
        rule, before = self.options.eviction, len(self.rows)
        gone: list[int] = []
        if isinstance(rule, GlobalStepEviction):
            for table in (self.rows, self.candidates):
                gone += [key for key, entry in table.items() if step - entry.step > rule.steps_to_live]
        elif isinstance(rule, L2Eviction):
            gone += [key for key, row in self.rows.items() if np.linalg.norm(row.value) < rule.threshold]
        for key in gone:
            self.rows.pop(key, None)
            self.candidates.pop(key, None)
        self.touched.update(gone)
        return before - len(self.rows)

    def state(self) -> TableState:
        """The whole content, with ascending keys."""
        return self._state(set(self.rows) | set(self.candidates), set())

    def changed(self) -> TableState:
        """The changes since the last cut. This call is a cut itself."""
        here = set(self.rows) | set(self.candidates)
        delta = self._state(self.touched, self.touched - here) if self.was_cut else self.state()
        self.touched, self.was_cut = set(), True
        return delta

    def _state(self, keys: set[int], removed: set[int]) -> TableState:
        rows = [(key, self.rows[key]) for key in sorted(keys & set(self.rows))]
        waiting = [(key, self.candidates[key]) for key in sorted(keys & set(self.candidates))]
        return TableState(
            keys=np.array([key for key, _ in rows], np.int64),
            values=np.array([row.value for _, row in rows]).reshape(-1, self.dim),
            slots={name: np.array([row.slots[name] for _, row in rows]).reshape(-1, self.dim) for name in self.rule.slots},
            frequencies=np.array([row.frequency for _, row in rows], np.int64),
            steps=np.array([row.step for _, row in rows], np.int64),
            candidate_keys=np.array([key for key, _ in waiting], np.int64),
            candidate_counts=np.array([entry.count for _, entry in waiting], np.int64),
            candidate_steps=np.array([entry.step for _, entry in waiting], np.int64),
            removed=np.array(sorted(removed), np.int64),
        )


def _merged(keys, gradients, times) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each key once, ascending; how often it came; the sum of its gradients, float64 [u, D]."""
    unique, place = np.unique(keys, return_inverse=True)
    counts = np.zeros(len(unique), np.int64)
    np.add.at(counts, place, 1 if times is None else times)
    return unique, counts, merge.reference(Slices(keys, gradients)).values
