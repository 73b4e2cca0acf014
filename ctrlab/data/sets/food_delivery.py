"""Food delivery: 39 columns of the contest in which WDL, DeepFM and DLRM are raced. No sample is public: rows are generated.

A row is one impression of one dish to one user, with the user's earlier orders, oldest first, as twelve parallel lists. The raw
file is comma-separated, with or without a header; `;` joins its lists.
"""

from __future__ import annotations

import functools

import numpy as np

from ctrlab.data.catalogue import Catalogue, attribute, histories, near_or_anywhere
from ctrlab.data.generator import Generator
from ctrlab.data.marginals import statistics
from ctrlab.data.planted import Plan
from ctrlab.data.raw.delimited import delimited
from ctrlab.data.raw.layout import Layout, Raw
from ctrlab.data.words import Ragged, mix, salt
from ctrlab.schema import Categorical, Label, MultiHot, Numeric, NumericList, Schema, Sequence

TIME_TYPES = ("lunch", "night", "dinner", "tea", "breakfast")
WEEKDAYS = ("0", "1", "2", "3", "4", "5", "6")
# The index in TIME_TYPES for each hour of the day.
TIME_TYPE_OF_HOUR = np.repeat([1, 4, 0, 3, 2, 1], [5, 5, 4, 3, 4, 3]).astype(np.int32)
# Columns that are drawn per row; the item's own properties follow from the item.
ROW_IDS = ("user_id", "visit_city", "times", "weekdays", "geohash12")

USER = (
    Categorical("user_id"),
    Numeric("gender", default=-99.0, transform="minmax", low=-99.0, high=1.0),
    Categorical("visit_city", table="city_id"),
    Numeric("avg_price", transform="log1p"),
    Numeric("is_supervip"),
    Numeric("ctr_30", transform="log1p"),
    Numeric("ord_30", transform="log1p"),
    Numeric("total_amt_30", transform="log1p"),
)
ITEM = (
    Categorical("shop_id"),
    Categorical("item_id"),
    Categorical("city_id"),
    Categorical("district_id"),
    Categorical("shop_aoi_id"),
    Categorical("shop_geohash_6"),
    Categorical("shop_geohash_12"),
    Categorical("brand_id"),
    Categorical("category_1_id"),
    Categorical("merge_standard_food_id"),
    Numeric("rank_7", transform="log1p"),
    Numeric("rank_30", transform="log1p"),
    Numeric("rank_90", transform="log1p"),
)
HISTORY = (
    Sequence("shop_id_list", of="shop_id", table="shop_id"),
    Sequence("item_id_list", of="item_id", table="item_id"),
    Sequence("category_1_id_list", of="category_1_id", table="category_1_id"),
    Sequence("merge_standard_food_id_list", of="merge_standard_food_id", table="merge_standard_food_id"),
    Sequence("brand_id_list", of="brand_id", table="brand_id"),
    NumericList("price_list", default="0", transform="log1p"),
    Sequence("shop_aoi_id_list", of="shop_aoi_id", table="shop_aoi_id"),
    Sequence("shop_geohash6_list", of="shop_geohash_6", table="shop_geohash_6"),
    MultiHot("timediff_list"),
    NumericList("hours_list", default="-0", transform="minmax", low=0.0, high=23.0),
    Sequence("time_type_list", of="time_type", table="time_type", encoding="vocabulary", vocabulary=TIME_TYPES),
    Sequence("weekdays_list", of="weekdays", table="weekdays", encoding="vocabulary", vocabulary=WEEKDAYS),
)
CONTEXT = (
    Categorical("times"),
    Numeric("hours", transform="minmax", low=0.0, high=23.0),
    Categorical("time_type", encoding="vocabulary", vocabulary=TIME_TYPES),
    Categorical("weekdays", encoding="vocabulary", vocabulary=WEEKDAYS),
    Categorical("geohash12", table="shop_geohash_12"),
)

# The contest's fifteen hashed single columns with indicators (100,000 words each) and the two columns of five words.
WIDE = (
    "user_id visit_city shop_id item_id city_id district_id shop_aoi_id shop_geohash_6 shop_geohash_12 brand_id category_1_id "
    "merge_standard_food_id times geohash12 timediff_list time_type time_type_list"
)

