"""The items of a data set with their categories, and negatives drawn from them. Memory grows only with the number of items."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ctrlab.errors import BadData

SEED = 2021
UNKNOWN = -1


class Catalogue:
    """Items by code (in order of first occurrence), each with its category and its number of occurrences."""

    def __init__(self):
        self._code: dict[str, int] = {}
        self._category: list[str] = []
        self._seen = np.zeros(0, np.int64)
        self._words = (pa.array([], pa.string()),) * 2

    def __len__(self) -> int:
        return len(self._code)

    def add(self, items: pa.Array, categories: pa.Array) -> np.ndarray:
        """Codes of the items, int64 [N]; new items are added with their category."""
        encoded = items.dictionary_encode()
        _, first = np.unique(encoded.indices.to_numpy(), return_index=True)
        for item, category in zip(encoded.dictionary.to_pylist(), categories.take(pa.array(first)).to_pylist()):
            if item not in self._code:
                self._code[item] = len(self._code)
                self._category.append(category or "")
        return self.codes(items)

    def codes(self, items: pa.Array) -> np.ndarray:
        """Codes of the items, int64 [N]; -1 for unknown items."""
        encoded = items.dictionary_encode()
        codes = np.array([self._code.get(item, UNKNOWN) for item in encoded.dictionary.to_pylist()], np.int64)
        return codes[encoded.indices.to_numpy()] if len(items) else np.zeros(0, np.int64)

    def see(self, codes: np.ndarray) -> None:
        """Counts occurrences; an item is drawn in proportion to them."""
        counts = np.bincount(codes[codes >= 0], minlength=len(self))
        counts[: len(self._seen)] += self._seen
        self._seen = counts

    def items(self, codes: np.ndarray) -> pa.Array:
        return self._arrays()[0].take(pa.array(codes))

    def categories(self, codes: np.ndarray) -> pa.Array:
        return self._arrays()[1].take(pa.array(codes))

    def _arrays(self) -> tuple[pa.Array, pa.Array]:
        """Items and their categories by code, rebuilt after items were added."""
        if len(self._words[0]) != len(self):
            self._words = pa.array(list(self._code), pa.string()), pa.array(self._category, pa.string())
        return self._words

    def draw_other_than(self, positives: np.ndarray, seed: int) -> np.ndarray:
        """For each positive a different item, drawn by number of occurrences: int64 [N] to int64 [N]."""
        if len(positives) and np.count_nonzero(self._seen) < 2:
            raise BadData(f"Negatives need at least two items to draw from; the data have {np.count_nonzero(self._seen)}.")
        upto = np.cumsum(self._seen)
        rng = np.random.default_rng((SEED, seed))
        drawn = positives.copy()
        while len(again := np.flatnonzero(drawn == positives)):
            drawn[again] = np.searchsorted(upto, rng.integers(0, upto[-1], len(again)), side="right")
        return drawn
