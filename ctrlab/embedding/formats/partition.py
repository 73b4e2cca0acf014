"""Splits a table into shards by key hash and joins shards, to restore with another number of workers.

shard j of N holds the keys k with hash_keys(k) mod N == j
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ctrlab.embedding.initial_values import hash_keys
from ctrlab.embedding.table_state import FIELDS, TableState
from ctrlab.errors import BadData, CtrlabError


def shard(state: TableState, j: int, n: int) -> TableState:
    """Shard j of n of a table or of a delta. Each shard gets the whole Bloom filter, because a counter belongs to many keys.

    Raises:
        CtrlabError: there is no shard j of n.
    """
    if not 0 <= j < n:
        raise CtrlabError(f"Of {n} shards, one is named by a number from 0 to {n - 1}; received {j}.")

    def mine(keys: np.ndarray) -> np.ndarray:
        return hash_keys(keys) % np.uint64(n) == j

    rows, candidates = mine(state.keys), mine(state.candidate_keys)
    return take(state, rows, candidates, state.removed[mine(state.removed)])


def join(shards: Sequence[TableState]) -> TableState:
    """Joins the shards of a table. The larger of the Bloom filters' counters is kept, so no counter is too low for any key.

    Raises:
        BadData: the shards are not of one table: dimension, slots or filter differ, or a key is in two of them.
    """
    first = shards[0]
    for i, other in enumerate(shards[1:], 1):
        require_alike(first, other, "Shard 0", f"shard {i}")
    keys, counts = np.unique(np.concatenate([k for s in shards for k in (s.keys, s.candidate_keys)]), return_counts=True)
    if (counts > 1).any():
        raise BadData(f"A key is in one shard only; key {keys[counts > 1][0]} is in {counts.max()}: these are not one table's.")
    whole = concatenate(shards)
    return replace(whole, filter=np.maximum.reduce([s.filter for s in shards]))


def take(state: TableState, rows: np.ndarray, candidates: np.ndarray, removed: np.ndarray) -> TableState:
    """The chosen rows and candidates of a state, by masks or indices, with the given tombstones."""
    return replace(
        state,
        keys=state.keys[rows],
        values=state.values[rows],
        slots={name: slot[rows] for name, slot in state.slots.items()},
        frequencies=state.frequencies[rows],
        steps=state.steps[rows],
        candidate_keys=state.candidate_keys[candidates],
        candidate_counts=state.candidate_counts[candidates],
        candidate_steps=state.candidate_steps[candidates],
        removed=removed,
    )


def concatenate(states: Sequence[TableState]) -> TableState:
    """Rows, candidates and tombstones of all states, in order; the filter is the last state's."""
    joined = {name: np.concatenate([getattr(s, name) for s in states]) for name in FIELDS if name != "filter"}
    slots = {name: np.concatenate([s.slots[name] for s in states]) for name in states[0].slots}
    return TableState(**joined, slots=slots, filter=states[-1].filter)


def require_alike(a: TableState, b: TableState, a_is: str, b_is: str) -> None:
    """Raises BadData if two states can't belong to one table."""
    facts = {"rows of dimension": lambda s: s.dim, "slots": lambda s: sorted(s.slots), "filter bytes": lambda s: len(s.filter)}
    for what, of in facts.items():
        if of(a) != of(b):
            raise BadData(f"{a_is} and {b_is} are not of one table: the {what} are {of(a)} in one and {of(b)} in the other.")
