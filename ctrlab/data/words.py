"""Converts ranks and numbers to Arrow columns. An id is spelled as eight hexadecimal digits, the same in every column."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ctrlab.data.arrow import arrow_schema
from ctrlab.schema import Column, IdColumn, Schema

WIDTH = 8
# Two digits per byte, stored as one 16-bit number, so that a word takes four lookups.
_DIGITS = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), dtype=np.uint16)


@dataclass(frozen=True)
class Ragged:
    """Lists of one column: row b is `values[offsets[b]:offsets[b + 1]]`; values [N], offsets int64 [B + 1]."""

    values: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def with_values(self, values: np.ndarray) -> Ragged:
        return Ragged(values, self.offsets)

    def repeated(self, times: int) -> Ragged:
        """Repeats each list `times` times, one after another."""
        lengths = np.repeat(self.lengths, times)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        moved = np.repeat(np.repeat(self.offsets[:-1], times) - offsets[:-1], lengths)
        return Ragged(self.values[np.arange(offsets[-1]) + moved], offsets)


def mix(ids: np.ndarray, salt: int) -> np.ndarray:
    """A bijective mix of 32 bits (MurmurHash3's finalizer): int [n] -> uint32 [n]."""
    hashed = ids.astype(np.uint32)
    hashed ^= np.uint32(salt)
    hashed ^= hashed >> np.uint32(16)
    hashed *= np.uint32(0x85EBCA6B)
    hashed ^= hashed >> np.uint32(13)
    hashed *= np.uint32(0xC2B2AE35)
    hashed ^= hashed >> np.uint32(16)
    return hashed


def salt(*names: object) -> int:
    """A number for a name, the same on every machine and in every run."""
    return zlib.crc32("/".join(map(str, names)).encode())


def spell(ids: np.ndarray, table: str) -> pa.StringArray:
    """The word of each id [n] of an embedding table; different ids have different words."""
    digits = _DIGITS[mix(ids, salt("word", table)).view(np.uint8)]
    offsets = np.arange(0, WIDTH * len(ids) + 1, WIDTH, dtype=np.int32)
    return pa.StringArray.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(digits))


def to_table(schema: Schema, values: dict[str, np.ndarray | Ragged], spelling: dict[str, str]) -> pa.Table:
    """A table of the schema's columns.

    Args:
        values: by column name: ids int [B] (-1 if missing), numbers float [B] (NaN if missing), or Ragged of either.
        spelling: {column: the table whose words it uses}, if that is not the table in which it is looked up.
    """
    arrays = [_array(column, values[column.name], spelling.get(column.name)) for column in schema.columns]
    return pa.table(arrays, schema=arrow_schema(schema))


def _array(column: Column, values: np.ndarray | Ragged, table: str | None) -> pa.Array:
    if isinstance(values, Ragged):
        flat = _flat(column, values.values, table)
        return pa.ListArray.from_arrays(pa.array(values.offsets, pa.int32()), flat)
    if not isinstance(column, IdColumn):
        return pa.array(values, pa.float32(), from_pandas=True)
    if column.encoding == "identity":
        return pa.array(values, pa.int64())
    if column.encoding == "vocabulary":
        return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), pa.array(column.vocabulary))
    encoded = spell(values, table or column.table).dictionary_encode()
    missing = values < 0
    if not missing.any():
        return encoded
    return pa.DictionaryArray.from_arrays(pa.array(encoded.indices.to_numpy(), mask=missing), encoded.dictionary)


def _flat(column: Column, values: np.ndarray, table: str | None) -> pa.Array:
    if not isinstance(column, IdColumn):
        return pa.array(values, pa.float32())
    if column.encoding == "vocabulary":
        return pa.array(column.vocabulary).take(pa.array(values))
    return spell(values, table or column.table)
