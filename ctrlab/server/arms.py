"""Assigns users to the arms of an A/B test by a hash of the user's id. Nothing is stored, and every process agrees.

    place = the first 7 bytes of SHA-256("experiment/user"), a number, modulo 1,000,000
    | control 90 %                     900,000 | new |   arms lie side by side, in their order; the place says where a user is

HAProxy computes the same place from a request's header (docs/several_servers.md), so a proxy, a client and an analysis agree.
Changed percents move boundaries. The users between an old boundary and its new place change their arm, and nobody else does: with
two arms these are as few as can be.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from ctrlab.errors import CtrlabError

PLACES = 1_000_000
"""The number of places over which users are spread; one percent is `PLACES / 100` of them."""
HASH_BYTES = 7
"""The number of bytes of the hash that are used: as many as fit into HAProxy's whole numbers, of 64 bits with a sign."""


@dataclass(frozen=True)
class Split:
    """An experiment: its name, and {arm: percent of the users}.

    Two experiments of one name split users alike, those of two names independently.
    Percents are rounded to four decimals.

    Raises:
        CtrlabError: it has no name, a percent is below 0, or they don't add up to 100.

    >>> split = Split("ranking-7", {"control": 90, "new": 10})
    >>> [split.arm(user) for user in ("A1", "A2", "A1")]
    ['control', 'control', 'control']
    >>> split.place("A1"), split.place("A2")
    (323047, 895502)
    """

    experiment: str
    percent: Mapping[str, float]

    def __post_init__(self):
        if not self.experiment:
            raise CtrlabError("An A/B test has a name, by which its users are drawn; received none.")
        given = ", ".join(f"{arm} {percent:g} %" for arm, percent in self.percent.items()) or "no arm"
        if not all(percent >= 0 for percent in self.percent.values()) or not math.isclose(sum(self.percent.values()), 100):
            raise CtrlabError(f"The arms of an A/B test have percents from 0 on that add up to 100; received {given}.")
        ends = [round(PLACES * end / 100) for end in itertools.accumulate(self.percent.values())]
        object.__setattr__(self, "_ends", [*ends[:-1], PLACES])
        object.__setattr__(self, "_arms", list(self.percent))

    def place(self, user: str | bytes) -> int:
        """The place of a user, from 0 to `PLACES` - 1."""
        name = user.encode() if isinstance(user, str) else user
        return int.from_bytes(hashlib.sha256(self.experiment.encode() + b"/" + name).digest()[:HASH_BYTES]) % PLACES

    def arm(self, user: str | bytes) -> str:
        """The arm of a user."""
        return self._arms[bisect.bisect_right(self._ends, self.place(user))]
