"""Turns a refusal by one of our ops into one sentence. TensorFlow adds marks to it, and in a graph a heading and a node name."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from ctrlab.errors import CtrlabError

TENSORFLOW_MARKS = re.compile(
    r"^\{\{.*?\}\} |^Graph execution error:\s*(Detected at node .*?Node: '[^']*'\s*)?|\s\[\[\{\{node .*$|\s\[Op:[^\]]*\].*$",
    re.DOTALL,
)


def sentence(error: tf.errors.OpError) -> str:
    """The op's own message, without TensorFlow's additions."""
    return TENSORFLOW_MARKS.sub("", error.message).strip()


@contextlib.contextmanager
def one_sentence() -> Iterator[None]:
    """Raises a CtrlabError in place of TensorFlow's error from an op on embedding variables or changes. Other errors pass."""
    try:
        yield
    except tf.errors.OpError as error:
        if not re.search("Ctrlab>(Embedding|Changes)", str(error)):
            raise
        raise CtrlabError(sentence(error)) from None
