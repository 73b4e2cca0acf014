"""Amazon reviews in the layout of DIN and DIEN: would this user, with this history, review this item next?

Lists are joined by byte 0x02. Position by position, `negative_items` holds what the user did not choose (DIEN's auxiliary
loss). REES46's shop sessions come in the same columns.
"""

from __future__ import annotations

import dataclasses

from ctrlab.features import Categorical, Label, Schema, Sequence

# Room for the whole Books set: 543,060 users, 367,983 items, 1,601 categories.
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
)
REES46 = dataclasses.replace(SCHEMA, name="rees46")
