"""Dataclasses to plain values and back: what a class declares is its format, and msgspec reads it.

msgspec is imported inside the methods, since some of these classes also go to machines and environments that have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from ctrlab.errors import BadData


class Plain:
    """A dataclass that can be written as JSON: its fields are numbers, text, lists, tuples, dicts and dataclasses, or None."""

    def to_json(self) -> dict:
        """JSON-able values, by field."""
        import msgspec

        return msgspec.to_builtins(self)

    @classmethod
    def from_json(cls, plain: object) -> Self:
        """What `to_json` gave, after a journey through JSON.

        Raises:
            BadData: a field is missing, is of another type, or is none that `to_json` gives.
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
    """The names in `plain` that `known` does not have."""
    if isinstance(plain, dict):
        for name, value in plain.items():
            yield from _unknown(value, known[name], f"{path}.{name}") if name in known else (f"{path}.{name}",)
    elif isinstance(plain, list):
        for i, (value, other) in enumerate(zip(plain, known)):
            yield from _unknown(value, other, f"{path}[{i}]")
