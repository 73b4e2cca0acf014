"""Names of columns and tables in TensorFlow graphs and Keras weights, which do not accept every name."""

from __future__ import annotations

import re
import zlib


def graph_name(name: str) -> str:
    """The name of a column or table in a TensorFlow graph and in a Keras weight: unchanged if both accept it. Otherwise each
    character that they refuse becomes "_", and a checksum is added, so that two names never become equal.

    >>> graph_name("user_id"), graph_name("user id")
    ('user_id', 'user_id.f8c3fcf8')
    """
    plain = re.sub(r"[^A-Za-z0-9_.\\>-]", "_", name)
    return name if plain == name else f"{plain}.{zlib.crc32(name.encode()):08x}"
