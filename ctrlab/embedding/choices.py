"""The choice of embedding per table: what `ctrlab.build(..., embedding=...)` takes.

Nothing here imports TensorFlow. A choice is a frozen dataclass; its docstring names the module that implements it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import ClassVar

from ctrlab.embedding.options import Initializer, Options
from ctrlab.errors import CtrlabError, choose
from ctrlab.schema import RAW_IDS, Schema

LEAST_BUCKETS = 1_000
"""A choice for all tables applies only to tables with at least this many buckets; smaller ones gain nothing."""
OPERATIONS = ("add", "multiply", "concat")
ORDERS = ("succession", "skip")


def _positive(what: str, number: int | None) -> None:
    if number is not None and not (isinstance(number, Integral) and 1 <= number < RAW_IDS):
        raise CtrlabError(f"{what} must be at least 1, and whole; received {number!r}.")


@dataclass(frozen=True)
class Hashed:
    """A row for each id modulo `rows`; ids with the same remainder collide and share a row. See `ctrlab.ops.lookup`.

    Args:
        rows: None for the schema's number of buckets.
    """

    rows: int | None = None

    def __post_init__(self):
        _positive("rows", self.rows)

    @property
    def raw(self) -> bool:
        """Whether it takes raw hash values up to 2^63 - 1 in place of the schema's buckets."""
        return self.rows is not None


@dataclass(frozen=True)
class MultiHash:
    """Splits an id into a few small keys, one per small table, and combines their rows into the id's embedding.

    Args:
        compression: how many times smaller the tables are than one table with the schema's buckets.
        rows: alternatively, the total number of rows of D numbers for all parts.
        operation: how the parts' rows are combined: "add", "multiply" (each D wide) or "concat" (D numbers together).
    Raises:
        UnknownName: no such operation. CtrlabError: an invalid size.
    """

    compression: float = 20.0
    rows: int | None = None
    operation: str = "add"
    raw: ClassVar[bool] = True

    def __post_init__(self):
        choose("operation", self.operation, OPERATIONS)
        _positive("rows", self.rows)
        if not (isinstance(self.compression, Real) and self.compression > 0 and math.isfinite(self.compression)):
            raise CtrlabError(f"A compression must be positive and finite; received {self.compression!r}.")

    def budget(self, buckets: int) -> int:
        """The total number of rows of D numbers for all parts."""
        return self.rows or math.ceil(buckets / self.compression)


@dataclass(frozen=True)
class QuotientRemainder(MultiHash):
    """Two keys, id mod m and (id div m) mod q: among m q consecutive ids, no two share both. See `ctrlab.embedding.multihash`.

    Source: Shi et al., "Compositional Embeddings Using Complementary Partitions for Memory-Efficient Recommendation Systems",
    KDD 2020. DeepRec: get_multihash_variable(complementary_strategy="Q-R").
    """


@dataclass(frozen=True)
class BinaryCode(MultiHash):
    """Splits the id's lowest bits into `blocks` of equal length; each is the key of one table. See `ctrlab.embedding.multihash`.

    Source: Yan et al., "Binary Code based Hash Embedding for Web-scale Applications", CIKM 2021.

    Args:
        order: "succession": a block holds consecutive bits; "skip": a block holds every `blocks`-th bit. The order matters
            only if ids are numbers whose neighbours are similar, not hashes.
    """

    blocks: int = 2
    order: str = "succession"

    def __post_init__(self):
        super().__post_init__()
        choose("order of bits", self.order, ORDERS)
        if not (isinstance(self.blocks, Integral) and 1 <= self.blocks <= 8):
            raise CtrlabError(f"A binary code must have 1 to 8 blocks; received {self.blocks!r}.")


@dataclass(frozen=True)
class Variable:
    """One row per id, made when training first updates the id or when a filter admits it. See `ctrlab.embedding.variable`.

    The initial values also depend on the model's seed. Each table with storage uses its own folder below the options' path.

    A model's keys are the ids of its columns: fingerprints of words, in [0, 2^63 - 1), or with the encoding "identity" whole
    numbers in [0, buckets), at most 2^63 - 2. Other keys, such as -1, are refused; `ctrlab.embedding.Embedding` takes any int64.
    """

    options: Options = field(default_factory=lambda: Options(initializer=Initializer("normal", 0.0, 0.05)))
    raw: ClassVar[bool] = True

    def __post_init__(self):
        if not isinstance(self.options, Options):
            raise CtrlabError(f"The options of a Variable must be ctrlab.embedding.Options; received {self.options!r}.")


Choice = Hashed | MultiHash | Variable
NAMES: dict[str, Choice] = {"hashed": Hashed(), "multihash": QuotientRemainder(), "variable": Variable()}
KINDS: dict[str, type] = {kind.__name__: kind for kind in (Hashed, QuotientRemainder, BinaryCode, Variable)}


