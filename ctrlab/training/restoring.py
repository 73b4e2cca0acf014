"""Restores the last complete checkpoint of a folder into a model, its optimizer, its tables and the random generators."""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ctrlab import keras_hooks, whole_batch
from ctrlab.embedding.formats.merging import fill
from ctrlab.embedding.formats.saves import Link, PassedOver, Save, last_whole
from ctrlab.embedding.formats.table_arrays import require_fits
from ctrlab.embedding.layer import Tables
from ctrlab.embedding.table.cut import Stage
from ctrlab.embedding.table.proxy import Proxy
from ctrlab.embedding.table_state import TableState
from ctrlab.embedding.variable import EmbeddingVariable, embedding_variables
from ctrlab.errors import CtrlabError
from ctrlab.training.generators import require_generators, set_generators
from ctrlab.training.state import variables_of
from ctrlab.whole_batch import Shard

NUMBER = re.compile(r"_\d+(?=[/_]|$)")
"""The number that Keras adds to layer names. In a process's second model from the same code, dense and dense_1 become dense_2
and dense_3.
"""

EARLIER = {"sizes": "contest", "validation": "none"}
"""Settings that earlier versions did not write, with their only value at that time."""


@dataclass(frozen=True)
class Restored:
    """The result of a restore.

    Attributes:
        path, save: the file and its metadata.
        passed_over: one sentence for each newer file that could not be used.
        lost: a sentence on the training that was done between the restored save and the newest save; empty if no file was passed
            over.
        renamed: whether Keras has numbered the model's layers differently from the saved ones.
    """

    path: Path
    save: Save
    passed_over: tuple[str, ...] = ()
    lost: str = ""
    renamed: bool = False

    @property
    def step(self) -> int:
        """The optimizer's step."""
        return self.save.step

    @property
    def position(self) -> int:
        """The batches that were read before the save."""
        return self.save.position


def restore(folder: str | os.PathLike, model, optimizer=None, run: Mapping[str, str] | None = None) -> Restored:
    """Restores the last complete checkpoint of `folder` into the model, the optimizer and the random generators.

    If a save is damaged, or a delta's chain is incomplete, the save before it is tried. Tables are read in parts of some
    megabytes into new tables, which replace the model's when everything has been read. Without an optimizer only the model's part
    is restored. A second model from the same code, whose layers Keras numbers differently, takes the checkpoint, too: its
    variables are matched by their order. Names that a user chose are never matched so, nor numbered names if a name occurs on
    both sides, because it may then mean another layer.

    Raises:
        BadData: there is no complete checkpoint. CtrlabError: the checkpoint comes from another model, its settings differ from
            `run`, or its tables do not fit in memory. Nothing has changed then.
    """
    _, ready, passed_over = last_whole(Path(folder), lambda links: read([links], model, optimizer, run))
    return ready.taken(passed_over)


def state_variables(model, optimizer=None) -> dict[str, object]:
    """{path: Keras variable}: weights, slots, step count, and the states of the model's seed generators.

    The proxies of embedding variables are left out, because they hold nothing: see `tables_of`.
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


@dataclass(frozen=True)
class Ready:
    """Everything that will be put into a model, already read, so that a disk error can't leave the model half restored."""

    path: Path
    save: Save
    dense: list[tuple[object, np.ndarray]]
    tables: list[tuple[EmbeddingVariable, Stage]]
    generators: dict[str, np.ndarray]
    renamed: bool

    def taken(self, passed_over: Sequence[PassedOver]) -> Restored:
        """Puts the state into the model.

        Args:
            passed_over: the later saves that could not be used.
        """
        for variable, value in self.dense:
            variable.assign(value)
        for table, stage in self.tables:
            table.adopt(stage)
        if self.generators:
            set_generators(self.generators)
        problems = tuple(passed.problem for passed in passed_over)
        return Restored(self.path, self.save, problems, _lost(passed_over, self.save), self.renamed)


def _names_by_keras(model) -> set[str]:
    """The names of layers and their variables that Keras chose, because the code gave none."""
    named = [(layer.name, type(layer).__name__) for layer in keras_hooks.all_layers(model)]  # MyLayer is my_layer or my_layer_1
    named += [(variable.name, "variable") for variable in model.variables]
    return {name for name, kind in named if NUMBER.sub("", name).replace("_", "") == kind.replace("_", "").lower()}


def _alike(there: Sequence[str], here: Sequence[str]) -> bool:
    return len(there) == len(here) and all(NUMBER.sub("", a) == NUMBER.sub("", b) for a, b in zip(there, here))


def _names(there: Iterable[str], here: Iterable[str], by_keras: set[str]) -> dict[str, str]:
    """{name in a checkpoint: that in the model}. They differ only if the names, compared in order, differ in nothing but the
    numbers in Keras's own names. An optimizer's names are made from the model's, and follow them.
    """
    there, here = list(there), list(here)
    changed = [(a, b) for a, b in zip(there, here) if a != b]
    parts = [pair for a, b in changed if not a.startswith("optimizer/") for pair in zip(a.split("/"), b.split("/"))]
    theirs = all(a == b or b in by_keras for a, b in parts)
    apart = not ({a for a, _ in changed} & {*here} or {b for _, b in changed} & {*there})
    return dict(zip(there, here if parts and theirs and apart and _alike(there, here) else there))


