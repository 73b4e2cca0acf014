"""The last whole checkpoint of a folder, put back into a model, its optimizer, its embedding tables and the random generators."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ctrlab.embedding.checkpoint import require_fits
from ctrlab.embedding.proxy import Proxy
from ctrlab.embedding.state import TableState
from ctrlab.embedding.variable import EmbeddingVariable, embedding_variables
from ctrlab.errors import CtrlabError
from ctrlab.training.generators import set_generators
from ctrlab.training.saves import Save, read_last
from ctrlab.training.state import variables_of

HARDLY_ANY = (0, 1 << 62)
"""Of so many shards, each has next to no keys: enough to see what a table is like."""


@dataclass(frozen=True)
class Restored:
    """What was restored: the file, what it says of itself, and one sentence a file that was passed over."""

    path: Path
    save: Save
    passed_over: tuple[str, ...] = ()

    @property
    def step(self) -> int:
        """The optimizer's step."""
        return self.save.step

    @property
    def position(self) -> int:
        """The batches read until then."""
        return self.save.position


def restore(folder: str | os.PathLike, model, optimizer=None, run: Mapping[str, str] | None = None) -> Restored:
    """Puts the last whole checkpoint of `folder` into the model, the optimizer and the random generators.

    A damaged file is passed over for the one before it, and so is a delta whose chain is not whole. Without an optimizer only the
    model's part is taken.

    Raises:
        BadData: there is no whole checkpoint. CtrlabError: it is of another model, or of a run with other facts than `run`;
            nothing has changed then.
    """
    path, save, arrays, tables, passed_over = read_last(Path(folder))
    for name, value in (run or {}).items():
        if save.run.get(name) != value:
            raise CtrlabError(f"A run goes on with the same {name}; {path} has {save.run.get(name)}, now it is {value}.")
    _put(arrays, tables, model, optimizer, path)
    return Restored(path, save, passed_over)


def state_variables(model, optimizer=None) -> dict[str, object]:
    """{path: Keras variable}: weights, slots and step count, and the states of the model's seed generators.

    Without the proxies of embedding variables, which hold nothing: see `tables_of`.
    """
    metrics = {id(v) for v in getattr(model, "metrics_variables", ())}
    weights = {id(v) for v in model.weights}
    seeds = [v for v in model.variables if id(v) not in metrics | weights]
    dense = {path: v for path, v in variables_of(model, optimizer).items() if not isinstance(v, Proxy)}
    return dense | {f"seed/{i}": v for i, v in enumerate(seeds)}


def tables_of(model) -> dict[str, EmbeddingVariable]:
    """{name: embedding variable} of a model."""
    found = embedding_variables(model)
    tables = {table.name: table for table in found}
    if len(tables) != len(found):
        raise CtrlabError(f"Names of embedding variables must differ; {model.name} has {sorted(t.name for t in found)}.")
    return tables


def _put(arrays: dict[str, np.ndarray], states: dict[str, TableState], model, optimizer, path: Path) -> None:
    variables, tables = state_variables(model, optimizer), tables_of(model)
    kept = {n: a for n, a in arrays.items() if not n.startswith("generators/") and (optimizer or not n.startswith("optimizer/"))}
    for here, there in ((variables, kept), (tables, states)):
        if odd := sorted(set(there) ^ set(here)):
            where = "the checkpoint" if odd[0] in there else "the model"
            raise CtrlabError(f"{path} is of another model: {odd[0]!r} is only in {where} ({len(odd)} such names).")
    for name, v in variables.items():
        if tuple(v.shape) != kept[name].shape or np.dtype(v.dtype) != kept[name].dtype:
            there, here = f"{kept[name].dtype} {kept[name].shape}", f"{v.dtype} {tuple(v.shape)}"
            raise CtrlabError(f"{path} is of another model: {name} is {there} in the checkpoint and {here} in the model.")
    if not optimizer:
        states = {name: replace(state, slots={}) for name, state in states.items()}
    for name, table in tables.items():
        require_fits(states[name], table.state(shard=HARDLY_ANY), f"{path} is of another model: table {name}")
    for name, v in variables.items():
        v.assign(kept[name])
    for name, table in tables.items():
        table.load_state(states[name])
    if optimizer:
        set_generators({n.removeprefix("generators/"): a for n, a in arrays.items() if n.startswith("generators/")})
