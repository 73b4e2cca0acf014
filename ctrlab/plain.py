"""Dataclasses to plain values and back: what a class declares is its format, and msgspec reads it.

Imported inside the methods: some of these classes also go to machines and environments that have no msgspec.
"""

from __future__ import annotations

from typing import Self

from ctrlab.errors import BadData


class Plain:
    """A dataclass that can be written as JSON. Fields are numbers, text, tuples, lists, dicts and dataclasses of these, or None."""

    def to_json(self) -> dict:
        """JSON-able values, by field."""
        import msgspec

        return msgspec.to_builtins(self)

    @classmethod
    def from_json(cls, plain: object) -> Self:
        """What `to_json` gave, after a journey through JSON. Names that the class does not have are left out.

        Raises:
            BadData: a field is missing or of another type.
        """
        import msgspec

        try:
            return msgspec.convert(plain, cls)
        except msgspec.ValidationError as error:
            raise BadData(f"This is no {cls.__name__} ({error}).") from None
