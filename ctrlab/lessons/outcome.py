"""A prediction beside what was measured, as a picture: how many times as much, or for a share how many points more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from ctrlab.lessons.figures.kit import BLUE, ORANGE, Figure

LEFT, RIGHT, Y = 40, 600, 62
"""Where the scale begins and ends, and its height."""


@dataclass(frozen=True)
class Outcome:
    """What a learner said and what came out.

    Attributes:
        name: of the prediction. One that ends in "_percent" is a share, all others are ratios or counts.
        said: the prediction, or None where there was none. came: what came out.
        if_less, if_more: where to look if less, or more, came than was said.
        how: it came out, in a word.
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
        """("less" or "more", where to look); empty texts where nothing was said, or it came so."""
        if self.said is None:
            return "", ""
        more = self._points if self.is_share else self.came - self.said
        return ("less", self.if_less) if more < 0 else ("more", self.if_more) if more > 0 else ("", "")

    @property
    def _points(self) -> float:
        """How much more a share is than was said, in points as they are shown."""
        return round(self.came - self.said, 1)

    @property
    def difference(self) -> str:
        """How far the prediction was off, in words; empty where no number says it: for a ratio of 0, for instance."""
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
        """Where a value stands: a share between 0 and 100 %, a ratio well inside a logarithmic scale."""
        if self.is_share:
            low, high, at = 0.0, max(100.0, self.said, self.came), value
        else:
            low, high = math.log(min(self.said, self.came) / 3), math.log(3 * max(self.said, self.came))
            at = math.log(value)
        return LEFT + (RIGHT - LEFT) * max(0.0, at - low) / (high - low)


def plain(number: float) -> str:
    """Three digits, or all before the point: 125,000 and not 1.25e+05."""
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.3g}"
