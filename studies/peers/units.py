"""The layer sizes of our models, for the peers' models of the same name."""

from __future__ import annotations

import dataclasses

from ctrlab.models import MODELS
from studies.peers.cases import Case


def with_units(case: Case) -> Case:
    """The case with the units of its model's towers, at the contest's sizes."""
    maker = MODELS.get(case.kind)
    return dataclasses.replace(case, units=maker.presets["contest"].units) if maker else case
