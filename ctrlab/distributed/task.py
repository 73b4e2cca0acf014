"""The task for which a plan is made. Its fields are the options of `ctrlab workers plan`, so this module does not import
NumPy.
"""

from __future__ import annotations

import dataclasses
import numbers
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ctrlab.errors import CtrlabError, choose
from ctrlab.plain import Plain

Counting = Literal["exact", "bloom"]
DAY = 86_400
"""Seconds of a day."""
MOST_DIM = 1 << 18
"""The most numbers of a row, which has at most `MOST_ROW_BYTES` of `ctrlab.embedding.store.segments`."""


@dataclass(frozen=True)
class Meaning:
    """The description of a field of `Task`.

    Attributes:
        says: what the field is, for `--help`.
        least, most: its limits. Values beyond them are a mistake of the unit, or can't be trained.
        unit: unit of the limits, if it is not obvious.
        whole: whether the field is a whole number.
        option: the command's name for the field, if the option has another unit.
        parts: number of the option's units in one of the field's.
    """

    says: str
    least: float = 0
    most: float = 1
    unit: str = ""
    whole: bool = False
    option: str = ""
    parts: float = 1

    def as_option(self, value: Any) -> Any:
        """A field's value in the option's unit."""
        if not self.option:
            return value
        return value * self.parts if self.parts >= 1 else value / round(1 / self.parts)

    def of_option(self, given: Any) -> Any:
        """The field's value for the value of an option."""
        if not self.option:
            return given
        return given / self.parts if self.parts >= 1 else given * round(1 / self.parts)


def _field(default: Any, says: str, *limits: Any, **more: Any) -> Any:
    return dataclasses.field(default=default, metadata={"meaning": Meaning(says, *limits, **more)})


def _count(default: int, says: str, least: int, most: float) -> Any:
    return _field(default, says, least, most, whole=True)


@dataclass(frozen=True)
class Task(Plain):
    """A training and its workers, in bytes, seconds, and one currency.

    `fixed`, `per_example`, `reads`, `writes` and `price` are placeholders, not measurements: replace them by those of your model,
    your workers and their disks.

    Raises:
        CtrlabError: a number is not within its limits.
    """

    ids: float = _field(10e9, "Distinct ids that ever come, of all tables together.", 1, 2**63)
    tables: int = _count(
        1, "Tables that have the ids, equally many each; one holds below 2^31 rows in a worker's memory.", 1, 1e6
    )
    dim: int = _count(16, "Numbers of a row.", 1, MOST_DIM)
    slots: int = _count(1, "Optimizer slots per number, float32: Adagrad has 1, Adam 2.", 0, 16)
    admission: float = _field(1.0, "The share of the ids that get a row. Of the others counts are kept.")
    counting: Counting = dataclasses.field(
        default="exact",
        metadata={"meaning": Meaning("How ids are counted: by an index entry per id, or by a few counters of a Bloom filter.")},
    )
    value_bytes: int = _count(
        4, "Bytes of a number of a row, in memory and on disk. These tables train in float32, which has 4.", 1, 8
    )
    exchange_bytes: int = _count(
        4, "Bytes of a number of a row or its gradient on the network: 4, or 2 with the rung bf16_exchange.", 1, 8
    )
    dense: float = _field(4e6, "Weights that every worker has whole.", 0, 1e12)
    lookups: float = _field(100.0, "Ids per example.", 1e-3, 1e6)
    exponent: float = _field(1.05, "The exponent of Zipf's law, by which ids come.", 0, 10)
    batch: int = _count(65_536, "Examples of a step, of all workers.", 1, 1e9)
    day_examples: float = _field(1e9, "Examples that come each day.", 1e-3, 1e15)
    fixed: float = _field(
        0.01, "A worker's compute per step, whatever its part, milliseconds.", 0, DAY, "seconds", option="step_ms", parts=1e3
    )
    per_example: float = _field(
        5e-6, "A worker's compute per example, microseconds.", 0, DAY, "seconds", option="example_us", parts=1e6
    )
    memory: float = _field(256e9, "A worker's memory, gigabytes.", 1e3, 1e14, "bytes", option="memory_gb", parts=1e-9)
    headroom: float = _field(
        0.1,
        "The share of the memory that is not for tables: the process itself with its batches and buffers, the old arrays of a "
        "shard of an index while it grows, and filters of a store.",
        0,
        0.99,
    )
    in_memory: float = _field(
        1.0, "The share of the rows that stay in memory, the most frequent ones; the others lie on each worker's disk."
    )
    reads: float = _field(500e3, "Rows per second that a worker reads from its disk.", 1e-3, 1e10, "rows per second")
    writes: float = _field(
        1e9, "Megabytes per second that a worker writes to its disk.", 1, 1e13, "bytes per second", option="writes_mb", parts=1e-6
    )
    megabits: float = _field(25_000.0, "Megabits per second of a worker's link.", 1e-3, 1e8)
    latency: float = _field(
        50e-6, "What a message takes on a worker's link, microseconds.", 0, DAY, "seconds", option="latency_us", parts=1e6
    )
    price: float = _field(4.0, "The price of a worker per hour.", 0, 1e6)

    def __post_init__(self):
        choose("way of counting", self.counting, get_args(Counting))
        for name, of in meanings().items():
            value = getattr(self, name)
            real = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if name != "counting" and (not real or not of.least <= value <= of.most or (of.whole and value != int(value))):
                limits = " ".join(
                    [*of.whole * ["a whole number,"], f"{of.least:,.12g} to {of.most:,.12g}", *filter(None, [of.unit])]
                )
                raise CtrlabError(f"A plan's {name.replace('_', ' ')} must be {limits}; received {value!r}.")

    @property
    def rows(self) -> float:
        """Number of ids with a row."""
        return self.ids * self.admission


def meanings() -> dict[str, Meaning]:
    """{field of `Task`: its `Meaning`}, in order."""
    return {field.name: field.metadata["meaning"] for field in dataclasses.fields(Task)}
