"""The options of an embedding variable: initial values, admission, eviction, storage.

Nothing here imports TensorFlow. The docstrings give DeepRec's names, and its defaults if they differ.
"""

from __future__ import annotations

import math
import numbers
import operator
import os
from dataclasses import asdict, dataclass, field, fields
from types import NoneType

from ctrlab.embedding.store import COMPACTIONS
from ctrlab.errors import CtrlabError, choose

INITIALIZERS = ("constant", "uniform", "normal", "truncated_normal")  # in the order of InitialKind in native/table/options.h
CACHES = ("lru", "lfu")


def require_whole(what: str, number: int, least: int, bits: int) -> None:
    """Raises CtrlabError if it is not a whole number in [least, 2^bits)."""
    try:
        fits = least <= operator.index(number) < 1 << bits
    except TypeError:
        fits = False
    if not fits:
        raise CtrlabError(f"{what} must be a whole number in [{least}, 2^{bits}); received {number!r}.")


def _require_numbers(what: str, *given: float) -> None:
    if odd := [number for number in given if not isinstance(number, numbers.Real)]:
        raise CtrlabError(f"{what} must be numeric; received {odd[0]!r}.")


@dataclass(frozen=True)
class Initializer:
    """The initial value of a key: a function of seed, key and position in the row, and of nothing else.

    Args:
        kind: "constant" (a), "uniform" in [a, b), "normal" (mean a, standard deviation b) or "truncated_normal" (the same,
            at most two deviations from the mean).
        seed: in [0, 2^63).
    Raises:
        CtrlabError: a number that is invalid for its kind. UnknownName: no such kind. Initializers of a whole matrix (orthogonal,
            identity) are not supported, because rows are made one by one.

    >>> Initializer.glorot_uniform(fan_in=1, fan_out=16).b
    0.5940885257860046
    """

    kind: str = "truncated_normal"
    a: float = 0.0
    b: float = 0.05
    seed: int = 2021

    def __post_init__(self):
        choose("initializer", self.kind, INITIALIZERS)
        _require_numbers("An initializer's a and b", self.a, self.b)
        if not (math.isfinite(self.a) and math.isfinite(self.b)):
            raise CtrlabError(f"An initializer's numbers must be finite; received a={self.a}, b={self.b}.")
        if self.kind == "uniform" and not self.a <= self.b:
            raise CtrlabError(f"A uniform initializer draws in [a, b), so a must not exceed b; received a={self.a}, b={self.b}.")
        if self.kind in ("normal", "truncated_normal") and self.b < 0:
            raise CtrlabError(f"A standard deviation must not be negative; received b={self.b}.")
        require_whole("A seed", self.seed, 0, 63)

    @classmethod
    def glorot_uniform(cls, fan_in: int, fan_out: int, seed: int = 2021) -> Initializer:
        """Glorot & Bengio, 2010: uniform within sqrt(6 / (fan_in + fan_out)). A table has no fixed shape, so state the fans."""
        limit = math.sqrt(6 / _fans(fan_in, fan_out))
        return cls("uniform", -limit, limit, seed)

    @classmethod
    def glorot_normal(cls, fan_in: int, fan_out: int, seed: int = 2021) -> Initializer:
        """Truncated normal whose standard deviation, after truncation, is sqrt(2 / (fan_in + fan_out))."""
        return cls("truncated_normal", 0.0, math.sqrt(2 / _fans(fan_in, fan_out)) / CUT, seed)

    @classmethod
    def he_uniform(cls, fan_in: int, seed: int = 2021) -> Initializer:
        """He et al., 2015: uniform within sqrt(6 / fan_in)."""
        limit = math.sqrt(6 / _fans(fan_in))
        return cls("uniform", -limit, limit, seed)

    @classmethod
    def he_normal(cls, fan_in: int, seed: int = 2021) -> Initializer:
        """Truncated normal whose standard deviation, after truncation, is sqrt(2 / fan_in)."""
        return cls("truncated_normal", 0.0, math.sqrt(2 / _fans(fan_in)) / CUT, seed)


CUT = 0.87962566103423978
"""Standard deviation of a standard normal truncated at two deviations."""


def _fans(*each: int) -> int:
    _require_numbers("Fans", *each)
    if (fans := sum(each)) < 1:
        raise CtrlabError(f"Fans must be at least 1 together; received {fans}.")
    return fans


@dataclass(frozen=True)
class CounterFilter:
    """A key gets a row at its `threshold`-th occurrence in training. Every key is counted exactly.

    DeepRec: CounterFilter(filter_freq).
    """

    threshold: int

    def __post_init__(self):
        require_whole("An admission threshold", self.threshold, 1, 31)


