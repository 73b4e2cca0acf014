"""Sessions of a web shop for the lesson on the embedding table: which item is looked at next, and what learned rows look like.

A session of the data set `rees46` is a list of items in the order in which one user looked at them. Its examples are pairs: an
item with the one that followed (label 1), and the same item with one drawn from the whole shop (label 0). The items' categories
are in no example; they only judge what was learned.

    Barkan, Koenigstein, "Item2Vec: Neural Item Embedding for Collaborative Filtering", 2016.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
from pyarrow import parquet

from ctrlab.data import DataFiles
from ctrlab.profiling import colours
from ctrlab.profiling.charts.style import figure, log_ticks

MOST_FREQUENT = 2_000  # items that are compared with each other
LEAST = 10  # times that a frequent item was looked at
BINS = ((1, 1), (2, 3), (4, 9), (10, 29), (30, 99), (100, 10**9))


@dataclass(frozen=True)
class Sessions:
    """Pairs of items, as ids from 0 to V - 1.

    Attributes:
        item, following, other: int64 [n]: an item, the one looked at next, and one that was drawn from the whole shop.
        times: int64 [V], how often each item was looked at. category: int64 [V].
    """

    item: np.ndarray
    following: np.ndarray
    other: np.ndarray
    times: np.ndarray
    category: np.ndarray

    @property
    def items(self) -> int:
        """V, the number of different items."""
        return len(self.times)

    @functools.cached_property
    def frequent(self) -> np.ndarray:
        """The most frequent items, at most MOST_FREQUENT, that came at least LEAST times."""
        by_times = np.argsort(-self.times, kind="stable")[:MOST_FREQUENT]
        return by_times[self.times[by_times] >= LEAST]

    @property
    def by_chance(self) -> float:
        """The probability that two different frequent items, drawn at random, have the same category."""
        sizes, n = np.bincount(self.category[self.frequent]), len(self.frequent)
        return float(np.sum(sizes * (sizes - 1)) / (n * (n - 1)))

    def batches(self, size: int, passes: int, seed: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Batches of `size` pairs that followed each other and as many that did not: (item, other item, label), [2 size] each."""
        rng = np.random.default_rng(seed)
        for _ in range(passes):
            order = rng.permutation(len(self.item))
            for start in range(0, len(order), size):
                rows = order[start : start + size]
                label = np.repeat(np.float32([1, 0]), len(rows))
                yield np.tile(self.item[rows], 2), np.concatenate([self.following[rows], self.other[rows]]), label

    def same_category(self, table: np.ndarray, asked: np.ndarray | None = None) -> float:
        """The fraction of the `asked` items (default: the frequent ones) whose nearest frequent neighbour is in their own
        category. The nearest is the one with the largest cosine.

        Args:
            table: rows, float32 [V, D].
        """
        asked = self.frequent if asked is None else asked
        cosines = _unit(table[asked]) @ _unit(table[self.frequent]).T
        cosines[asked[:, None] == self.frequent] = -2  # nobody is their own neighbour
        nearest = self.frequent[cosines.argmax(1)]
        return float(np.mean(self.category[nearest] == self.category[asked]))

    def by_times(self, table: np.ndarray, most: int = 1_000) -> dict[str, float]:
        """`same_category` by how often an item was looked at, of up to `most` items drawn from each bin that has ten at least."""
        found, rng = {}, np.random.default_rng(0)
        for low, high in BINS:
            asked = np.flatnonzero((self.times >= low) & (self.times <= high))
            if len(asked) >= 10:
                name = f"{low}" if low == high else f"{low} to {high}" if high < 10**9 else f"{low} and more"
                found[name] = self.same_category(table, rng.permutation(asked)[:most])
        return found


