"""The layer sizes of our models, for the peers' models of the same name."""

from __future__ import annotations

import dataclasses

from ctrlab.models import MODELS
from ctrlab.models.interest import Head
from ctrlab.peers.cases import Case


def with_units(case: Case) -> Case:
    """The case with its model's tower sizes, read from attributes of our class: `deep_units` is "deep"."""
    maker = MODELS.get(case.kind)
    if maker is None:
        return case
    found = {name.removesuffix("_units"): getattr(maker, name) for name in dir(maker) if name.endswith("_units")}
    return dataclasses.replace(case, units=found | ({"head": Head.units} if hasattr(maker, "attention_units") else {}))
