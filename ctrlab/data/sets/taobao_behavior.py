"""Taobao UserBehavior: user, item, category, behaviour (pv, cart, fav, buy), unix time; comma-separated without a header.

Page views become rows of `amazon_reviews` (see `ctrlab.data.raw.events`), so this set is only converted, never generated. Its
negatives are drawn from all shops, which makes them easy to recognise: use the set for its real lengths and for speed, not for
quality.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ctrlab.data.raw.catalogue import Catalogue
from ctrlab.data.raw.delimited import Text, delimited
from ctrlab.data.raw.events import Events
from ctrlab.data.raw.intake import Intake
from ctrlab.data.raw.layout import Layout, Raw
from ctrlab.data.sets.amazon_reviews import SCHEMA
from ctrlab.schema import Categorical, Schema

BEHAVIOURS = ("pv", "cart", "fav", "buy")
TEXT = ("user", "item", "category", "behaviour")
LOG = Schema("taobao_behavior", (*map(Categorical, TEXT), Categorical("time", buckets=1 << 40, encoding="identity")))


def _tables(sources: Sequence[Path], intake: Intake, schema: Schema) -> Iterator[pa.Table]:
    with Events(intake.scratch(), intake.size, Catalogue(), schema) as events:
        for log in delimited(sources, intake, LOG, prepare=_checked):
            intake.check()
            views = log.filter(pc.equal(log["behaviour"], "pv"))
            user, item, category = (pc.cast(views[name], pa.string()).combine_chunks() for name in TEXT[:3])
            events.add(user, item, category, views["time"].combine_chunks())
    yield from events.rows()


def _checked(text: pa.Table, rows: Text) -> pa.Table:
    for name in TEXT:
        rows.reject_where(pc.is_null(text[name]), f"{name} is empty", lambda _: "expected an id")
    unknown = pc.invert(pc.is_in(text["behaviour"], pa.array(BEHAVIOURS)))
    rows.reject_where(unknown, "behaviour is unknown", lambda i: f"got {text['behaviour'][i].as_py()!r}")
    return text


RAW = Raw(SCHEMA, (Layout(("taobao/user_behavior*.csv",)), Layout(("taobao/UserBehavior.csv",))), _tables, together=2)
