"""Names of columns and tables in a graph of TensorFlow and in the weights of Keras, which do not take every name."""

from __future__ import annotations

import re
import zlib


def graph_name(name: str) -> str:
    """The name of a column or table as TensorFlow takes it in a graph and Keras in a weight: itself wherever they take it.

    Elsewhere each sign that they refuse is "_", and a checksum keeps it apart from names that would read the same.

    >>> graph_name("user_id"), graph_name("user id")
    ('user_id', 'user_id.f8c3fcf8')
    """
    plain = re.sub(r"[^A-Za-z0-9_.\\>-]", "_", name)
    return name if plain == name else f"{plain}.{zlib.crc32(name.encode()):08x}"