@dataclass(frozen=True)
class BloomFilter(CounterFilter):
    """Like `CounterFilter`, with a counting Bloom filter: a few bytes per expected key, however many keys come. No key is
    admitted too late.

    Counts are never too low, except that they saturate at 255, 65,535 or 2^32 - 1: the least of these that holds the threshold.
    A new row's frequency is its filter count or the number of its key's occurrences in the batch, whichever is greater.

    DeepRec: CBFFilter(filter_freq, max_element_size, false_positive_probability); DeepRec can't combine it with tiers.

    Args:
        expected_keys: number of distinct keys that it is sized for.
        false_positive_rate: after that many keys, the fraction of keys that never came whose count is not 0.
    """

    expected_keys: int = 0
    false_positive_rate: float = 0.01

    def __post_init__(self):
        super().__post_init__()
        require_whole("A Bloom filter's expected_keys", self.expected_keys, 1, 40)
        _require_numbers("A false-positive rate", self.false_positive_rate)
        if not 0 < self.false_positive_rate < 1:
            raise CtrlabError(f"A false-positive rate must be in (0, 1); received {self.false_positive_rate}.")


@dataclass(frozen=True)
class GlobalStepEviction:
    """Evicts rows, and counts of keys without a row, that no step has touched for more than `steps_to_live` steps.

    Steps themselves remove nothing. Rows go when a checkpoint of `ctrlab.training.Checkpoints` is saved, when `evict()` is
    called, and in training as often as `ctrlab.training.EvictionCallback` (`fit`) or `Evictions` (`train`) say. Between two of
    these, a row that is too old is still read, and a step that touches it keeps it.
    """

    steps_to_live: int

    def __post_init__(self):
        require_whole("steps_to_live", self.steps_to_live, 1, 31)


@dataclass(frozen=True)
class L2Eviction:
    """Evicts rows whose value (without slots) has an L2 norm below `threshold`, at the same moments as `GlobalStepEviction`."""

    threshold: float

    def __post_init__(self):
        _require_numbers("An L2 threshold", self.threshold)
        if not (self.threshold > 0 and math.isfinite(self.threshold)):
            raise CtrlabError(f"An L2 threshold must be positive and finite; received {self.threshold}.")


@dataclass(frozen=True)
class Storage:
    """A tier below the memory: rows beyond `memory_rows` move to an append-only hash store on disk.

    Each variable has a thread that moves rows down when memory is nearly full, an eighth of the memory at a time, so that
    training steps find room. If the disk refuses, no row is lost: training goes on while there is room, and a step that
    finds no room raises the disk's error.

    Args:
        path: a scratch folder. Each variable makes a new store in a numbered folder below <path>/<its name>, e.g. rows/item_id/1,
            when its optimizer is built, and removes it when the variable is closed or deleted. One variable at a time may use
            the folder. Later runs do not read it: what a killed process left is deleted unread. A folder that contains any
            other file is refused.
        memory_rows: maximum number of rows in memory, per variable.
        cache: which rows move down first: "lru", the least recently used, or "lfu", the least frequently used.
        compaction: "async", in the store's own thread, or "sync", in the thread that writes.
    Raises:
        CtrlabError: no path; a size that is not a whole number of at least 1. UnknownName: no such cache or compaction.
    """

    path: str
    memory_rows: int
    cache: str = "lfu"
    compaction: str = "async"

    def __post_init__(self):
        path = os.fspath(self.path) if isinstance(self.path, str | os.PathLike) else None
        if not isinstance(path, str) or not path.strip():
            raise CtrlabError(f'A storage has the path of a folder, such as "rows"; received {self.path!r}.')
        object.__setattr__(self, "path", path)
        choose("cache strategy", self.cache, CACHES)
        choose("compaction", self.compaction, COMPACTIONS)
        require_whole("memory_rows", self.memory_rows, 1, 31)


@dataclass(frozen=True)
class Options:
    """All settings of one embedding variable except its name and dimension. The default keeps every key, in memory.

    Raises:
        CtrlabError: an option of another type, or an initializer of a whole matrix, which is meaningless for single rows.
    """

    initializer: Initializer = field(default_factory=Initializer)
    admission: CounterFilter | None = None
    eviction: GlobalStepEviction | L2Eviction | None = None
    storage: Storage | None = None

    def __post_init__(self):
        kinds = {
            "initializer": (Initializer,),
            "admission": (CounterFilter, NoneType),
            "eviction": (GlobalStepEviction, L2Eviction, NoneType),
            "storage": (Storage, NoneType),
        }
        for name, allowed in kinds.items():
            if not isinstance(given := getattr(self, name), allowed):
                words = " or ".join("None" if kind is NoneType else kind.__name__ for kind in allowed)
                raise CtrlabError(f"The option `{name}` of an embedding variable must be {words}; received {given!r}.")

    def to_config(self) -> dict:
        """The options as plain values that JSON can hold; `from_config` reads them."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value and {"class": type(value).__name__, **asdict(value)} for name, value in found.items()}

    @classmethod
    def from_config(cls, config: dict) -> Options:
        """Makes the options that `to_config` described.

        Raises:
            UnknownName: a class that is not in this module.
        """
        known = {c.__name__: c for c in (Initializer, CounterFilter, BloomFilter, GlobalStepEviction, L2Eviction, Storage)}
        made = {}
        for name, value in config.items():
            given = dict(value or {})
            made[name] = value and known[choose("class of options", given.pop("class"), known)](**given)
        return cls(**made)
