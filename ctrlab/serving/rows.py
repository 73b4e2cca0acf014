"""Rows of tables that a server only reads, narrower than in training: the formats of native/kernels/lookup/row_format.h.

    float32   D floats                                        4 D bytes
    bf16      D bfloat16, rounded to nearest even             2 D bytes
    int8      a float, the row's scale, and D whole numbers   4 + D bytes

A packed row fills whole words of 4 bytes. In int8 a number is scale * q with q in [-127, 127], and the scale is the smallest
float with 127 * scale >= max |x|: so the error of each number of the row is at most half the scale.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ctrlab.errors import CtrlabError

Format = Literal["float32", "bf16", "int8"]
MOST = 127


def words(format: Format, dim: int) -> int:
    """The number of 4-byte words of a row of `dim` numbers."""
    return {"float32": dim, "bf16": (dim + 1) // 2, "int8": 1 + (dim + 3) // 4}[format]


def pack(values: np.ndarray, format: Format) -> np.ndarray:
    """Packs rows: finite float32 [n, D] -> float32 [n, words], which hold the packed bytes.

    Raises:
        CtrlabError: a number is too large for the format.
    """
    values = np.ascontiguousarray(values, np.float32)
    if format == "float32":
        return values
    rows, dim = values.shape
    packed = np.zeros((rows, 4 * words(format, dim)), np.uint8)
    if format == "bf16":
        bits = values.view(np.uint32)
        high = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        _require(((high & 0x7F80) != 0x7F80).all(), values, format)
        packed[:, : 2 * dim] = high.astype("<u2").view(np.uint8)
    else:
        scales, steps = _quantized(values, MOST)
        with np.errstate(over="ignore"):
            _require(np.isfinite(MOST * scales).all(), values, format)
        packed[:, :4] = scales.astype("<f4")[:, None].view(np.uint8)
        packed[:, 4 : 4 + dim] = steps.astype(np.int8).view(np.uint8)
    return packed.view(np.float32)


def unpack(packed: np.ndarray, format: Format, dim: int) -> np.ndarray:
    """Unpacks rows: float32 [n, words] -> float32 [n, D]."""
    if format == "float32":
        return packed
    raw = np.ascontiguousarray(packed).view(np.uint8)
    if format == "bf16":
        high = np.ascontiguousarray(raw[:, : 2 * dim]).view("<u2").astype(np.uint32)
        return (high << 16).view(np.float32)
    scales = np.ascontiguousarray(raw[:, :4]).view("<f4")
    return scales * np.ascontiguousarray(raw[:, 4 : 4 + dim]).view(np.int8).astype(np.float32)


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """Rounds rows to this number of bits (2 to 8; 8 is int8) with one scale per row: float32 [n, D] -> float32 [n, D]."""
    scales, steps = _quantized(np.ascontiguousarray(values, np.float32), 2 ** (bits - 1) - 1)
    return scales[:, None] * steps.astype(np.float32)


def _quantized(values: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The scales [n], and each number in units of its row's scale, [n, D]: whole numbers in [-most, most]. A scale is rounded up.
    If it were rounded down, the largest number of the row would not fit, with denormal numbers not even nearly.
    """
    largest = abs(values).max(axis=1).astype(np.float64)
    scales = (largest / most).astype(np.float32)
    scales = np.where(scales.astype(np.float64) * most < largest, np.nextafter(scales, np.float32(np.inf)), scales)
    return scales, np.rint(values.astype(np.float64) / np.where(scales == 0, 1, scales).astype(np.float64)[:, None])


def _require(good: bool, values: np.ndarray, format: Format) -> None:
    if not good:
        raise CtrlabError(
            f"Rows in {format} hold numbers below {np.finfo(np.float32).max:.1e}; received {abs(values).max():.3e}: export them "
            "in float32, or an earlier checkpoint."
        )
