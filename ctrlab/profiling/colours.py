"""One colour per name, in every chart and report. This module imports no plotting library.

The palette is Okabe and Ito's, which colour-blind people can distinguish. Baselines are grey; sums and "all" are dark.

    Source: Okabe, Ito, "Color Universal Design", 2008.
"""

from __future__ import annotations

from collections.abc import Iterable

from ctrlab.optimizations import LADDER
from ctrlab.profiling.parts import PARTS

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800")
GREY, DARK, FAINT, BOUND = "#8c8c8c", "#1f2a37", "#d9d9d9", "#000000"

BASELINES = ("none", "stock", "baseline", "one_hot")
_FIXED = (
    dict.fromkeys(BASELINES, GREY)
    | {"all": DARK, "all+results": "#7a1f5c", "bound": BOUND}
    | {rung.name: PALETTE[i % len(PALETTE)] for i, rung in enumerate(LADDER)}
)


def of_part(part: str) -> str:
    """The colour of a part of a model (parts.PARTS)."""
    return PARTS.get(part, FAINT)


def of_names(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name. A rung, a baseline, "all" and "bound" have fixed colours; other names take free ones, in order.

    >>> of_names(["none", "my own"])["none"] == GREY
    True
    """
    names = list(names)
    taken = {_FIXED[name] for name in names if name in _FIXED}
    free = [colour for colour in PALETTE if colour not in taken] or list(PALETTE)
    others = [name for name in names if name not in _FIXED]
    return {name: _FIXED.get(name) or free[others.index(name) % len(free)] for name in names}
