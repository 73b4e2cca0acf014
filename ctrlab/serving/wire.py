"""Protocol buffers' wire format, as far as servers need it: bytes, text, messages and numbers.

Source: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from ctrlab.errors import BadData


def field(number: int, content: bytes) -> bytes:
    """A field of bytes, text or a message: tag, length, content."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def number(number: int, value: int) -> bytes:
    """A field with a whole number of at least 0."""
    return varint(number << 3) + varint(value)


def varint(n: int) -> bytes:
    """Seven bits per byte, the lowest first; the eighth bit says that more follow."""
    digits = [n >> shift & 127 for shift in range(0, max(n.bit_length(), 1), 7)]
    return bytes([digit | 128 for digit in digits[:-1]] + digits[-1:])


def fields(message: bytes) -> dict[int, bytes | int]:
    """{number of a field: its content} of a message; of repeated fields the last. Fields of fixed width are skipped.

    Raises:
        BadData: the message ends too early, or is invalid.
    """
    at, found = 0, {}
    while at < len(message):
        tag, at = read_varint(message, at)
        kind = tag & 7
        if kind == 0:
            found[tag >> 3], at = read_varint(message, at)
            continue
        if kind == 2:
            size, at = read_varint(message, at)
            found[tag >> 3] = message[at : at + size]
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise BadData(f"A request is a message in protocol buffers' wire format; it has a field of kind {kind}.")
        at += size
        if at > len(message):
            raise BadData("A request is a message in protocol buffers' wire format; this one is cut off.")
    return found


def repeated(message: bytes, number: int) -> list[bytes | int]:
    """All contents of the fields with this number, in their order. Errors are as in `fields`."""
    at, found = 0, []
    while at < len(message):
        begin = at
        tag, at = read_varint(message, at)
        size, at = read_varint(message, at) if tag & 7 in (0, 2) else (0, at)
        at += {1: 8, 2: size, 5: 4}.get(tag & 7, 0)
        if (each := fields(message[begin:at]).get(number)) is not None:
            found.append(each)
    return found


def read_varint(message: bytes, at: int) -> tuple[int, int]:
    n = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        n |= (message[at] & 127) << shift
        at += 1
        if message[at - 1] < 128:
            return n, at
    raise BadData("A request is a message in protocol buffers' wire format; this one is cut off.")
