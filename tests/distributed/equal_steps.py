"""One step on a shared batch, as plain arrays: what a single process answers, and what each worker has of it.

`cases.json` of a folder describes the models, `<case>.npz` holds a state. A table of an embedding variable is written as the
arrays of its `TableState`, under "<variable>|<array>".
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np

from ctrlab.embedding.table.proxy import Rows
from ctrlab.embedding.table_state import TableState


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, and how many of the batch's rows each of up to four workers takes.

    Attributes:
        embedding: "hashed", "multihash", or an admission of variables: "every", "counter" or "bloom".
        clip_norm: in place of the model's own.
        rows_as: see `Workers`.
        buckets: rows of a hashed table, at most.
    """

    model: str
    embedding: str = "hashed"
    optimizations: str = "all"
    size: str = "contest"
    clip_norm: float | None = None
    rows_as: str = "float32"
    buckets: int = 500

    @property
    def name(self) -> str:
        clip, rows = "clipped" if self.clip_norm else "", self.rows_as if self.rows_as != "float32" else ""
        few = f"{self.buckets}-buckets" if self.buckets < 500 else ""
        return "-".join(filter(None, (self.model, self.embedding, self.optimizations, self.size, clip, rows, few)))

    def build(self):
        """The model, as `ctrlab.data.generate`d rows of `rows.parquet` have them."""
        from ctrlab import data
        from ctrlab.embedding import BloomFilter, CounterFilter, Options
        from ctrlab.embedding.choices import QuotientRemainder, Variable
        from ctrlab.model_names import DATA_SETS
        from ctrlab.models import MODELS, build
        from ctrlab.training import make_optimizer

        schema = data.schema(DATA_SETS[self.model]).with_buckets(self.buckets)
        admissions = {"every": None, "counter": CounterFilter(3), "bloom": BloomFilter(3, expected_keys=10_000)}
        if self.embedding in admissions:
            choice = Variable(Options(admission=admissions[self.embedding]))
        else:
            choice = QuotientRemainder(rows=60) if self.embedding == "multihash" else None
        tables = {c.table for c in schema.id_columns if c.encoding == "hash"}
        sizes = MODELS[self.model].presets[self.size]
        if self.clip_norm:
            sizes = dataclasses.replace(sizes, hyper=dataclasses.replace(sizes.hyper, clip_norm=self.clip_norm))
        model = build(
            self.model, schema, self.optimizations, embedding=dict.fromkeys(tables, choice) if choice else "hashed", size=sizes
        )
        return model, make_optimizer(model)


def write_cases(folder: Path, cases) -> None:
    (folder / "cases.json").write_text(json.dumps([dataclasses.asdict(case) for case in cases]))


def read_cases(folder: Path) -> list[Case]:
    return [Case(**values) for values in json.loads((folder / "cases.json").read_text())]


def part(batch, shares, index: int):
    """The rows that worker `index` takes of a batch (features, labels)."""
    first = sum(shares[:index])
    features, labels = batch
    return {name: column[first : first + shares[index]] for name, column in features.items()}, labels[
        first : first + shares[index]
    ]


def flat(state: dict) -> dict[str, np.ndarray]:
    """A state of `get_state`, or of `unflat`, as plain arrays."""
    found = {}
    for name, value in state.items():
        if not isinstance(value, Rows | TableState):
            found[name] = value
            continue
        table = dataclasses.asdict(value.state if isinstance(value, Rows) else value)
        slots = {f"slots.{slot}": array for slot, array in table.pop("slots").items()}
        found |= {f"{name}|{part}": array for part, array in (table | slots).items()}
    return found


def unflat(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray | TableState]:
    """Variables by name; `TableState` for embedding variables."""
    found, tables = {}, {}
    for name, array in arrays.items():
        variable, _, field = name.partition("|")
        if field:
            tables.setdefault(variable, {})[field] = array
        else:
            found[name] = array
    for variable, fields in tables.items():
        slots = {field.removeprefix("slots."): fields.pop(field) for field in list(fields) if field.startswith("slots.")}
        found[variable] = TableState(slots=slots, **fields)
    return found


def put(state: dict[str, np.ndarray | TableState], model, optimizer, shard) -> None:
    """Gives a model a state, or its shard of it."""
    from ctrlab.training.state import variables_of

    for name, variable in variables_of(model, optimizer).items():
        value = state[name]
        if isinstance(value, TableState):
            variable.table.load_state(value, shard=(shard.index, shard.count))
        else:
            variable.assign(value if tuple(variable.shape) == value.shape else value[shard.index :: shard.count])


def joined(states: list[dict[str, np.ndarray | TableState]], whole: dict) -> dict[str, np.ndarray | TableState]:
    """The state of all workers, of the shapes that `whole` has. What each has whole must be the same bits."""
    found = {}
    for name, like in whole.items():
        parts = [state[name] for state in states]
        if isinstance(like, TableState):
            fields = [f.name for f in dataclasses.fields(TableState) if f.name not in ("slots", "filter")]
            arrays = {f: np.concatenate([getattr(p, f) for p in parts]) for f in fields}
            slots = {s: np.concatenate([p.slots[s] for p in parts]) for s in like.slots}
            found[name] = TableState(slots=slots, **arrays)
        elif all(p.shape == like.shape for p in parts):  # a shard may be all of a table
            assert all(np.array_equal(p, parts[0]) for p in parts), f"{name} differs between workers"
            found[name] = parts[0]
        else:
            found[name] = np.empty_like(like)
            for index, p in enumerate(parts):
                found[name][index :: len(parts)] = p
    return found


def aligned(before: dict, after: dict, model, optimizer) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict]:
    """Two states as arrays of numbers, with the rows of tables in the order of their keys, and what must be exactly equal. A key
    that has got its row between them has its initial value before."""
    from ctrlab.embedding.initial_values import initial_values
    from ctrlab.embedding.variable import embedding_variables

    tables = {f"model/{table.proxy.path}": table for table in embedding_variables(model)}
    old, new, exact = {}, {}, {}
    for name, now in after.items():
        was = before[name]
        if not isinstance(now, TableState):
            old[name], new[name] = was, now
            continue
        order, waiting = np.argsort(now.keys), np.argsort(now.candidate_keys)
        keys = now.keys[order]
        place = dict(zip(was.keys.tolist(), range(len(was.keys))))
        known = np.array([place.get(key, -1) for key in keys.tolist()], np.int64)
        slot = "optimizer/adam_async/" + name.removeprefix("model/").replace("/", "_") + "_{}"
        arrays = {name: (was.values, now.values, initial_values(tables[name].options.initializer, keys, now.dim))}
        for each, value in optimizer.rule.slots.items():
            arrays[slot.format(each)] = (was.slots[each], now.slots[each], np.full((len(keys), now.dim), np.float32(value)))
        for key, (first, last, fresh) in arrays.items():
            fresh[known >= 0] = first[known[known >= 0]]
            old[key], new[key] = fresh, last[order]
        exact |= {f"{name} keys": keys, f"{name} frequencies": now.frequencies[order], f"{name} steps": now.steps[order]}
        exact |= {f"{name} candidates": now.candidate_keys[waiting], f"{name} counts": now.candidate_counts[waiting]}
    return old, new, exact
