"""Column types: a named field of a row, its raw type, its default, and how it is used. `ctrlab.schema` exports them, too.

This module does not import TensorFlow, so a converter can run without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from ctrlab.errors import BadSchema, choose
from ctrlab.schema import rules

Encoding = Literal["hash", "vocabulary", "identity"]
Transform = Literal["none", "log1p", "minmax"]
Role = Literal["user", "context", "candidate"]

RAW_IDS = (1 << 63) - 1
"""The number of buckets for raw ids: the id is then the word's fingerprint itself (except for one value in 2^63)."""


@dataclass(frozen=True)
class Column:
    """A named field of a row. Options that make no sense raise BadSchema, with one sentence, when the column is made."""

    name: str

    def __post_init__(self):
        rules.name(self)


@dataclass(frozen=True)
class Label(Column):
    """The target of a task: 0.0 or 1.0. With `soft=True` any number in [0, 1], such as the share of views that were clicked."""

    kind: ClassVar[str] = "label"
    soft: bool = False

    def __post_init__(self):
        super().__post_init__()
        rules.flag(self, "soft", self.soft)


@dataclass(frozen=True)
class Numeric(Column):
    """A number; an empty field becomes `default`.

    `log1p` is log(1 + max(x - low, 0)); `minmax` is (x - low) / (high - low), which a model clips to [0, 1]. Where it
    answers it clips other numbers to [-1e18, 1e18]; a training step refuses what is too large for it.
    """

    kind: ClassVar[str] = "numeric"
    default: float = 0.0
    transform: Transform = "none"
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        rules.number(self, "default", self.default)
        rules.transform(self, get_args(Transform))


@dataclass(frozen=True)
class NumericList(Column):
    """Numbers joined by `separator` in one field; models take their mean. An empty field becomes `default`."""

    kind: ClassVar[str] = "numeric_list"
    separator: str = ";"
    default: str = "0"
    transform: Transform = "none"
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        rules.separator(self)
        rules.number_list(self, "default", self.default)
        rules.transform(self, get_args(Transform))


@dataclass(frozen=True)
class IdColumn(Column):
    """A column of ids; each id selects a row of an embedding table.

    `encoding` turns a raw value into an id in [0, buckets): `hash` is FarmHash64 modulo buckets; `vocabulary` is the position in
    `vocabulary` (-1, "unknown", for other words: it contributes nothing); `identity` is the integer itself (out of range is an
    error). Columns with the same `table` share one embedding table, and must agree on buckets and encoding. If `encoded` is
    true, files hold the id in place of the raw value.
    """

    buckets: int = 100_000
    encoding: Encoding = "hash"
    vocabulary: tuple[str, ...] = ()
    table: str = ""
    encoded: bool = False

    def __post_init__(self):
        super().__post_init__()
        choose(f"encoding of column {self.name!r}", self.encoding, get_args(Encoding))
        rules.vocabulary(self)
        if self.encoding == "vocabulary":
            object.__setattr__(self, "buckets", len(self.vocabulary))
        rules.flag(self, "encoded", self.encoded)
        if not isinstance(self.table, str):
            raise BadSchema(f"`table` is a name; column {self.name!r} has {self.table!r}.")
        if not self.table:
            object.__setattr__(self, "table", self.name)
        rules.whole(self, "buckets", self.buckets, 1, RAW_IDS)

    @property
    def id_bits(self) -> int:
        """The width in bits of ids that were made offline: as narrow as the table allows."""
        return 32 if self.buckets <= 1 << 31 else 64

    @property
    def bits(self) -> int | None:
        """The width in bits of the integers in files; None for text."""
        if self.encoded:
            return self.id_bits
        return 64 if self.encoding == "identity" else None


@dataclass(frozen=True)
class Categorical(IdColumn):
    """One id per example; an empty field becomes `default`."""

    kind: ClassVar[str] = "categorical"
    default: str = ""

    def __post_init__(self):
        super().__post_init__()
        rules.default_word(self)


@dataclass(frozen=True)
class MultiHot(IdColumn):
    """A bag of ids per example, joined by `separator` in one field; an empty field is an empty bag. Pooled by the mean."""

    kind: ClassVar[str] = "multi_hot"
    separator: str = ";"

    def __post_init__(self):
        super().__post_init__()
        rules.separator(self)


@dataclass(frozen=True)
class Sequence(IdColumn):
    """A history of ids, oldest first; models keep the last `max_length`.

    `of` names the Categorical column of the same table that the history belongs to. A sequence with `negative_of` holds, for each
    position in that other Sequence, an item that was *not* clicked (DIEN's auxiliary loss).
    """

    kind: ClassVar[str] = "sequence"
    of: str = ""
    negative_of: str = ""
    separator: str = ";"
    max_length: int = 50

    def __post_init__(self):
        super().__post_init__()
        rules.separator(self)
        rules.whole(self, "max_length", self.max_length, 1, 2**31 - 1)


def entry_dtype(column: Column) -> Literal["float32", "string", "int32", "int64"]:
    """The dtype of a column's values, or of the entries in its lists, as readers yield them."""
    if not isinstance(column, IdColumn):
        return "float32"
    return {None: "string", 32: "int32", 64: "int64"}[column.bits]


KINDS: dict[str, type[Column]] = {c.kind: c for c in (Label, Numeric, NumericList, Categorical, MultiHot, Sequence)}
