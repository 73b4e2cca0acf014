"""The generated items, with popularity and category, and the histories of users who choose among them."""

from __future__ import annotations

import numpy as np

from ctrlab.data.marginals import Ids, Numbers
from ctrlab.data.words import Ragged, mix, salt

SLOTS = 1 << 21


class Catalogue:
    """Items in categories, drawn with one lookup in a wheel of slots.

    Each item owns slots in proportion to its popularity. The wheel is sorted by category. A random slot of the whole wheel draws
    from all items; a random slot within a category's section draws from that category.

    Args:
        items, categories: distributions of item ids and category ids.
    """

    def __init__(self, items: Ids, categories: Ids):
        self.category = attribute(np.arange(items.cardinality), categories, "category").astype(np.int32)  # [V]
        order = np.argsort(self.category, kind="stable")
        ends = np.cumsum(items.probabilities()[order])
        slots = np.searchsorted(ends, (np.arange(SLOTS) + 0.5) / SLOTS * ends[-1])
        self._wheel = order[np.minimum(slots, len(order) - 1)].astype(np.int32)
        self._starts = np.searchsorted(self.category[self._wheel], np.arange(categories.cardinality + 1))
        self.category_shares = np.diff(self._starts) / SLOTS

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Items by popularity: int32 [size]."""
        return self._wheel[rng.integers(0, SLOTS, size)]

    def draw_like(self, rng: np.random.Generator, categories: np.ndarray) -> np.ndarray:
        """One random item per given category: int [n] -> int32 [n]."""
        starts = self._starts[categories]
        widths = self._starts[categories + 1] - starts
        return self._wheel[starts + (rng.random(len(categories)) * widths).astype(np.int64)]


def attribute(ids: np.ndarray, values: Ids, name: str) -> np.ndarray:
    """A fixed property per id, distributed over the ids as in `values`: int [n] -> int64 [n]."""
    return values.rank(mix(ids, salt("attribute", name)) / 2.0**32)


def histories(rng: np.random.Generator, lengths: Numbers, rows: int, same: float, catalogue: Catalogue) -> Ragged:
    """Items that users chose, in runs of one category: `same` is the fraction of neighbours with equal category.

    An item that equals its predecessor is drawn once more, so repeats are rare.
    """
    offsets = draw_offsets(rng, lengths, rows)
    run = draw_runs(rng, offsets, same, catalogue.category_shares)
    first = catalogue.draw(rng, run[-1] + 1 if len(run) else 0)
    categories = catalogue.category[first][run]
    items = catalogue.draw_like(rng, categories)
    twice = np.flatnonzero((items[1:] == items[:-1]) & (run[1:] == run[:-1])) + 1
    items[twice] = catalogue.draw_like(rng, categories[twice])
    return Ragged(items, offsets)


def draw_offsets(rng: np.random.Generator, lengths: Numbers, rows: int) -> np.ndarray:
    """Offsets of ragged lists with random lengths: int64 [rows + 1]."""
    return np.concatenate([[0], np.cumsum(lengths.sample(rng, rows).astype(np.int64))])


def draw_runs(rng: np.random.Generator, offsets: np.ndarray, same: float, shares: np.ndarray) -> np.ndarray:
    """The run to which each position of ragged lists belongs, numbered over all lists: int64 [N].

    The probability of continuing a run is chosen so that `same` of all neighbours are equal. It accounts for runs that by chance
    have the same value as the run before: values are drawn independently with these shares.
    """
    by_chance = np.square(shares).sum()
    new = rng.random(offsets[-1]) >= max(0.0, (same - by_chance) / (1.0 - by_chance))
    new[offsets[:-1][np.diff(offsets) > 0]] = True
    return np.cumsum(new) - 1


def pick(rng: np.random.Generator, lists: Ragged) -> np.ndarray:
    """A random value of each list: [B]; -1 for an empty list."""
    lengths = lists.lengths
    places = lists.offsets[:-1] + (rng.random(len(lengths)) * lengths).astype(np.int64)
    values = lists.values[np.minimum(places, len(lists.values) - 1)].astype(np.int64)
    return np.where(lengths > 0, values, -1)


def near_or_anywhere(rng: np.random.Generator, lists: Ragged, catalogue: Catalogue, near: np.ndarray) -> np.ndarray:
    """The item shown to each user: from a category in the history if `near`, bool [B]; else by popularity; int32 [B]."""
    shown = catalogue.draw(rng, len(lists.lengths))
    liked = pick(rng, lists)
    alike = np.flatnonzero(near & (liked >= 0))
    shown[alike] = catalogue.draw_like(rng, catalogue.category[liked[alike]])
    return shown
