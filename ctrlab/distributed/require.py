"""Rules for the numbers that the simulator, the plan and links take. A broken rule raises one sentence: the rule, what was
received, where, and the cure.
"""

from __future__ import annotations

import math

import numpy as np

from ctrlab.errors import CtrlabError

NUMERIC = "iuf"
"""Kinds of NumPy types that are real numbers. A bool is not one, although Python computes with it."""


def numbers(
    what: str,
    value: object,
    least: float,
    *,
    above: bool = False,
    most: float = math.inf,
    whole: bool = False,
    single: bool = False,
    cure: str = "",
) -> np.ndarray:
    """Checks numbers, and returns them as float64.

    Args:
        what: subject of the sentence.
        least, most: the limits; with `above`, `least` itself is refused.
        whole: each must be a whole number.
        single: there must be one number, not an array.
        cure: a sentence on what to do.
    Raises:
        CtrlabError: a value is not a finite number, or not within the limits.
    """
    given = _array(value)
    usable = given is not None and given.dtype.kind in NUMERIC and not (single and given.ndim)
    found = given.astype(float) if usable else np.array(math.nan)
    good = np.isfinite(found) & (found > least if above else found >= least) & (found <= most)
    good &= (found == np.floor(found)) if whole else True
    if good.all():
        return found
    rule = f"a finite {'whole ' * whole}number {'above' if above else 'of at least'} {least:g}"
    rule += f" and at most {most:g}" if math.isfinite(most) else ""
    raise CtrlabError(f"{what} must be {rule}; received {_received(value, found, good, usable)}.{' ' * bool(cure)}{cure}")


def _array(value: object) -> np.ndarray | None:
    try:
        return np.asarray(value)
    except (TypeError, ValueError):  # a list of lists of unequal lengths, for one
        return None


def _received(value: object, found: np.ndarray, good: np.ndarray, usable: bool) -> str:
    if not usable or not found.ndim:
        return f"{value!r:.100}"
    first = tuple(map(int, np.argwhere(~good)[0]))
    return f"{found[first]:g} at index {first[0] if len(first) == 1 else first}"


def attributes(what: str, of: object, **least: float) -> None:
    """Raises CtrlabError unless each named attribute is one finite number, at least the given one."""
    for name, low in least.items():
        numbers(f"{what}'s {name.replace('_', ' ')}", getattr(of, name), low, single=True)


def kinds(what: str, of: object, **expected: type) -> None:
    """Raises CtrlabError unless each named attribute is of its type."""
    for name, kind in expected.items():
        if not isinstance(getattr(of, name), kind):
            raise CtrlabError(
                f"{what}'s {name.replace('_', ' ')} must be of the type {kind.__name__}; received {getattr(of, name)!r:.100}."
            )
