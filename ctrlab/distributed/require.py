"""Rules for the numbers that simulator, plan and links are given. What breaks one is said in a sentence: the rule, what
came, where, and the cure.
"""

from __future__ import annotations

import math

import numpy as np

from ctrlab.errors import CtrlabError

NUMERIC = "iuf"
"""Kinds of NumPy's types that are real numbers. A truth value is none, though Python counts with it."""


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
    """The numbers as float64.

    Args:
        what: subject of the sentence.
        least, most: the numbers lie between; above: none is `least` itself.
        whole: each is a whole number. single: there is one, not an array.
        cure: a sentence on what to do.
    Raises:
        CtrlabError: something is no finite number, or not within.
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
    """Raises CtrlabError unless each named attribute is one finite number, at least so much."""
    for name, low in least.items():
        numbers(f"{what}'s {name.replace('_', ' ')}", getattr(of, name), low, single=True)


def kinds(what: str, of: object, **expected: type) -> None:
    """Raises CtrlabError unless each named attribute is of its type."""
    for name, kind in expected.items():
        if not isinstance(getattr(of, name), kind):
            raise CtrlabError(
                f"{what}'s {name.replace('_', ' ')} must be of the type {kind.__name__}; received {getattr(of, name)!r:.100}."
            )
