"""Food delivery: 39 columns of a contest on which WDL, DeepFM and DLRM are raced. No public sample: the generator is its source.

A row is one impression of one dish to one user, with the user's earlier orders, oldest first, as twelve parallel lists.
"""

from __future__ import annotations

from ctrlab.features import Categorical, Label, MultiHot, Numeric, NumericList, Schema, Sequence

TIME_TYPES = ("lunch", "night", "dinner", "tea", "breakfast")
WEEKDAYS = ("0", "1", "2", "3", "4", "5", "6")

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

# The fifteen hashed single columns of the contest's indicators (100,000 words each) and the two of five words.
WIDE = (
    "user_id visit_city shop_id item_id city_id district_id shop_aoi_id shop_geohash_6 shop_geohash_12 brand_id category_1_id "
    "merge_standard_food_id times geohash12 timediff_list time_type time_type_list"
)

SCHEMA = Schema("food_delivery", (Label("clicked"), *USER, *ITEM, *HISTORY, *CONTEXT), wide=tuple(WIDE.split()))
