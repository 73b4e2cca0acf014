"""Combines the CRC-32 of parts into that of the whole, so that parts can be written in any order."""

from __future__ import annotations

POLYNOMIAL = 0xEDB88320
"""The polynomial of CRC-32; its lowest bit is x^31."""


def joined(first: int, second: int, length: int) -> int:
    """CRC-32 of the concatenation of a and b, from that of each and the length of b in bytes: crc(a) x^(8 length) + crc(b).

    Source: zlib's crc32_combine; as there, the highest bit is x^0.
    """
    power = 1 << 23  # x^8
    while length:
        if length & 1:
            first = _product(first, power)
        power, length = _product(power, power), length >> 1
    return first ^ second


def _product(a: int, b: int) -> int:
    """The product of two polynomials over GF(2), modulo the CRC's polynomial."""
    product = 0
    for place in range(31, -1, -1):
        product ^= b if a >> place & 1 else 0
        b = b >> 1 ^ (POLYNOMIAL if b & 1 else 0)
    return product
