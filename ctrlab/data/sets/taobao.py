"""Taobao ads with two tasks, click and buy: the twenty columns on which DeepRec trains MMoE.

The raw file is comma-separated without a header; `|` joins tag lists.
"""

from __future__ import annotations

import numpy as np

from ctrlab.data.catalogue import draw_offsets, draw_runs, pick
from ctrlab.data.generator import Generator
from ctrlab.data.marginals import Published, statistics
from ctrlab.data.planted import Plan
from ctrlab.data.raw.delimited import delimited
from ctrlab.data.raw.layout import Layout, Raw
from ctrlab.data.words import Ragged
from ctrlab.schema import Categorical, Label, MultiHot, Schema

AD = (
    Categorical("adgroup_id"),
    Categorical("cate_id", buckets=10_000),
    Categorical("campaign_id"),
    Categorical("customer"),
    Categorical("brand"),
)
USER = (
    Categorical("user_id"),
    Categorical("cms_segid", buckets=100),
    Categorical("cms_group_id", buckets=100),
    # DeepRec reads this column but does not use it. Here it is a feature like its neighbours: 16 more inputs.
    Categorical("final_gender_code", buckets=10),
    Categorical("age_level", buckets=10),
    Categorical("pvalue_level", buckets=10),
    Categorical("shopping_level", buckets=10),
    Categorical("occupation", buckets=10),
    Categorical("new_user_class_level", buckets=10),
    MultiHot("tag_category_list", separator="|"),
    MultiHot("tag_brand_list", separator="|"),
)
INPUTS = (Categorical("pid", buckets=10), *AD, *USER, Categorical("price", buckets=50, encoding="identity"))
SCHEMA = Schema(
    "taobao",
    (Label("clk"), Label("buy"), *INPUTS),
    wide=tuple(column.name for column in INPUTS),
    user="user_id",
    user_columns=tuple(column.name for column in USER),
    context_columns=("pid",),
)
PUBLISHED = Published(
    "Measured on 304 rows of Alibaba's display-ad set (Tianchi 56), so rough; cardinalities are the full set's. `buy` is "
    "a filler in that sample: its rate is assumed.",
    {
        "user_id": 1_140_000,
        "adgroup_id": 846_811,
        "cate_id": 6_769,
        "campaign_id": 423_436,
        "customer": 255_875,
        "brand": 99_815,
        "tag_category_list": 6_769,
        "tag_brand_list": 99_815,
    },
    assumed_rates={"buy": 0.015},
)
PLAN = Plan(
    {"clk": 1.4, "buy": 1.4},
    # first, pairs, interest, order, rare, drift
    (0.25, 0.60, 0.05, 0.0, 0.05, 0.05),
    first=("pid", "cms_group_id", "age_level", "pvalue_level", "new_user_class_level"),
    pairs=(("pid", "age_level"), ("final_gender_code", "pvalue_level"), ("pid", "new_user_class_level")),
    interest=(("cate_id", "tag_category_list"),),
    rare=("customer", "brand", "campaign_id"),
    drift=("cate_id",),
    common=0.5,
    given={"buy": "clk"},
)
RAW = Raw(SCHEMA, (Layout(("taobao/taobao20col*.csv",)),), delimited)


def _draw(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray | Ragged]:
    figures = statistics("taobao")
    values = figures.sample(rng, rows, [c.name for c in SCHEMA.categoricals])
    offsets = draw_offsets(rng, figures.lengths["tag_category_list"], rows)
    for name in ("tag_category_list", "tag_brand_list"):
        tags = figures.ids[name]
        run = draw_runs(rng, offsets, tags.same, tags.probabilities())
        values[name] = Ragged(tags.sample(rng, run[-1] + 1)[run], offsets)
    # Half of the ads belong to a category that the user has looked at before.
    liked = pick(rng, values["tag_category_list"])
    values["cate_id"] = np.where((rng.random(rows) < 0.5) & (liked >= 0), liked, values["cate_id"])
    return values


# A tag uses the words of the category or brand that it names, although it has its own table.
GENERATOR = Generator(SCHEMA, _draw, PLAN, spelling={"tag_category_list": "cate_id", "tag_brand_list": "brand"})
