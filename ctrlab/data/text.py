"""Arrow's text: plain from dictionary-encoded, joined from lists, and as the bytes that TensorFlow's strings are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def plain(values: pa.Array) -> pa.Array:
    """Dictionary-encoded values written out; others as they are."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def join(lists: pa.ListArray, separator: str) -> pa.Array:
    """Each list's entries (text or numbers) in one text; a list that is empty or missing is the empty text."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    entries = plain(lists.flatten()).cast(pa.string())
    return pc.binary_join(pa.ListArray.from_arrays(offsets, entries), separator)


def as_bytes(text: pa.Array) -> np.ndarray:
    """Text to an object array of bytes [n], from which TensorFlow makes a string tensor fastest."""
    return plain(text).cast(pa.binary()).to_numpy(zero_copy_only=False)
