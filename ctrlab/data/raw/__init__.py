"""Raw files as their publishers lay them out: one module a layout, each with a function `tables(sources, intake)`."""

from ctrlab.data.raw import amazon_reviews, census_income, criteo, food_delivery, taobao, taobao_behavior

__all__ = ["amazon_reviews", "census_income", "criteo", "food_delivery", "taobao", "taobao_behavior"]
