"""Which arm of an A/B test a user is in: by a hash of the user's id. Nothing is stored, and every process agrees.

    h = blake2b(user, key = blake2b(experiment)) / 2^64      even in [0, 1), and independent for each experiment
    | control 90 %                                  | new |   arms lie side by side, in their order; h says where a user is

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

_BITS = 64


@dataclass(frozen=True)
class Split:
    """An experiment: its name, and {arm: percent of the users}.

    Two experiments of one name split users alike, those of two names independently.

    Raises:
        CtrlabError: it has no name, a percent is below 0, or they don't add up to 100.

    >>> split = Split("ranking-7", {"control": 90, "new": 10})
    >>> [split.arm(user) for user in ("A1", "A2", "A1")]
    ['control', 'control', 'control']
    """

    experiment: str
    percent: Mapping[str, float]

    def __post_init__(self):
        if not self.experiment:
            raise CtrlabError("An A/B test has a name, by which its users are drawn; received none.")
        given = ", ".join(f"{arm} {percent:g} %" for arm, percent in self.percent.items()) or "no arm"
        if not all(percent >= 0 for percent in self.percent.values()) or not math.isclose(sum(self.percent.values()), 100):
            raise CtrlabError(f"The arms of an A/B test have percents from 0 on that add up to 100; received {given}.")
        key = hashlib.blake2b(self.experiment.encode()).digest()
        object.__setattr__(self, "_hash", hashlib.blake2b(key=key, digest_size=_BITS // 8))
        ends = [round(2**_BITS * end / 100) for end in itertools.accumulate(self.percent.values())]
        object.__setattr__(self, "_ends", [*ends[:-1], 2**_BITS])
        object.__setattr__(self, "_arms", list(self.percent))

    def arm(self, user: str | bytes) -> str:
        """The arm of a user."""
        hashed = self._hash.copy()
        hashed.update(user.encode() if isinstance(user, str) else user)
        return self._arms[bisect.bisect_right(self._ends, int.from_bytes(hashed.digest()))]
