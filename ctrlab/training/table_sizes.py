"""What the size of the tables costs in AUC: one model, the same rows, its embeddings kept in different ways.

    run(generated(100_000), "hashed", compression=20)["auc"]

"perfect" is a row for each id of the training rows, and zeros for ids that never came: what an embedding variable without
admission or eviction computes, here by a dense table over a vocabulary that is made beforehand; "variable" is that variable.
Everything else is compressed from that size: at 20, a column of 100,000 different ids gets 5,000 rows. Columns of fewer than
LEAST_BUCKETS ids are perfect always.

Rows are Criteo's: the real sample, or generated ones, where the shares of the logit's variance that rare ids and drift make
can be set; the other parts keep their proportions, and everything else is as `ctrlab.data.planted` has it. Each row is trained on
once, in order of time, and the last sixth (of the real sample: its own test rows) is judged.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet
import tensorflow as tf
from sklearn.metrics import roc_auc_score

from ctrlab import data
from ctrlab.data import planted
from ctrlab.data.generator import BLOCK
from ctrlab.data.marginals import statistics
from ctrlab.data.sets.criteo import CATEGORIES, COUNTS, GENERATOR, SCHEMA
from ctrlab.data.splitmix import mix
from ctrlab.data.words import salt
from ctrlab.embedding import multihash
from ctrlab.embedding.choices import LEAST_BUCKETS, BinaryCode, Choice, Hashed, QuotientRemainder, Variable
from ctrlab.embedding.options import CounterFilter, Initializer, Options
from ctrlab.models import build
from ctrlab.models.blocks import STAGED
from ctrlab.schema import Categorical
from ctrlab.training.loop import evaluate, train
from ctrlab.training.optimizers import make_optimizer

RATE = 3e-3
"""The learning rate. At DLRM's own, .01, one pass over 100,000 rows ends anywhere within .03 of AUC; at .001 rows hardly move."""
WAYS: dict[str, Choice | None] = {
    "perfect": None,
    "hashed": Hashed(),
    "quotient-remainder, add": QuotientRemainder(operation="add"),
    "quotient-remainder, multiply": QuotientRemainder(operation="multiply"),
    "quotient-remainder, concat": QuotientRemainder(operation="concat"),
    "binary code, add": BinaryCode(operation="add"),
    "binary code, multiply": BinaryCode(operation="multiply"),
    "binary code, concat": BinaryCode(operation="concat"),
    "binary code of 4, concat": BinaryCode(operation="concat", blocks=4),
    "variable": Variable(),
    "variable, from the second time": Variable(Options(Initializer("normal"), CounterFilter(2))),
}
UNCOMPRESSED = ("perfect", "variable", "variable, from the second time")


@dataclass(frozen=True)
class Rows:
    """Ids {column: int64 [n]} as a hash makes them, numbers float32 [n, 13] as a model sees them, labels float32 [n]."""

    ids: dict[str, np.ndarray]
    numbers: np.ndarray
    labels: np.ndarray

    def __getitem__(self, cut: slice) -> Rows:
        return Rows({name: ids[cut] for name, ids in self.ids.items()}, self.numbers[cut], self.labels[cut])

    def batches(self, size: int) -> Iterator[tuple[dict, tf.Tensor]]:
        """(features that are staged already, labels [B, 1]), in order."""
        for start in range(0, len(self.labels), size):
            rows = self[start : start + size]
            features = {name: tf.constant(ids) for name, ids in rows.ids.items()}
            yield features | {STAGED: tf.constant(rows.numbers)}, tf.constant(rows.labels[:, None])


@dataclass(frozen=True)
class Sample:
    """Rows to train and to test on; `about` says what they are."""

    about: dict
    train: Rows
    test: Rows

    def distinct(self) -> dict[str, np.ndarray]:
        """{column: the different ids of the training rows, ascending}."""
        return {name: np.unique(ids) for name, ids in self.train.ids.items()}


def real() -> Sample:
    """Criteo's sample, whole; CtrlabError where `CTRLAB_REAL_DATA` does not lead to it."""
    files = data.prepare("criteo", source="real", encoded_for=SCHEMA.with_raw_ids(CATEGORIES), progress=False)
    train, test = (_rows(pyarrow.parquet.read_table(paths).to_pydict()) for paths in (files.train[0], files.test[0]))
    return Sample({"data": "real", "rows": len(train.labels)}, train, test)


