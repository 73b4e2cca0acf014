"""Data sets with some columns of each kind: a model on them is traced in a fraction of the time, and what one rung or one
embedding does is seen on them as on all columns."""

import dataclasses

FEW = {
    "food_delivery": "clicked user_id shop_id shop_id_list timediff_list time_type time_type_list gender avg_price is_supervip "
    "price_list hours_list",
    "taobao": "clk buy adgroup_id cate_id user_id tag_category_list price",
}
"""The other data sets of the six models have eight columns as they are."""


def few(schema):
    """The schema with the columns that `FEW` names."""
    if schema.name not in FEW:
        return schema
    names = FEW[schema.name].split()
    roles = {role: tuple(n for n in getattr(schema, role) if n in names) for role in ("wide", "user_columns", "context_columns")}
    return dataclasses.replace(schema, columns=tuple(c for c in schema.columns if c.name in names), **roles)


def kinds(schema) -> set:
    """The kinds of columns for which code differs."""
    found = {(type(c), getattr(c, "encoding", ""), getattr(c, "transform", "")) for c in schema.columns}
    return found | {(type(c), "wide") for c in schema.columns if c.name in schema.wide}