def read(
    chains: Sequence[Sequence[Link]],
    model,
    optimizer=None,
    run: Mapping[str, str] | None = None,
    shard: Shard = whole_batch.WHOLE,
    sharded: Sequence[str] = (),
) -> Ready:
    """Reads the part of a save that this process needs. Nothing in the model changes yet.

    Args:
        chains: for each worker whose files are read, its full save and the deltas up to the save; a single process has one chain.
        run: as in `restore`.
        shard: the part that this process takes of all rows in the chains.
        sharded: the names of arrays of which each chain has only its own rows.
    Raises:
        BadData: a file contradicts itself. CtrlabError: the save comes from another model, its settings differ from `run`, or its
            tables do not fit in memory.
    """
    path, save, arrays = chains[0][-1].path, chains[0][-1].save, chains[0][-1].others
    for name, value in (run or {}).items():
        if (saved := save.run.get(name, EARLIER.get(name))) != value:
            raise CtrlabError(f"A run goes on with the same {name}; {path} has {saved}, now it is {value}.")
    variables, tables = state_variables(model, optimizer), tables_of(model)
    kept = [n for n in arrays if not n.startswith("generators/") and (optimizer or not n.startswith("optimizer/"))]
    kept_tables, by_keras = chains[0][0].tables, _names_by_keras(model)
    table_layers = {
        layer.name for layer in keras_hooks.all_layers(model) if isinstance(layer, Tables) and layer.name in layer.tables
    }
    names, table_names = _names(kept, variables, by_keras), _names(kept_tables, tables, by_keras & table_layers)
    numbers = _alike(kept, list(variables)) and _alike(list(kept_tables), list(tables))
    saved_as = {here: there for there, here in names.items()}
    tables_as = {here: there for there, here in table_names.items()}
    for here, there in ((variables, saved_as), (tables, tables_as)):
        if odd := sorted(set(there) ^ set(here)):
            where = "the checkpoint" if odd[0] in there else "the model"
            cure = "; give the model the checkpoint's names, and keras.utils.clear_session() restarts those that Keras numbers"
            raise CtrlabError(
                f"{path} is of another model: {odd[0]!r} is only in {where} ({len(odd)} such names){cure if numbers else ''}."
            )
    dense = []
    for name, v in variables.items():
        of_all = [chain[-1].others[saved_as[name]] for chain in chains]
        # Tables that one worker had whole are not said to be sharded.
        apart = (len(chains) > 1 or not shard.whole) and (whole_batch.is_sharded(v) or saved_as[name] in sharded)
        shape = (shard.rows(sum(array.shape[0] for array in of_all)), *of_all[0].shape[1:]) if apart else of_all[0].shape
        if tuple(v.shape) != shape or np.dtype(v.dtype) != of_all[0].dtype:
            there, here = f"{of_all[0].dtype} {shape}", f"{v.dtype} {tuple(v.shape)}"
            raise CtrlabError(f"{path} is of another model: {name} is {there} in the checkpoint and {here} in the model.")
        dense.append((v, of_all if apart else of_all[:1], apart))
    generators = {n.removeprefix("generators/"): a.read() for n, a in arrays.items() if n.startswith("generators/")}
    if optimizer:
        require_generators(generators)
    stages = {name: table.stage() for name, table in tables.items()}
    for name, stage in stages.items():
        wanted = _wanted(kept_tables[tables_as[name]], optimizer)
        require_fits(wanted, stage.state(), f"{path} is of another model: table {name}")
    for name, stage in stages.items():
        _fill(stage, name, tables_as[name], chains, shard, optimizer)
    return Ready(
        path,
        save,
        [(v, rows_of([a.read() for a in of_all], shard) if apart else of_all[0].read()) for v, of_all, apart in dense],
        [(table, stages[name]) for name, table in tables.items()],
        generators if optimizer else {},
        renamed=any(there != here for there, here in (names | table_names).items()),
    )


def rows_of(of_all: Sequence[np.ndarray], shard: Shard) -> np.ndarray:
    """The rows of a shard of a table; row r of the table is `of_all[r % count][r // count]`."""
    count = len(of_all)
    rows = np.arange(shard.index, sum(map(len, of_all)), shard.count)
    found = np.empty((len(rows), *of_all[0].shape[1:]), of_all[0].dtype)
    for i, array in enumerate(of_all):
        here = rows % count == i
        found[here] = array[rows[here] // count]
    return found


def filter_of(name: str, chains: Sequence[Sequence[Link]]) -> np.ndarray:
    """The counters of a table's Bloom filter: the largest over the workers, because a counter belongs to keys of several
    workers.
    """
    return functools.reduce(np.maximum, (chain[-1].tables[name].filter[:] for chain in chains))


def _wanted(state: TableState, optimizer) -> TableState:
    return state if optimizer else replace(state, slots={})


def _fill(stage: Stage, name: str, saved_as: str, chains: Sequence[Sequence[Link]], shard: Shard, optimizer) -> None:
    """Puts this process's part of a table into its stage."""
    last, filters = chains[-1][-1], filter_of(saved_as, chains)
    for link in itertools.chain(*chains):
        state = replace(_wanted(link.tables[saved_as], optimizer), filter=filters if link is last else filters[:0])
        fill(stage, state, f"{link.path}: table {name}", link.save, (shard.index, shard.count))


def _lost(passed_over: Sequence[PassedOver], save: Save) -> str:
    newest = max(passed_over, key=lambda passed: passed.step, default=None)
    if newest is None or newest.step <= save.step:
        return ""
    batches = "" if newest.position is None else f", and from batch {newest.position:,} to batch {save.position:,}"
    return f"Went back from step {newest.step:,} to step {save.step:,}{batches}: what was trained between is lost."
