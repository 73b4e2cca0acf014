"""The properties of a model that determine the time of a step of many workers."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from ctrlab.distributed import require
from ctrlab.distributed.simulator.cluster import Numbers
from ctrlab.errors import CtrlabError
from ctrlab.plain import Plain

FLOAT = 4
"""Bytes per number."""
FLOPS = 6
"""Flops per dense weight and example: a multiply-add forward, two backward."""
BINS = 4_000
"""Number of bins of ranks over which Zipf's law is summed."""
SIZES = 2.0 ** np.arange(41)
"""Numbers of examples for which Zipf's law is summed."""


@dataclass(frozen=True)
class Distinct(Plain):
    """The number of distinct ids of a batch: counts at some sizes, and between them straight lines in logarithms.

    Below the smallest size, ids are proportional to examples. Beyond the largest, the last line continues up to the vocabulary;
    if that is unknown, larger batches are refused. A single size means that no id comes twice in any batch.

    Attributes:
        examples, ids: both ascending, at least one of each.
        vocabulary: V, the number of existing ids; None: unknown.
    Raises:
        CtrlabError: the numbers do not ascend, one is not above 0, or there are more ids than the vocabulary has.
    """

    examples: tuple[float, ...]
    ids: tuple[float, ...]
    vocabulary: float | None = None

    def __post_init__(self):
        sizes = require.numbers("Examples whose distinct ids were counted", self.examples, 0, above=True)
        counts = require.numbers("Counts of distinct ids", self.ids, 0, above=True)
        good = sizes.ndim == 1 and sizes.shape == counts.shape and len(sizes)
        if not good or np.any(np.diff(sizes) <= 0) or np.any(np.diff(counts) < 0):
            raise CtrlabError(
                "Distinct ids are counted at ascending numbers of examples, and never get fewer; received "
                f"{list(zip(self.examples, self.ids))!r:.200}."
            )
        if self.vocabulary is not None:
            require.numbers("The vocabulary of counted ids", self.vocabulary, counts[-1], single=True)

    @classmethod
    def zipf(
        cls, rows: float, exponent: float, per_example: float = 1.0, *, first: float = 0.0, last: float = math.inf
    ) -> Distinct:
        """Expected counts if id number k of `rows` has a probability proportional to 1 / k^exponent.

            E[distinct of n] = sum over k of 1 - (1 - p_k)^n

        Args:
            per_example: number of ids that an example draws independently.
            first, last: count only the ids with first < k <= last.
        Raises:
            CtrlabError: a number is invalid.

        >>> 600 < Distinct.zipf(1_000, exponent=0)(1_000) < 640  # 1 - 1 / e of them
        True
        """
        require.numbers("The rows of Zipf's law", rows, 1, single=True)
        require.numbers("The exponent of Zipf's law", exponent, 0, single=True)
        require.numbers("Ids per example", per_example, 0, above=True, single=True)
        if not 0 <= first <= min(last, rows) - 1:
            raise CtrlabError(f"Of {rows:g} rows at least one is counted, 0 <= first <= last - 1; received {first} to {last}.")
        last = min(last, rows)
        bounds = np.floor([first + 1, last + 1])
        edges = np.unique(np.concatenate([np.floor(np.geomspace(1, rows + 1, BINS)), bounds]))
        count, rank = np.diff(edges), np.sqrt(edges[:-1] * (edges[1:] - 1))
        weight = rank**-exponent
        with np.errstate(divide="ignore"):  # a single row has p = 1
            never = np.log1p(-np.minimum(weight / (count @ weight), 1.0))
        counted = count * ((edges[:-1] >= bounds[0]) & (edges[:-1] < bounds[1]))
        vocabulary = float(counted.sum())
        ids = [min(vocabulary, float(counted @ -np.expm1(n * per_example * never))) for n in SIZES]
        return cls(tuple(SIZES.tolist()), tuple(np.maximum.accumulate(ids).tolist()), vocabulary)

    def __call__(self, examples: Numbers) -> Numbers:
        """The number of distinct ids of a batch with this number of examples.

        Raises:
            CtrlabError: there are more examples than were counted, and the vocabulary is unknown.
        """
        sizes, counts = np.array(self.examples), np.array(self.ids)
        known = len(sizes) == 1 or self.vocabulary is not None
        most, cure = math.inf if known else sizes[-1], "" if known else "Count larger batches, or say the vocabulary."
        n = require.numbers("Examples of which distinct ids are asked", examples, 0, most=most, cure=cure)
        inside = np.exp(np.interp(np.log(np.maximum(n, sizes[0])), np.log(sizes), np.log(counts)))
        slope = 1.0 if len(sizes) == 1 else np.log(counts[-1] / counts[-2]) / np.log(sizes[-1] / sizes[-2])
        beyond = np.maximum(n / sizes[-1], 1.0) ** slope
        most = math.inf if self.vocabulary is None else self.vocabulary
        return np.minimum(inside * beyond * np.minimum(n / sizes[0], 1.0), most)


@dataclass(frozen=True)
class Model(Plain):
    """A model on one kind of worker.

    Attributes:
        dense: number of weights that every worker has whole.
        fixed: seconds of a worker per step, independent of its part of the batch.
        per_example: seconds of a worker per example.
        ids: number of ids looked up per example.
        dim: numbers per table row.
        id_bytes: bytes of an id on the network: 4 for a dense table, 16 for a variable, with the id's number of occurrences.
        distinct: gives the number of distinct ids of a batch.
        sharded: whether each table row lies on one worker; False: each worker has whole tables, and all gradients of rows go to
            all.
        per_row: seconds to apply the gradient of an id of another worker's example, if tables are whole on each worker.
        kernels: number of kernels launched per step, on a device.
        tensors, bytes: number of tensors, and bytes per example, of the input.
        reductions: number of ring all-reduces per step: one for each bucket of gradients.
        exchanges: number of all-to-alls per step: of ids, rows and gradients of rows, and of small sums, which take one round
            trip.
        sharing: seconds of a worker per step for the exchanges' own ops, if there is another worker.
        per_id: seconds per distinct id for this: it is found, sorted by its owner, and its row is put in place.
        padding: sent bytes of ids and rows, divided by the needed ones.
    """

    dense: float
    fixed: float
    per_example: float
    ids: float = 0.0
    dim: float = 0.0
    id_bytes: float = 8.0
    distinct: Distinct = Distinct((1.0,), (1.0,))
    sharded: bool = True
    per_row: float = 0.0
    kernels: float = 0.0
    tensors: float = 0.0
    bytes: float = 0.0
    reductions: float = 1.0
    exchanges: float = 3.0
    sharing: float = 0.0
    per_id: float = 0.0
    padding: float = 1.0

    def __post_init__(self):
        least = {"reductions": 1.0, "exchanges": 0.0, "padding": 1.0}
        names = (field.name for field in fields(self) if field.name not in ("distinct", "sharded"))
        require.attributes("A model", self, **{name: least.get(name, 0.0) for name in names})
        require.kinds("A model", self, distinct=Distinct, sharded=bool)
