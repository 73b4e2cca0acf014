"""Statistics of a table: how many rows it has, where they lie, how many bytes they take, and how often they were found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stats:
    """Statistics of a table at one moment.

    Attributes:
        rows, candidates: keys with a row; counted keys without one.
        rows_below: rows that moved below the memory.
        bytes, peak_bytes: memory of the table now and at its peak, with index and filter.
        hits, hits_below, misses: lookups so far, counted per occurrence of a key: the row was in memory, was read from below, or
            did not exist. Their sum is the number of keys looked up. `prefetch` and updates don't count.
        logged: keys in the change log that cuts are taken from.
        filter_bytes: the part of `bytes` that a Bloom filter takes.
        problem: why rows could not move to the storage the last time, in a sentence; empty if they could. Training goes on
            while the memory has room. An update that finds no room is refused with the same sentence.
    """

    rows: int
    candidates: int
    rows_below: int
    bytes: int
    peak_bytes: int
    hits: int
    misses: int
    hits_below: int
    logged: int
    filter_bytes: int
    problem: str = ""

    @property
    def hit_rate(self) -> float:
        """The fraction of looked-up keys that had a row in memory; 0 before the first lookup."""
        return self.hits / max(1, self.hits + self.hits_below + self.misses)
