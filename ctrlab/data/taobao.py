"""Taobao ads with two tasks, click and buy: the twenty columns on which DeepRec trains MMoE."""

from __future__ import annotations

from ctrlab.features import Categorical, Label, MultiHot, Schema

SCHEMA = Schema(
    "taobao",
    (
        Label("clk"),
        Label("buy"),
        Categorical("pid", buckets=10),
        Categorical("adgroup_id"),
        Categorical("cate_id", buckets=10_000),
        Categorical("campaign_id"),
        Categorical("customer"),
        Categorical("brand"),
        Categorical("user_id"),
        Categorical("cms_segid", buckets=100),
        Categorical("cms_group_id", buckets=100),
        # DeepRec reads this column and feeds it to nothing; here it is a feature like its neighbours, 16 inputs more.
        Categorical("final_gender_code", buckets=10),
        Categorical("age_level", buckets=10),
        Categorical("pvalue_level", buckets=10),
        Categorical("shopping_level", buckets=10),
        Categorical("occupation", buckets=10),
        Categorical("new_user_class_level", buckets=10),
        MultiHot("tag_category_list", separator="|"),
        MultiHot("tag_brand_list", separator="|"),
        Categorical("price", buckets=50, encoding="identity"),
    ),
    wide=tuple(
        [
            "pid",
            "adgroup_id",
            "cate_id",
            "campaign_id",
            "customer",
            "brand",
            "user_id",
            "cms_segid",
            "cms_group_id",
            "final_gender_code",
            "age_level",
            "pvalue_level",
            "shopping_level",
            "occupation",
            "new_user_class_level",
            "tag_category_list",
            "tag_brand_list",
            "price",
        ]
    ),
)
