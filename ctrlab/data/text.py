"""Arrow's text: plain from dictionary-encoded, joined from lists, and packed for TensorFlow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Stands between packed texts: a byte that UTF-8 never uses.
BORDER = b"\xff"


def plain(values: pa.Array) -> pa.Array:
    """Dictionary-encoded values written out; others as they are."""
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def join(lists: pa.ListArray, separator: str) -> pa.Array:
    """Each list's entries (text or numbers) in one text; a list that is empty or missing is the empty text."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    entries = plain(lists.flatten()).cast(pa.string())
    return pc.binary_join(pa.ListArray.from_arrays(offsets, entries), separator)


def pack(text: pa.Array, ends: np.ndarray) -> np.ndarray:
    """Texts [n], valid UTF-8, joined batch by batch: object [batches], batch i up to place `ends[i]`, split again at BORDER.

    A string tensor made from Python's bytes costs an object a value, which is most of what reading Parquet would cost.
    """
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    batches = pa.ListArray.from_arrays(offsets, plain(text).cast(pa.binary()))
    return pc.binary_join(batches, BORDER).to_numpy(zero_copy_only=False)
