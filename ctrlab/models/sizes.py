"""The numbers of a model that its schema does not give: widths, regularization, and how it is trained."""

from __future__ import annotations

import dataclasses
import math
import numbers
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ctrlab.errors import CtrlabError, choose
from ctrlab.ops.references.sparse_update import KINDS
from ctrlab.schema import Schema

MOST = 1 << 16
"""The largest dimension, and the largest number of units of a layer."""


@dataclass(frozen=True)
class Hyper:
    """How a model is trained: the numbers of its paper or of the contest, or those that suit smaller data.

    Attributes:
        optimizer: one of `ctrlab.ops.references.sparse_update.KINDS`.
        learning_rate: above 0. clip_norm: per variable, on the merged gradient, above 0; None for no clipping.
        initial_accumulator: first value of the accumulator of Adagrad and FTRL, above 0; other optimizers have none. The square
            of a single id's gradient is about 1e-6 at a batch of 256. An accumulator far above that makes the steps of rare ids
            as small as SGD would.
    Raises:
        UnknownName: no such optimizer. CtrlabError: a number out of its range.
    """

    optimizer: str
    learning_rate: float
    clip_norm: float | None = None
    batch_size: int = 512
    initial_accumulator: float = 0.1

    def __post_init__(self):
        for name in ("learning_rate", "clip_norm", "initial_accumulator"):
            value = getattr(self, name)
            if not (name == "clip_norm" and value is None) and (not _is_number(value) or not 0 < value < math.inf):
                raise CtrlabError(f"`{name}` must be a finite number above 0; received {value!r}.")
            object.__setattr__(self, name, None if value is None else float(value))
        choose("optimizer", self.optimizer, KINDS)
        object.__setattr__(self, "batch_size", _whole("The batch size", self.batch_size, 1 << 30))