SCHEMA = Schema(
    "food_delivery",
    (Label("clicked"), *USER, *ITEM, *HISTORY, *CONTEXT),
    wide=tuple(WIDE.split()),
    user="user_id",
    user_columns=tuple(column.name for column in (*USER, *HISTORY)),
    context_columns=tuple(column.name for column in CONTEXT),
)
PLAN = Plan(
    {"clicked": 1.4},
    # first, pairs, interest, order, rare, drift
    (0.35, 0.35, 0.20, 0.02, 0.05, 0.03),
    first=("gender", "avg_price", "ctr_30", "rank_7", "category_1_id", "time_type", "hours"),
    pairs=(("category_1_id", "time_type"), ("avg_price", "category_1_id"), ("weekdays", "time_type")),
    interest=(("category_1_id", "category_1_id_list"), ("shop_id", "shop_id_list")),
    rare=("shop_id", "item_id", "brand_id"),
    drift=("category_1_id", "city_id"),
)
RAW = Raw(SCHEMA, (Layout(("food_delivery/train.csv",), ("food_delivery/test.csv",)),), delimited)


@functools.cache
def _catalogue() -> tuple[Catalogue, dict[str, np.ndarray], np.ndarray]:
    """The items, each item's properties by column, and its price."""
    ids = statistics("food_delivery").ids
    catalogue = Catalogue(ids["item_id"], ids["category_1_id"])
    of_shop = {}
    shops = np.arange(ids["shop_id"].cardinality)
    for name in ("brand_id", "shop_aoi_id", "shop_geohash_12"):
        of_shop[name] = attribute(shops, ids[name], name)
    for name in ("shop_geohash_6", "district_id"):
        of_shop[name] = attribute(of_shop["shop_aoi_id"], ids[name], name)
    of_shop["city_id"] = attribute(of_shop["district_id"], ids["city_id"], "city_id")
    items = np.arange(ids["item_id"].cardinality)
    shop = attribute(items, ids["shop_id"], "shop_id")
    of_item = {"item_id": items, "shop_id": shop, "category_1_id": catalogue.category}
    of_item["merge_standard_food_id"] = attribute(items, ids["merge_standard_food_id"], "merge_standard_food_id")
    of_item |= {name: values[shop] for name, values in of_shop.items()}
    price = np.exp2(3.0 + 3.0 * mix(items, salt("price")) / 2.0**32).round(1)
    return catalogue, {name: values.astype(np.int32) for name, values in of_item.items()}, price.astype(np.float32)


def _draw(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray | Ragged]:
    figures = statistics("food_delivery")
    catalogue, of_item, price = _catalogue()
    values = figures.sample(rng, rows, (*ROW_IDS, *figures.numbers))
    past = histories(rng, figures.lengths["item_id_list"], rows, figures.ids["category_1_id_list"].same, catalogue)
    shown = near_or_anywhere(rng, past, catalogue, near=rng.random(rows) < 0.5)
    for column in HISTORY:
        if isinstance(column, Sequence) and column.of in of_item:
            values[column.name] = past.with_values(of_item[column.of][past.values])
    values |= {name: of[shown] for name, of in of_item.items()}

    events = len(past.values)
    hours = figures.numbers["hours"].sample(rng, events).astype(np.int32)
    values["price_list"] = past.with_values(price[past.values])
    values["timediff_list"] = past.with_values(figures.ids["timediff_list"].sample(rng, events))
    values["hours_list"] = past.with_values(hours)
    values["time_type_list"] = past.with_values(TIME_TYPE_OF_HOUR[hours])
    values["weekdays_list"] = past.with_values(rng.integers(0, 7, events, dtype=np.int32))

    values["time_type"] = TIME_TYPE_OF_HOUR[values["hours"].astype(np.int32)]
    # Most people order near where they are: in the shop's city, and not far from it.
    at_home = rng.random(rows) < 0.9
    values["visit_city"] = np.where(at_home, values["city_id"], values["visit_city"])
    values["geohash12"] = np.where(at_home, values["shop_geohash_12"], values["geohash12"])
    return values


GENERATOR = Generator(SCHEMA, _draw, PLAN)
