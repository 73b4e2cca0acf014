"""Converts dataclasses to plain values and back. The fields of a class are its format; msgspec reads it.

msgspec is imported inside the methods, because some of these classes are also used in environments without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from ctrlab.errors import BadData


class Plain:
    """A dataclass that can be written as JSON: its fields are numbers, text, lists, tuples, dicts and dataclasses, or None."""

    def to_json(self) -> dict:
        """JSON-compatible values, by field."""
        import msgspec

        return msgspec.to_builtins(self)

    @classmethod
    def from_json(cls, plain: object) -> Self:
        """Makes the object again from `to_json`'s result, also after it was written as JSON.

        Raises:
            BadData: a field is missing, has another type, or is not a field of this class.
        """
        import msgspec

        try:
            found = msgspec.convert(plain, cls)
        except msgspec.ValidationError as error:
            raise BadData(f"{cls.__name__} can't be read: {error}.") from None
        for name in _unknown(plain, found.to_json()):
            raise BadData(f"{cls.__name__} can't be read: it has no field {name}.")
        return found


def _unknown(plain: object, known: object, path: str = "$") -> Iterator[str]:
    """The names in `plain` that are not in `known`."""
    if isinstance(plain, dict):
        for name, value in plain.items():
            yield from _unknown(value, known[name], f"{path}.{name}") if name in known else (f"{path}.{name}",)
    elif isinstance(plain, list):
        for i, (value, other) in enumerate(zip(plain, known)):
            yield from _unknown(value, other, f"{path}[{i}]")
