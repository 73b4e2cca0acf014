"""FarmHash's 64-bit fingerprint in Python. tf.strings.to_hash_bucket_fast uses this hash.

Source: Geoff Pike, FarmHash (Fingerprint64 is its farmhashna::Hash64), 2014. The length selects one of four formulas.
"""

from __future__ import annotations

import struct

K0, K1, K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_WORD = (1 << 64) - 1


def fingerprint64(text: bytes) -> int:
    """The fingerprint, in [0, 2^64).

    >>> fingerprint64(b"") == K2
    True
    """
    n = len(text)
    return (_up_to_16 if n <= 16 else _up_to_32 if n <= 32 else _up_to_64 if n <= 64 else _beyond_64)(text, n)


def _word(p: bytes, at: int) -> int:
    return struct.unpack_from("<Q", p, at)[0]


def _half(p: bytes, at: int) -> int:
    return struct.unpack_from("<I", p, at)[0]


def _rotate(x: int, by: int) -> int:
    """Rotates to the right."""
    x &= _WORD
    return (x >> by | x << (64 - by)) & _WORD


def _fold(x: int) -> int:
    x &= _WORD
    return x ^ (x >> 47)


def _mix(u: int, v: int, factor: int) -> int:
    u, v = u & _WORD, v & _WORD
    return _fold((_fold((u ^ v) * factor) ^ v) * factor) * factor & _WORD


def _up_to_16(p: bytes, n: int) -> int:
    factor = K2 + 2 * n
    if n >= 8:
        first, last = _word(p, 0) + K2, _word(p, n - 8)
        return _mix(_rotate(last, 37) * factor + first, (_rotate(first, 25) + last) * factor, factor)
    if n >= 4:
        return _mix(n + (_half(p, 0) << 3), _half(p, n - 4), factor)
    if n == 0:
        return K2
    return _fold((p[0] + (p[n // 2] << 8)) * K2 ^ (n + (p[n - 1] << 2)) * K0) * K2 & _WORD


def _outer(p: bytes, n: int, k: int) -> tuple[int, int, int, int]:
    """Mixes the first and last 32 bytes: the first word, the factor, and two sums."""
    a, factor = _word(p, 0) * k & _WORD, K2 + 2 * n
    b, c, d = _word(p, 8), _word(p, n - 8) * factor, _word(p, n - 16) * K2
    return a, factor, _rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + K2, 18) + c


def _up_to_32(p: bytes, n: int) -> int:
    _, factor, left, right = _outer(p, n, K1)
    return _mix(left, right, factor)


def _up_to_64(p: bytes, n: int) -> int:
    a, factor, left, right = _outer(p, n, K2)
    z = _mix(left, right, factor)
    e, f = _word(p, 16) * factor, _word(p, 24)
    g, h = (left + _word(p, n - 32)) * factor, (z + _word(p, n - 24)) * factor
    return _mix(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, factor)


def _absorb(p: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """Combines 32 bytes and two seeds into two words."""
    a += _word(p, at)
    b = _rotate(b + a + _word(p, at + 24), 21)
    before = a
    a += _word(p, at + 8) + _word(p, at + 16)
    return a + _word(p, at + 24) & _WORD, b + _rotate(a, 44) + before & _WORD


def _beyond_64(p: bytes, n: int) -> int:
    x, y = 81 * K2 + _word(p, 0), 81 * K1 + 113
    z, v, w = _fold(y * K2 + 113) * K2, (0, 0), (0, 0)

    def block(at: int, factor: int, times: int) -> None:
        nonlocal x, y, z, v, w
        x = _rotate(x + y + v[0] + _word(p, at + 8), 37) * factor
        y = _rotate(y + v[1] + _word(p, at + 48), 42) * factor
        x = (x ^ w[1] * times) & _WORD
        y += v[0] * times + _word(p, at + 40)
        z = _rotate(z + w[0], 33) * factor
        v = _absorb(p, at, v[1] * factor, x + w[0])
        w = _absorb(p, at + 32, z + w[1], y + _word(p, at + 16))
        z, x = x, z

    for at in range(0, (n - 1) // 64 * 64, 64):
        block(at, K1, 1)
    factor = K1 + 2 * (z & 0xFF)
    w = (w[0] + (n - 1) % 64) & _WORD, w[1]
    v = (v[0] + w[0]) & _WORD, v[1]
    w = (w[0] + v[0]) & _WORD, w[1]
    block(n - 64, factor, 9)  # the last 64 bytes, which may overlap the block before
    return _mix(_mix(v[0], w[0], factor) + _fold(y) * K0 + z, _mix(v[1], w[1], factor) + x, factor)
