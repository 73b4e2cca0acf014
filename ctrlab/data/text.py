"""Arrow's text: decoded from dictionaries, joined from lists, and packed for TensorFlow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Separates packed texts: a byte that never occurs in UTF-8.
BORDER = b"\xff"


def plain(values: pa.Array) -> pa.Array:
    """Decodes dictionary-encoded values; others pass unchanged."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def join(lists: pa.ListArray, separator: str) -> pa.Array:
    """Joins each list's entries (text or numbers) into one text; an empty or missing list gives the empty text."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    entries = plain(lists.flatten()).cast(pa.string())
    return pc.binary_join(pa.ListArray.from_arrays(offsets, entries), separator)


def pack(text: pa.Array, ends: np.ndarray) -> np.ndarray:
    """Joins texts [n], valid UTF-8, batch by batch: object [batches], batch i ends at `ends[i]`. TensorFlow splits at BORDER.

    Making a string tensor from Python's bytes takes one Python object per value: most of the time of reading Parquet.
    """
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    batches = pa.ListArray.from_arrays(offsets, plain(text).cast(pa.binary()))
    return pc.binary_join(batches, BORDER).to_numpy(zero_copy_only=False)