def resolve(embedding: str | Choice | Mapping[str, str | Choice], schema: Schema) -> dict[str, Choice]:
    """The choice for every table of `schema`: {table: choice}.

    Args:
        embedding: one choice, or its name in NAMES, for all tables of hashed ids with LEAST_BUCKETS or more buckets; or a mapping
            from columns or tables to choices, where unnamed tables are hashed.
    Raises:
        UnknownName: no such choice, or no such column or table. CtrlabError: a table with a vocabulary was named, or a table
            twice with different choices.

    >>> from ctrlab.data import schema
    >>> resolve({"C1": "multihash"}, schema("criteo"))["C1"].compression
    20.0
    """
    encodings = {column.table: column.encoding for column in schema.id_columns}
    if not isinstance(embedding, Mapping):
        choice = _choice(embedding)
        large = {table for table, rows in schema.tables.items() if encodings[table] == "hash" and rows >= LEAST_BUCKETS}
        return {table: choice if table in large else Hashed() for table in encodings}
    chosen: dict[str, Choice] = {}
    table_of = {table: table for table in encodings} | {column.name: column.table for column in schema.id_columns}
    for name, choice in embedding.items():
        table, choice = table_of[choose("id column or table", name, table_of)], _choice(choice)
        if chosen.setdefault(table, choice) != choice:
            raise CtrlabError(f"A table must have one choice of embedding; table {table!r} got {chosen[table]} and {choice}.")
        if encodings[table] == "vocabulary" and choice != Hashed():
            raise CtrlabError(
                f"Ids from a vocabulary have a row each and take no other embedding; received {choice} for {name!r}."
            )
    return {table: chosen.get(table, Hashed()) for table in encodings}


def reasons(chosen: Mapping[str, Choice], schema: Schema) -> dict[str, str]:
    """{table: its kind of embedding, and why if it is a hashed one}.

    Args:
        chosen: a result of `resolve`, or a model's `choices`.

    >>> from ctrlab.data import schema
    >>> found = schema("taobao")
    >>> reasons(resolve("variable", found), found)["price"]
    'Hashed: 50 numbers are its rows; name the table to choose another'
    """
    encodings = {column.table: column.encoding for column in schema.id_columns}

    def reason(table: str) -> str:
        kind, rows, encoding = type(chosen[table]).__name__, schema.tables[table], encodings[table]
        if chosen[table] != Hashed():
            return kind
        if encoding == "vocabulary":
            return f"{kind}: the {rows:,} words of its vocabulary have a row each"
        if encoding == "identity":
            return f"{kind}: {rows:,} numbers are its rows; name the table to choose another"
        if rows < LEAST_BUCKETS:
            return f"{kind}: {rows:,} buckets, fewer than {LEAST_BUCKETS:,}; name the table to choose another"
        return f"{kind}: {rows:,} buckets"

    return {table: reason(table) for table in chosen}


def _choice(given: str | Choice) -> Choice:
    if isinstance(given, str):
        return NAMES[choose("embedding", given, NAMES)]
    if not isinstance(given, tuple(KINDS.values())):
        raise CtrlabError(f"An embedding must be one of {', '.join(NAMES)} or {', '.join(KINDS)}; received {given!r}.")
    return given


def input_schema(schema: Schema, choices: Mapping[str, Choice]) -> Schema:
    """The schema with raw ids for the tables whose choice needs them. A model's encoder and encoded files follow it.

    Raises:
        CtrlabError: a table of raw ids shall be hashed, but no number of rows is given.
    """
    for column in schema.id_columns:
        if column.buckets == RAW_IDS and choices[column.table] == Hashed():
            raise CtrlabError(
                f"A hashed table needs a number of rows; column {column.name!r} has raw ids, 2^63 - 1 of them. "
                "Give Hashed(rows=...) or another embedding."
            )
    return schema.with_raw_ids(table for table, choice in choices.items() if choice.raw)


def to_config(choice: Choice) -> dict:
    """A JSON-compatible description of a choice, which `from_config` reads."""
    found = {f.name: getattr(choice, f.name) for f in dataclasses.fields(choice)}
    return {"kind": type(choice).__name__} | {k: v.to_config() if isinstance(v, Options) else v for k, v in found.items()}


def from_config(config: Mapping) -> Choice:
    """The choice that `to_config` described.

    Raises:
        UnknownName: no such kind. CtrlabError: numbers that the kind refuses.
    """
    found = {k: Options.from_config(v) if k == "options" else v for k, v in config.items() if k != "kind"}
    return KINDS[choose("kind of embedding", config["kind"], KINDS)](**found)
