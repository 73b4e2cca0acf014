"""An interval in the unit that a table shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlab.profiling.timing import Interval


def scaled(value: Interval, scale: float) -> str:
    """The median and the interval's ends, times `scale`, in whole numbers."""
    return f"{scale * value.median:,.0f} [{scale * value.low:,.0f}, {scale * value.high:,.0f}]"