def generated(rows: int, seed: int = 0, rare: float | None = None, drift: float | None = None) -> Sample:
    """Generated rows, and a fifth as many that follow them in time.

    Args:
        rare, drift: the shares of the logit's variance that rare ids and drift make; None is what the planted model has.
    """
    plan, total = _plan(rare, drift), rows + rows // 5
    world = planted.Planted(plan, SCHEMA, statistics("criteo"), GENERATOR.draw(np.random.default_rng(1 << 62), 2 * BLOCK))
    blocks, scores = [], []
    for start in range(0, total, BLOCK):
        rng = np.random.Generator(np.random.SFC64([seed, start // BLOCK]))
        values = GENERATOR.draw(rng, BLOCK)
        labels, score = world.draw_labels(rng, values, np.arange(start, start + BLOCK))
        hashed = {name: fingerprint(values[name], name) for name in CATEGORIES}
        blocks.append(_rows(values | hashed | labels))
        scores.append(score["label"])
    whole = Rows(
        {name: np.concatenate([b.ids[name] for b in blocks]) for name in CATEGORIES},
        np.concatenate([b.numbers for b in blocks]),
        np.concatenate([b.labels for b in blocks]),
    )[:total]
    ceiling = float(roc_auc_score(whole.labels[rows:], np.concatenate(scores)[rows:total]))
    about = {"data": "generated", "rows": rows, "ceiling": ceiling} | {
        p: plan.shares[planted.PARTS.index(p)] for p in ("rare", "drift")
    }
    return Sample(about, whole[:rows], whole[rows:])


def _plan(rare: float | None, drift: float | None) -> planted.Plan:
    plan = GENERATOR.plan
    shares = dict(zip(planted.PARTS, plan.shares))
    wanted = {part: share for part, share in (("rare", rare), ("drift", drift)) if share is not None}
    rest = (1 - sum(wanted.values())) / sum(share for part, share in shares.items() if part not in wanted)
    return dataclasses.replace(plan, shares=tuple(wanted.get(part, share * rest) for part, share in shares.items()))


def _rows(values: dict) -> Rows:
    numbers = [planted.seen(SCHEMA[name], np.asarray(values[name], np.float64)) for name in COUNTS]
    ids = {name: np.asarray(values[name], np.int64) for name in CATEGORIES}
    return Rows(ids, np.stack(numbers, 1).astype(np.float32), np.asarray(values["label"], np.float32))


def fingerprint(ranks: np.ndarray, column: str) -> np.ndarray:
    """A hash of each rank in [0, 2^63), as that of a word would be: int [n] -> int64 [n]."""
    mixed = mix(ranks.astype(np.uint64) + np.uint64(salt("fingerprint", column) << 32))
    return (mixed >> np.uint64(1)).astype(np.int64)


def run(sample: Sample, way: str, compression: float = 1.0, seed: int = 0, model: str = "dlrm") -> dict:
    """Trains on each row once and tests; everything about it as a row of a table.

    Args:
        way: a name in WAYS; those in UNCOMPRESSED know no compression.
        model: "dlrm", "wdl" or "deepfm"; the linear weights of the latter, one an id or hashed to as many, count in no size.
    """
    distinct = sample.distinct()
    large = {name: ids for name, ids in distinct.items() if len(ids) >= LEAST_BUCKETS and way != "perfect"}
    embedding = {name: choice_of(way, len(ids), compression) for name, ids in large.items()}
    schema = dataclasses.replace(SCHEMA, columns=tuple(_column(c, distinct) for c in SCHEMA.columns))
    built = build(model, schema, "all", seed, embedding)
    known = {name: ids for name, ids in distinct.items() if name not in large}
    optimizer = make_optimizer(built, dataclasses.replace(built.hyper, learning_rate=RATE))
    train(built, optimizer, _placed(sample.train, known).batches(built.hyper.batch_size))
    found = evaluate(built, _placed(sample.test, known).batches(built.hyper.batch_size))
    size = sum(parts.size for parts in built.embedding.parts.values())
    size += sum(built.sizes.dim * variable.rows() for variable in built.embedding.growing.values())
    return sample.about | {
        "model": model,
        "way": way,
        "compression": 1.0 if way in UNCOMPRESSED else compression,
        "seed": seed,
        "auc": found.auc["label"],
        "log_loss": found.log_loss["label"],
        "size": size / (built.sizes.dim * sum(map(len, distinct.values()))),
        "collisions": collisions({n: (built.embedding.parts[n], ids) for n, ids in large.items() if n in built.embedding.parts}),
    }


def choice_of(way: str, ids: int, compression: float) -> Choice:
    choice = WAYS[way]
    if isinstance(choice, Variable):
        return choice
    if isinstance(choice, Hashed):
        return Hashed(rows=math.ceil(ids / compression))
    return dataclasses.replace(choice, compression=compression)


def collisions(columns: dict[str, tuple[multihash.Parts, np.ndarray]]) -> float:
    """The share of different ids, of all columns, that share their code with another."""
    found = [(multihash.collision_rate(multihash.reference_keys(parts, ids)), len(ids)) for parts, ids in columns.values()]
    rates, weights = zip(*found) if found else ((0.0,), (1,))
    return float(np.average(rates, weights=weights))


def _column(column, distinct: dict[str, np.ndarray]):
    if not isinstance(column, Categorical):
        return column
    return dataclasses.replace(column, buckets=len(distinct[column.name]))


def _placed(rows: Rows, known: dict[str, np.ndarray]) -> Rows:
    """The same rows with each id's place among the known ones of its column, -1 where it is unknown."""
    ids = dict(rows.ids)
    for name, vocabulary in known.items():
        place = np.minimum(np.searchsorted(vocabulary, ids[name]), len(vocabulary) - 1)
        ids[name] = np.where(vocabulary[place] == ids[name], place, -1)
    return dataclasses.replace(rows, ids=ids)
