"""The schema: the list of a data set's columns, in file order, and what follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field

from ctrlab.errors import BadSchema, choose
from ctrlab.schema import rules
from ctrlab.schema.columns import (
    KINDS,
    RAW_IDS,
    Categorical,
    Column,
    IdColumn,
    Label,
    MultiHot,
    Numeric,
    NumericList,
    Role,
    Sequence,
)


@dataclass(frozen=True)
class Schema:
    """The columns of a data set in file order.

    Args:
        name: the data set's name, e.g. "criteo".
        columns: every column of a row, labels included, in the order of the raw and the CSV file.
        wide: names of the id columns whose multi-hot feeds linear terms (DeepFM's first order, WDL's wide part); none named: all.
        delimiter: character between the fields of a CSV line.
        user: the column with the user of each example, for GAUC; "" if there is none.
        user_columns, context_columns: names of the columns that are equal for all candidates of a request, because they describe
            the user, or where and when the candidates are shown; see `role`.
        notes: remarks of `infer`, such as the columns that it left out; shown as comments when the schema is printed.
    Raises:
        BadSchema: two columns with one name; `wide`, `user`, `of` or `negative_of` names no column of its kind; a role is given
            to a column that is not a feature, or two roles to one column; columns of one table differ in size or encoding; a
            separator that can't be told from the delimiter.

    >>> print(Schema("own", (Label("clicked"), Categorical("city", buckets=1_000)), wide=("city",)))
    from ctrlab.schema import Categorical, Label, Schema
    <BLANKLINE>
    schema = Schema(
        "own",
        (
            Label("clicked"),
            Categorical("city", buckets=1000),
        ),
        wide=("city",),
    )
    """

    name: str
    columns: tuple[Column, ...]
    wide: tuple[str, ...] = ()
    delimiter: str = ","
    user: str = ""
    user_columns: tuple[str, ...] = ()
    context_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)
    _by_name: dict[str, Column] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self):
        for name in ("columns", "wide", "user_columns", "context_columns"):
            rules.several(self, name, getattr(self, name))
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for column in self.columns:
            if not isinstance(column, Column):
                raise BadSchema(f"A schema is made of columns such as Numeric('age'); schema {self.name!r} has {column!r}.")
            if column.name in self._by_name:
                raise BadSchema(f"Column names must differ; schema {self.name!r} has two columns {column.name!r}.")
            self._by_name[column.name] = column
        for name in self.wide:
            rules.refers(self, "`wide`", name, self.id_columns, "id columns")
        if self.user:
            rules.refers(self, "`user`", self.user, self.categoricals, "a categorical column")
        for column in self.sequences:
            if column.of:
                rules.refers(self, f"`of` of {column.name!r}", column.of, self.categoricals, "a Categorical column")
            if column.negative_of:
                rules.refers(self, f"`negative_of` of {column.name!r}", column.negative_of, self.sequences, "a Sequence column")
        rules.roles(self)
        rules.tables(self)
        rules.delimiter(self)

    def __str__(self) -> str:
        """Python code that makes the schema, with its imports: only what differs from the defaults."""
        from ctrlab.schema.code import code

        return code(self)

    @classmethod
    def infer(
        cls, source, label: str | Iterable[str] = "clicked", *, name: str = "own", user: str = "", soft: bool = False
    ) -> Schema:
        """A schema for a table of your own, by the rules of `ctrlab.schema.guess`: a start to print, look at and edit.

        Args:
            source: as in `ctrlab.data.table`: a pandas DataFrame, an Arrow table, a path of a Parquet file or of a CSV with
                header. All rows are looked at.
            label: the column to predict, 0 or 1 in each row; several for a model of several tasks.
            name: the schema's name.
            user: the column with the user of each example, for GAUC.
            soft: labels may be any number in [0, 1].
        Raises:
            BadData: no rows, two columns with one name, a label that is constant, missing in a row, or neither 0 nor 1; no usable
                column. UnknownName: no such column.

        >>> import pyarrow as pa
        >>> table = pa.table({"age": [20.0, 30.5, 61.0], "city": ["Rome", "Oslo", "Rome"], "clicked": [0, 1, 0]})
        >>> schema = Schema.infer(table)
        >>> schema["city"]
        Categorical(name='city', buckets=1000, encoding='hash', vocabulary=(), table='city', encoded=False, default='')
        """
        from ctrlab.schema.guess import guess

        columns, notes = guess(
            source, list(label) if isinstance(label, Iterable) and not isinstance(label, str) else [label], user, soft
        )
        made = tuple(KINDS[entry.pop("kind")](**entry) for entry in columns)
        wide = tuple(c.name for c in made if isinstance(c, Categorical | MultiHot))
        return cls(name, made, wide, user=user, notes=tuple(notes))

    def __getitem__(self, name: str) -> Column:
        """The column of this name.

        Raises:
            UnknownName: there is none.
        """
        if name not in self._by_name:
            choose(f"column of schema {self.name!r}", name, self._by_name)
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def of_kind(self, kind: type[Column]) -> tuple:
        """The columns of this type, in the schema's order."""
        return tuple(c for c in self.columns if isinstance(c, kind))

    @property
    def labels(self) -> tuple[Label, ...]:
        return self.of_kind(Label)

    @property
    def features(self) -> tuple[Column, ...]:
        return tuple(c for c in self.columns if not isinstance(c, Label))

    @property
    def numerics(self) -> tuple[Numeric, ...]:
        return self.of_kind(Numeric)

    @property
    def numeric_lists(self) -> tuple[NumericList, ...]:
        return self.of_kind(NumericList)

    @property
    def id_columns(self) -> tuple[IdColumn, ...]:
        return self.of_kind(IdColumn)

    @property
    def categoricals(self) -> tuple[Categorical, ...]:
        return self.of_kind(Categorical)

    @property
    def multi_hots(self) -> tuple[MultiHot, ...]:
        return self.of_kind(MultiHot)

    @property
    def sequences(self) -> tuple[Sequence, ...]:
        """Every Sequence, negatives included."""
        return self.of_kind(Sequence)

    @property
    def histories(self) -> tuple[Sequence, ...]:
        """Sequences of past events (without negatives); each belongs to the column that it names in `of`."""
        return tuple(s for s in self.sequences if not s.negative_of)

    def role(self, name: str) -> Role:
        """What a feature describes, which says how often a request that scores many candidates must hold it.

        "user" and "context" columns have one value per request, "candidate" columns one per candidate. The schema's user and
        histories (`Sequence.of`) describe the user; any other column that is not named describes the candidate.

        Raises:
            UnknownName: there is no such column.
        """
        column = self[name]
        if name in self.context_columns:
            return "context"
        return "user" if name in self.user_columns or name == self.user or getattr(column, "of", "") else "candidate"

    @property
    def linear(self) -> tuple[str, ...]:
        """The columns that `wide` names; if it names none, every id column without negatives."""
        return self.wide or tuple(c.name for c in self.id_columns if not getattr(c, "negative_of", ""))

    @property
    def tables(self) -> dict[str, int]:
        """Embedding tables and their rows: {"item": 100_000, ...}, in order of first use."""
        return {c.table: c.buckets for c in self.id_columns}

    def with_buckets(self, most: int) -> Schema:
        """The same schema with no hashed table above `most` rows (DeepFM's 10,000; small profiles; tests)."""

        def shrink(column: Column) -> Column:
            if isinstance(column, IdColumn) and column.encoding == "hash":
                return dataclasses.replace(column, buckets=min(column.buckets, most))
            return column

        return dataclasses.replace(self, columns=tuple(map(shrink, self.columns)))

    def with_raw_ids(self, tables: Iterable[str]) -> Schema:
        """The same schema with RAW_IDS buckets for the hashed columns of `tables`; encoded columns keep their ids."""
        tables = set(tables)

        def widen(column: Column) -> Column:
            if isinstance(column, IdColumn) and column.table in tables and column.encoding == "hash" and not column.encoded:
                return dataclasses.replace(column, buckets=RAW_IDS)
            return column

        return dataclasses.replace(self, columns=tuple(map(widen, self.columns)))

    def encoded(self) -> Schema:
        """The schema of files that hold ids in place of words; see `ctrlab.data.encode`. No id is missing in such files."""

        def with_ids(column: Column) -> Column:
            if not isinstance(column, IdColumn):
                return column
            return dataclasses.replace(column, encoded=True, **({"default": ""} if isinstance(column, Categorical) else {}))

        return dataclasses.replace(self, columns=tuple(map(with_ids, self.columns)))

    def to_config(self) -> dict:
        """A JSON-compatible description, from which `from_config` makes the schema again."""
        columns = [{"kind": c.kind} | dataclasses.asdict(c) for c in self.columns]
        names = {name: list(getattr(self, name)) for name in ("wide", "user_columns", "context_columns")}
        return {"name": self.name, "columns": columns, "delimiter": self.delimiter, "user": self.user} | names

    @classmethod
    def from_config(cls, config: dict) -> Schema:
        def column(entry: dict) -> Column:
            entry = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
            return KINDS[entry.pop("kind")](**entry)

        columns = tuple(column(dict(entry)) for entry in config["columns"])
        roles = {name: tuple(config.get(name, ())) for name in ("user_columns", "context_columns")}  # earlier versions had none
        return cls(config["name"], columns, tuple(config["wide"]), config["delimiter"], config.get("user", ""), **roles)
