"""A prediction beside the measured value, as a picture: their ratio or, for a share, their difference in percentage points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

import numpy as np

from ctrlab.lessons.figures.kit import BLUE, ORANGE, Figure

LEFT, RIGHT, Y = 40, 600, 62
"""The left and right end of the scale, and its vertical position, in pixels."""


@dataclass(frozen=True)
class Outcome:
    """A learner's prediction and the outcome.

    Attributes:
        name: the prediction's name. One that ends in "_percent" is a share, all others are ratios or counts.
        said: the prediction, or None if there was none. came: the outcome.
        if_less, if_more: where to look if the outcome is less, or more, than the prediction.
        how: how the outcome was obtained, in a word.
    """

    name: str
    said: float | None
    came: float
    if_less: str = ""
    if_more: str = ""
    how: str = "measured"

    @staticmethod
    def is_share_of(name: str) -> bool:
        return name.endswith("_percent")

    @property
    def is_share(self) -> bool:
        return self.is_share_of(self.name)

    @property
    def where_to_look(self) -> tuple[str, str]:
        """("less" or "more", where to look); empty texts if there was no prediction, or it was right."""
        if self.said is None:
            return "", ""
        more = self._points if self.is_share else self.came - self.said
        return ("less", self.if_less) if more < 0 else ("more", self.if_more) if more > 0 else ("", "")

    @property
    def _points(self) -> float:
        """The difference between a share and its prediction, in percentage points as they are shown."""
        return round(self.came - self.said, 1)

    @property
    def difference(self) -> str:
        """The error of the prediction, in words; empty if no number can express it: for a ratio of 0, for instance."""
        if self.said is None or not (math.isfinite(self.said) and math.isfinite(self.came)):
            return ""
        if self.is_share:
            points = self._points
            return f"{abs(points):g} points {'more' if points > 0 else 'less'}" if points else "as you said"
        if self.came <= 0 or self.said <= 0:  # `predict` takes no such guess, but a file may have one
            return ""
        times = self.came / self.said
        if 0.8 < times < 1.25:
            return "close"
        return f"{plain(times)} times as much" if times > 1 else f"1/{plain(1 / times)} of it"

    def __repr__(self) -> str:
        text = f"{self._label}: {self._sentence}."
        which, where = self.where_to_look
        return f"{text}\nIf you got {which}: {where}" if where else text

    def _repr_html_(self) -> str:
        shown = self._figure()._repr_html_() if self.difference else f"<p>{escape(self._label)}: {escape(self._sentence)}.</p>"
        which, where = self.where_to_look
        if where:
            shown += f"<p><b>If you got {which}, look here.</b> {escape(where)}</p>"
        return shown

    @property
    def _label(self) -> str:
        return self.name.removesuffix("_percent").replace("_", " ")

    @property
    def _sentence(self) -> str:
        if self.said is None:
            return f"{self.how} {self._number(self.came)}; nothing was predicted (lab.predict({self.name}=...))"
        off = f", {self.difference}" if self.difference else ""
        return f"you said {self._number(self.said)}, {self.how} {self._number(self.came)}{off}"

    def _number(self, value: float) -> str:
        return f"{plain(value)} %" if self.is_share else plain(value)

    def _figure(self) -> Figure:
        figure = Figure(640, 120, f"{self._label}: {self._sentence}")
        figure.text(LEFT - 20, 14, self._label, anchor="start", bold=True)
        figure.arrow((LEFT - 20, Y + 6), (RIGHT + 20, Y + 6))
        figure.text(RIGHT + 20, Y + 50, "percent" if self.is_share else "logarithmic", anchor="end", size=12, faint=True)
        for value, colour, words, y in ((self.said, ORANGE, "you said", Y - 22), (self.came, BLUE, self.how, Y + 30)):
            place = self._place(value)
            figure.box(place - 5, Y, 10, 12, colour=colour)
            anchor = "start" if place < LEFT + 60 else "end" if place > RIGHT - 60 else "middle"
            figure.text(place, y, f"{words} {self._number(value)}", anchor=anchor)
        figure.text(RIGHT + 20, 14, self.difference, anchor="end", bold=True)
        return figure

    def _place(self, value: float) -> float:
        """The position of a value on the scale: a share between 0 and 100 %, a ratio well inside a logarithmic scale."""
        if self.is_share:
            low, high, at = 0.0, max(100.0, self.said, self.came), value
        else:
            low, high = math.log(min(self.said, self.came) / 3), math.log(3 * max(self.said, self.came))
            at = math.log(value)
        return LEFT + (RIGHT - LEFT) * max(0.0, at - low) / (high - low)


def plain(number: float) -> str:
    """A number with three digits, or with all digits before the point: 125,000 and not 1.25e+05, 0.00001 and not 1e-05."""
    return f"{number:,.0f}" if abs(number) >= 999.5 else np.format_float_positional(float(f"{number:.3g}"), trim="-")
