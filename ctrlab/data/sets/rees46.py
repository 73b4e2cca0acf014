"""REES46's shop sessions, converted to the columns of `amazon_reviews`."""

from __future__ import annotations

import dataclasses
import functools

from ctrlab.data.generator import Generator
from ctrlab.data.marginals import Published
from ctrlab.data.raw.histories import tables
from ctrlab.data.raw.layout import Layout, Raw
from ctrlab.data.sets import amazon_reviews

SCHEMA = dataclasses.replace(amazon_reviews.SCHEMA, name="rees46")
# In the sample each user has two rows, in one pair; with 200,000 users, its small number of repeated users is likely.
PUBLISHED = Published("Measured on two days of REES46 shop sessions (NVIDIA Merlin's session-based example).", {"user": 200_000})
PLAN = dataclasses.replace(amazon_reviews.PLAN, deviation={"label": 2.0})
RAW = Raw(SCHEMA, (Layout(("rees46/local_train_splitByUser",), ("rees46/local_test_splitByUser",)),), tables)

GENERATOR = Generator(SCHEMA, functools.partial(amazon_reviews.draw, "rees46"), PLAN)