def read(files: DataFiles) -> Sessions:
    """The sessions of a training file of the set `rees46`."""
    table = parquet.read_table(files.train[0])[::2]  # two rows in turn belong to one session
    past, others = (table[f"{name}_items"].combine_chunks() for name in ("history", "negative"))
    items = pa.concat_arrays([past.flatten().cast(pa.string()), others.flatten().cast(pa.string())]).dictionary_encode()
    categories = [table[f"{name}_categories"].combine_chunks().flatten().cast(pa.string()) for name in ("history", "negative")]
    categories = pa.concat_arrays(categories).dictionary_encode().indices.to_numpy()
    ids, looks = items.indices.to_numpy().astype(np.int64), len(past.flatten())
    category = np.zeros(len(items.dictionary), np.int64)
    category[ids] = categories
    session = np.repeat(np.arange(len(past)), past.value_lengths().to_numpy())
    inside = np.flatnonzero(session[1:] == session[:-1])
    times = np.bincount(ids[:looks], minlength=len(category))
    return Sessions(ids[inside], ids[inside + 1], ids[looks + inside + 1], times, category)


def reads(files: DataFiles) -> dict[str, np.ndarray]:
    """The ids, int64 [n], that the training rows look up, by table. The files are `encoded_for` a model."""
    table, schema, found = parquet.read_table(files.train[0]), files.schema, {}
    for column in schema.id_columns:
        values = table[column.name].combine_chunks()
        values = values.flatten() if hasattr(values, "flatten") and pa.types.is_list(values.type) else values
        found.setdefault(column.table, []).append(values.to_numpy(zero_copy_only=False).astype(np.int64))
    return {name: np.concatenate(ids) for name, ids in found.items()}


def two_maps(sessions: Sessions, before: np.ndarray, after: np.ndarray, categories: int = 6) -> go.Figure:
    """The frequent items of the largest categories before and after training: each table's own best plane (PCA), of unit rows."""
    sizes = np.bincount(sessions.category[sessions.frequent])
    largest = np.argsort(-sizes, kind="stable")[:categories]
    shown = sessions.frequent[np.isin(sessions.category[sessions.frequent], largest)]
    traces = []
    for side, table in enumerate((before, after)):
        plane = _plane(_unit(table[shown]))
        for number, category in enumerate(largest):
            chosen = sessions.category[shown] == category
            traces.append(
                go.Scatter(
                    x=plane[chosen, 0],
                    y=plane[chosen, 1],
                    mode="markers",
                    name=f"category {number + 1}",
                    legendgroup=f"{number}",
                    showlegend=side == 1,
                    marker={"size": 7, "color": colours.PALETTE[number], "opacity": 0.75},
                    text=[f"item {item}, looked at {sessions.times[item]} times" for item in shown[chosen]],
                    hovertemplate="%{text}<extra>%{fullData.name}</extra>",
                    xaxis=f"x{side + 1}",
                    yaxis=f"y{side + 1}",
                )
            )
    plain = {"showticklabels": False, "ticks": "", "range": [-1.15, 1.15]}
    chart = figure(
        traces,
        "Rows of the item table, before and after training",
        x="before: first direction",
        y="second direction",
        note=f"{len(shown)} frequent items of {len(largest)} categories; a point is a row, seen from its widest side",
        height=480,
        xaxis2={"domain": [0.53, 1], "anchor": "y2", "title": {"text": "after: first direction"}} | plain,
        yaxis2={"anchor": "x2"} | plain,
    )
    chart.update_layout(xaxis={"domain": [0, 0.47]} | plain, yaxis=plain, legend={"y": 1.0}, margin_t=118)
    return chart


def bytes_of(whole: dict[str, int], hot: dict[str, int]) -> go.Figure:
    """The bytes of each whole table, and of those of its rows that serve most lookups, on a logarithmic axis."""
    tables = sorted(whole, key=hot.__getitem__, reverse=True)
    sides = (("all rows", whole, colours.GREY), ("the rows that 90 % of the lookups read", hot, colours.PALETTE[0]))
    traces = [go.Bar(name=name, x=tables, y=[side[t] for t in tables], marker_color=colour) for name, side, colour in sides]
    chart = figure(traces, "DLRM's tables", x="table", y="bytes (logarithmic)", note="with Adam's two slots", height=460)
    every = [*whole.values(), *hot.values()]
    ticks = [tick for tick in log_ticks(min(every) / 2, max(every) * 2) if np.log10(tick).is_integer()]
    return chart.update_yaxes(type="log", tickvals=ticks, ticktext=[f"{tick:,.0f}" for tick in ticks]).update_layout(margin_t=118)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def _plane(rows: np.ndarray) -> np.ndarray:
    """The two directions in which rows [n, D] differ most: [n, 2]."""
    centred = rows - rows.mean(0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