@dataclass(frozen=True)
class Sizes:
    """A model's numbers. Each model has them under the names of its presets, `CTRModel.presets`.

    Attributes:
        dim: D, the numbers per embedding.
        units: {part: units of its layers}, without a part's top layer if its width is that of a logit or of an embedding. The
            first part is the main one.
        hyper: how the model is trained.
        dropout: the fraction of a layer's outputs that is set to 0 in a training step; see `regularization.Dropout`.
        l2: the factor of the squared weights in the loss; see `ctrlab.models.regularization`.
        batch_norm: whether a BatchNormalization follows each hidden layer of the parts that the model names.
        momentum: momentum of its moving statistics. Their first values no longer matter after about 5 / (1 - momentum) steps.
        linear: whether a linear part over the schema's wide columns and the numbers is added to the logits. WDL always has one;
            without it, DeepFM's top reads its linear part, and DLRM and MMoE have none. DIN and DIEN never have one.
        wide_buckets: the largest number of linear weights of a column; None: as many as its table has rows.
        deviation: the standard deviation of the initial values of embeddings; embedding variables have their own.
        scaled: whether numbers are standardized; see `scaling.Standardized`.
        joint_norm: whether WDL's deep input is divided by its L2 norm over the whole batch, as in the contest. Then the answer
            for a row depends on the others, and the values are tiny.
    Raises:
        CtrlabError: a number out of its range.

    >>> Sizes(8, {"deep": (64, 32)}, Hyper("adagrad", 0.1)).with_numbers(dim=4, units=[16]).units
    {'deep': (16,)}
    """

    dim: int
    units: Mapping[str, Sequence[int]]
    hyper: Hyper
    dropout: float = 0.0
    l2: float = 0.0
    batch_norm: bool = False
    momentum: float = 0.99
    linear: bool = False
    wide_buckets: int | None = None
    deviation: float = 0.05
    scaled: bool = False
    joint_norm: bool = False

    @classmethod
    def few_rows(cls, **units: tuple[int, ...]) -> Sizes:
        """The numbers for few rows: a linear part beside small layers, which start near 0."""
        hyper = Hyper("adagrad", 0.05, batch_size=128, initial_accumulator=1e-3)
        regularized = {"dropout": 0.1, "l2": 1e-4, "momentum": 0.9, "deviation": 0.02}
        return cls(4, units, hyper, linear=True, scaled=True, **regularized)

    def __post_init__(self):
        dim = _whole("The dimension of embeddings", self.dim)
        units = {part: _layers(part, layers) for part, layers in self.units.items()}
        found = {"dim": dim, "units": units}
        found |= {name: _flag(name, getattr(self, name)) for name in ("batch_norm", "linear", "scaled", "joint_norm")}
        if self.wide_buckets is not None:
            found["wide_buckets"] = _whole("`wide_buckets`", self.wide_buckets)
        for name, most in (("dropout", 1.0), ("l2", math.inf), ("momentum", 1.0), ("deviation", math.inf)):
            found[name] = _number(name, getattr(self, name), most)
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        """All numbers in a line."""
        layers = "; ".join(f"{part} {'-'.join(map(str, units))}" for part, units in sorted(self.units.items()))
        norm = f"batch_norm with momentum {self.momentum:g}" if self.batch_norm else "no batch_norm"
        norm += ", a linear part" if self.linear else ""
        hyper, clip = self.hyper, f", clip_norm {self.hyper.clip_norm:g}" if self.hyper.clip_norm else ""
        rate = f"{hyper.optimizer} at {hyper.learning_rate:g}{clip}, batch_size {hyper.batch_size}"
        return f"dim {self.dim}; {layers}; dropout {self.dropout:g}, l2 {self.l2:g}, {norm}; {rate}"

    def wide(self, schema: Schema) -> dict[str, int]:
        """The number of linear weights of each column: {column: number}."""
        most = self.wide_buckets or math.inf
        return {name: int(min(schema[name].buckets, most)) for name in schema.linear}

    @property
    def tower(self) -> dict:
        """The arguments of `blocks.Tower` that follow from these numbers."""
        return {name: getattr(self, name) for name in ("dropout", "l2", "batch_norm", "momentum")}

    @property
    def embeddings(self) -> dict:
        """The arguments of `tables.Embeddings` that follow from these numbers."""
        return {"l2": self.l2, "deviation": self.deviation}

    def with_numbers(self, *, units: Mapping[str, Sequence[int]] | Sequence[int] | None = None, **others) -> Sizes:
        """The same with some numbers replaced; None leaves a number as it is.

        Args:
            units: the units of some parts, or of the first part only.
            others: other attributes, by name.
        Raises:
            UnknownName: no such part. CtrlabError: a number out of its range.
        """
        given = {name: value for name, value in others.items() if value is not None}
        if units is not None:
            named = units if isinstance(units, Mapping) else {next(iter(self.units)): units}
            given["units"] = dict(self.units) | {choose("part", part, self.units): layers for part, layers in named.items()}
        return dataclasses.replace(self, **given)

    def to_config(self) -> dict:
        """A JSON-compatible description, from which `from_config` makes the numbers again."""
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config: Mapping) -> Sizes:
        return cls(**(dict(config) | {"hyper": Hyper(**config["hyper"])}))


def _is_number(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _whole(what: str, number, most: int = MOST) -> int:
    try:
        found = None if isinstance(number, bool) else operator.index(number)
    except TypeError:
        found = None
    if found is None or not 1 <= found <= most:
        raise CtrlabError(f"{what} must be a whole number from 1 to {most:,}; received {number!r}.")
    return found


def _layers(part: str, units) -> tuple[int, ...]:
    try:
        layers = None if isinstance(units, str | bytes | Mapping) else tuple(units)
    except TypeError:
        layers = None
    if not layers:
        raise CtrlabError(f"The units of part {part!r} must be those of one layer or more, such as (64, 32); received {units!r}.")
    return tuple(_whole(f"The units of a layer of {part!r}", n) for n in layers)


def _number(name: str, number, most: float) -> float:
    """A number in [0, most)."""
    if not _is_number(number) or not 0 <= number < most:
        rule = "must be a finite number of at least 0" if most == math.inf else f"must be in [0, {most:g})"
        raise CtrlabError(f"`{name}` {rule}; received {number!r}.")
    return float(number)


def _flag(name: str, value) -> bool:
    if not isinstance(value, bool):
        raise CtrlabError(f"`{name}` must be True or False; received {value!r}.")
    return value
