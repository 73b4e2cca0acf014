"""The parts of a model in profiles and charts: one list, for marking code and for recognising op names.

TensorFlow names an op by its name scopes ("dien/gru/while/body/MatMul"), and the op of its gradient by "gradient_tape/" and the
same. So a part is marked in the code, with `@part("gru")` or by a Keras layer with a name in ALIASES, and every profile can
find it again.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Callable

# Each with its colour; neighbours also differ in lightness, for black-and-white prints. Other parts are declared by their op.
PARTS = {
    "input": "#56b4e9",
    "embedding": "#0072b2",
    "linear": "#d55e00",
    "interaction": "#b8a800",
    "attention": "#cc79a7",
    "gru": "#e69f00",
    "experts": "#7b68a6",
    "auxiliary": "#9a6324",
    "tower": "#009e73",
    "loss": "#5c6b7a",
    "optimizer": "#a3c9a8",
    "executor": "#1f2a37",
    "other": "#c9c9c9",
}

# Names of Keras layers and of library scopes, and the part that each belongs to.
ALIASES = {
    "indicator": "linear",
    "wide": "linear",
    "query": "attention",
    "gate": "experts",
    "deep": "tower",
    "top": "tower",
    "bottom": "tower",
    "logit": "tower",
    "head": "tower",
    "logistic_loss": "loss",
}
# Colours of declared parts.
PALETTE = ("#8f3b76", "#4f7f2d", "#b5651d", "#2f4b9c", "#c2185b", "#00798c", "#6d4c41", "#8e9a00")

_COUNTERS = re.compile(r"(_\d+)+$")


def declare(name: str) -> None:
    """Registers a part by its name, which is also the name of its scopes; the name determines its colour.

    >>> declare("interaction")  # registered already: nothing changes
    """
    if name not in PARTS:
        free = [colour for colour in PALETTE if colour not in PARTS.values()] or list(PALETTE)
        PARTS[name] = free[zlib.crc32(name.encode()) % len(free)]


def part(name: str) -> Callable[[Callable], Callable]:
    """Marks the ops that a function makes as a part of the model: `@part("embedding")`.

    Raises:
        ValueError: `name` is not in PARTS.
    """
    if name not in PARTS:
        raise ValueError(f"A part must be one of {', '.join(PARTS)}; received {name!r}.")

    def mark(fn: Callable) -> Callable:
        @functools.wraps(fn)
        def marked(*args, **kwargs):
            import tensorflow as tf

            with tf.name_scope(name):
                return fn(*args, **kwargs)

        return marked

    return mark


def part_of(op_name: str) -> str:
    """The part of an op: the outermost scope that names a part, the forward op's for gradients, otherwise "other".

    >>> part_of("gradient_tape/dien/gru_1/while/body/_12/MatMul")
    'gru'
    """
    for scope in op_name.split("/")[:-1]:
        name = _COUNTERS.sub("", scope)
        if name in PARTS:
            return name
        if name in ALIASES:
            return ALIASES[name]
    return "other"
