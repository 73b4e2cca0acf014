"""Amazon reviews in the layout of DIN and DIEN: would this user, with this history, review this item next?

Byte 0x02 joins lists. `negative_items` holds, position by position, items that the user did not choose (DIEN's auxiliary loss).
"""

from __future__ import annotations

import functools

import numpy as np

from ctrlab.data.catalogue import Catalogue, histories, near_or_anywhere
from ctrlab.data.generator import Generator
from ctrlab.data.marginals import Published, statistics
from ctrlab.data.planted import Plan
from ctrlab.data.raw.histories import tables
from ctrlab.data.raw.layout import Layout, Raw
from ctrlab.data.words import Ragged
from ctrlab.schema import Categorical, Label, Schema, Sequence

# Buckets for the whole Books set: 543,060 users, 367,983 items, 1,601 categories.
USERS, ITEMS, CATEGORIES = 600_000, 400_000, 20_000
ITEM = {"buckets": ITEMS, "table": "item", "of": "item", "separator": "\x02"}
CATEGORY = {"buckets": CATEGORIES, "table": "category", "of": "category", "separator": "\x02"}

SCHEMA = Schema(
    "amazon_reviews",
    (
        Label("label"),
        Categorical("user", buckets=USERS),
        Categorical("item", buckets=ITEMS),
        Categorical("category", buckets=CATEGORIES),
        Sequence("history_items", **ITEM),
        Sequence("history_categories", **CATEGORY),
        Sequence("negative_items", **ITEM, negative_of="history_items"),
        Sequence("negative_categories", **CATEGORY, negative_of="history_categories"),
    ),
    wide=("user", "item", "category"),
    delimiter="\t",
    user="user",
)
# Only the number of users is taken from Books. Its other columns have another distribution than this sample's.
PUBLISHED = Published(
    "Measured on Amazon reviews of Beauty, Sports and Toys (S3Rec's selection, CIKM 2020); as many users as Books has.",
    {"user": 543_060},
)
PLAN = Plan(
    {"label": 1.4},
    # first, pairs, interest, order, rare, drift
    (0.05, 0.00, 0.70, 0.20, 0.05, 0.0),
    first=("category", "item"),
    interest=(("category", "history_categories"),),
    rare=("item",),
    paired=True,
)
RAW = Raw(
    SCHEMA,
    (
        Layout(("amazon_reviews/local_train_splitByUser",), ("amazon_reviews/local_test_splitByUser",)),
        # the original scripts hold out a tenth of the users' pairs
        Layout(("amazon_reviews/reviews_*.json", "amazon_reviews/meta_*.json"), held_out=10),
    ),
    tables,
    together=2,
)


@functools.cache
def _catalogue(name: str) -> Catalogue:
    ids = statistics(name).ids
    return Catalogue(ids["history_items"], ids["history_categories"])


def draw(name: str, rng: np.random.Generator, rows: int) -> dict[str, np.ndarray | Ragged]:
    """Rows with the columns of the set `name`, drawn from its statistics."""
    figures, catalogue = statistics(name), _catalogue(name)
    pairs = rows // 2
    past = histories(rng, figures.lengths["history_items"], pairs, figures.ids["history_categories"].same, catalogue)
    others = Ragged(catalogue.draw(rng, len(past.values)), past.offsets)
    # Both rows of a pair belong to one user. Otherwise users come once, in random order.
    users = rng.integers(0, figures.ids["user"].cardinality, pairs)
    past, others = past.repeated(2), others.repeated(2)
    # In most pairs one item is from a category in the history and the other is arbitrary, in either order. So all histories give
    # similar chances, and a row's own logit contains nearly all information that is available without its partner.
    near = rng.random(rows) < rng.permuted(np.tile([0.9, 0.1], (pairs, 1)), axis=1).ravel()
    shown = near_or_anywhere(rng, past, catalogue, near)
    return {
        "user": np.repeat(users, 2),
        "item": shown,
        "category": catalogue.category[shown],
        "history_items": past,
        "history_categories": past.with_values(catalogue.category[past.values]),
        "negative_items": others,
        "negative_categories": others.with_values(catalogue.category[others.values]),
    }


GENERATOR = Generator(SCHEMA, functools.partial(draw, "amazon_reviews"), PLAN)
