"""The batches for all sides, made from a seed: ids and list lengths follow the data sets' statistics."""

from __future__ import annotations

import numpy as np

from ctrlab.data.marginals import statistics
from ctrlab.data.sets import amazon_reviews, criteo
from ctrlab.data.words import mix, salt
from studies.peers.cases import SEED, Batch, Case


def make_batches(case: Case) -> list[Batch]:
    """Makes `case.batches` batches; their content depends on the case's kind.

    lookup      ids int64 [F, B * L], uniform; d_out float32 [B, F * D]
    variable    the same with Zipf-like ids: rank r has a probability of about 1 / r, and ranks are scattered over a table
    deepfm, dlrm    ids int64 [F, B]; numbers float32 [B, n]; labels float32 [B, 1]
    din         user, item, category int64 [B]; items, categories int64 [N]; splits int64 [B + 1]; labels float32 [B, 1]
    gru, augru  x float32 [B, T, C]; d_out float32 [B, T, H]; attention float32 [B, T], for the AUGRU
    """
    make = {
        "lookup": _lookup,
        "lookup_alone": _lookup,
        "variable": _popular,
        "deepfm": _clicks,
        "dlrm": _clicks,
        "din": _histories,
    }
    return [make.get(case.kind, _recurrent)(case, np.random.default_rng([SEED, i])) for i in range(case.batches)]


def _lookup(case: Case, rng: np.random.Generator) -> Batch:
    return {
        "ids": rng.integers(0, case.rows, (case.tables, case.batch * case.length)),
        "d_out": rng.standard_normal((case.batch, case.tables * case.dim), dtype=np.float32),
    }


def _popular(case: Case, rng: np.random.Generator) -> Batch:
    ranks = (case.rows ** rng.random((case.tables, case.batch * case.length))).astype(np.int64)
    return _lookup(case, rng) | {"ids": np.stack([_scattered(of_table, f"t{t}", case.rows) for t, of_table in enumerate(ranks)])}


def _clicks(case: Case, rng: np.random.Generator) -> Batch:
    drawn = statistics("criteo").sample(rng, case.batch, criteo.COUNTS + criteo.CATEGORIES)
    counts = np.stack([np.nan_to_num(drawn[name]) for name in criteo.COUNTS], axis=1)  # [B, n]
    return {
        "ids": np.stack([_scattered(drawn[name], name, case.rows) for name in criteo.CATEGORIES]),
        "numbers": np.log1p(np.maximum(counts, 0.0)).astype(np.float32),
        "labels": _labels(case, rng),
    }


def _histories(case: Case, rng: np.random.Generator) -> Batch:
    drawn = amazon_reviews.GENERATOR.draw(rng, case.batch)
    items = drawn["history_items"]
    lengths = np.minimum(items.lengths, case.longest)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    kept = np.arange(splits[-1]) + np.repeat(items.offsets[1:] - splits[1:], lengths)  # the last events of each history
    ids = {name: _scattered(drawn[name], name, case.sizes[name]) for name in ("user", "item", "category")}
    return ids | {
        "items": _scattered(items.values[kept], "item", case.item),
        "categories": _scattered(drawn["history_categories"].values[kept], "category", case.category),
        "splits": splits,
        "labels": _labels(case, rng),
    }


def _recurrent(case: Case, rng: np.random.Generator) -> Batch:
    sizes = case.batch, case.length
    batch = {
        "x": rng.standard_normal((*sizes, case.width), dtype=np.float32),
        "d_out": rng.standard_normal((*sizes, case.hidden), dtype=np.float32),
    }
    return batch | ({"attention": rng.random(sizes, dtype=np.float32)} if case.kind == "augru" else {})


def _scattered(ranks: np.ndarray, table: str, rows: int) -> np.ndarray:
    """Table rows for ranks of frequency, int64, scattered as by hashing."""
    return mix(ranks, salt("peers", table)).astype(np.int64) % rows


def _labels(case: Case, rng: np.random.Generator) -> np.ndarray:
    return (rng.random((case.batch, 1)) < 0.25).astype(np.float32)
