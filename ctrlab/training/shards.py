"""Checkpoints cut into the shards of many workers and put together for another number of them; chains merged into one file.

    folder/step-000000300.shard-00000-of-00004.safetensors    keys with hash_keys(key) mod 4 == 0, and everything else whole

All of it works on files: there is no model, and nothing is trained. A save's shards carry its id, so shards of two saves are not
mixed. Of one shard the file is an ordinary full save, which `restore` takes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ctrlab.embedding import shards
from ctrlab.embedding.checkpoint import PREFIX, from_arrays, merge_deltas, to_arrays
from ctrlab.embedding.state import TableState
from ctrlab.errors import BadData, CtrlabError
from ctrlab.tensors import read_metadata, read_tensors, write_tensors
from ctrlab.training.saves import Save, check_chain, newest_first, places_of, read_last, read_save

SHARD = "step-{:09d}.shard-{:05d}-of-{:05d}.safetensors"


def merge_chain(folder: Path, out: Path) -> Path:
    """The last whole save of a folder, put together from its chain and written as one full save into the folder `out`.

    Raises:
        BadData: there is no whole save. CtrlabError: `out` is the folder itself, where the save would have a new id, and what
            follows the old one would be lost. OSError: the disk refuses.
    """
    if out.resolve() == folder.resolve():
        raise CtrlabError(f"A chain is merged into another folder, for what follows it needs it as it is; received {out} twice.")
    _, save, arrays, tables, _ = read_last(folder)
    return _write(Save.full(save.step, save.position, save.run), arrays, tables, out, 0, 1)


def merge_delta_files(paths: Sequence[Path], out: Path) -> Path:
    """Deltas that follow each other as one, in the folder `out`: what a full save needs to get from the first to the last.

    Raises:
        BadData: they are no deltas, or do not follow each other. OSError: the disk refuses.
    """
    read = [(path, *read_tensors(path)) for path in paths]
    saves = [Save.from_metadata(metadata, path) for path, _, metadata in read]
    check_chain([(path.name, save) for path, save in zip(paths, saves)], begins_full=False)
    if full := [path for path, save in zip(paths, saves) if not save.number]:
        raise BadData(f"Only deltas are merged into one; {full[0]} is a full save.")
    found = [from_arrays(arrays, str(path)) for path, arrays, _ in read]
    merged = {name: merge_deltas([tables[name] for tables in found]) for name in found[0]}
    first, last = saves[0], saves[-1]
    save = Save(last.step, last.position, last.run, last.id, first.base, first.previous, last.number)
    return _write(save, _others(read[-1][1]), merged, out, 0, 1)


def reshard(paths: Sequence[Path], count: int, out: Path) -> list[Path]:
    """A full save, whole or in any number of shards, as `count` shards in the folder `out`.

    Raises:
        BadData: the files are not all shards of one save. CtrlabError: a count below 1. OSError: the disk refuses.
    """
    if count < 1:
        raise CtrlabError(f"A save is cut into at least 1 shard; received {count}.")
    save, arrays, tables = read_shards(paths)
    cut = [{name: shards.shard(state, j, count) for name, state in tables.items()} for j in range(count)]
    return [_write(save, arrays, part, out, j, count) for j, part in enumerate(cut)]


def read_shards(paths: Sequence[Path]) -> tuple[Save, dict[str, np.ndarray], dict[str, TableState]]:
    """What a save's shards say of it, what is not sharded, and the tables put together.

    Raises:
        BadData: a shard is missing, damaged, comes twice or is of another save.
    """
    if not paths:
        raise BadData("A save has at least one shard; received none.")
    read = [(path, *read_tensors(path)) for path in paths]
    saves = [Save.from_metadata(metadata, path) for path, _, metadata in read]
    places = [_place(metadata, path) for path, _, metadata in read]
    count = places[0][1]
    for path, save, place in zip(paths, saves, places):
        if save.number:
            raise BadData(f"Full saves are sharded; {path} is a delta: merge its chain first.")
        if save.id != saves[0].id or place[1] != count:
            raise BadData(f"{path} is of save {save.id} in {place[1]} shards, and {paths[0]} of save {saves[0].id} in {count}.")
    numbers = sorted(j for j, _ in places)
    if odd := sorted({*range(count)} ^ {*numbers}) or [j for j, k in itertools.pairwise(numbers) if j == k]:
        what = "comes twice" if odd[0] in numbers else "is missing"
        raise BadData(f"Save {saves[0].id} is in {count} shards, numbered from 0; shard {odd[0]} {what}.")
    found = [from_arrays(arrays, str(path)) for path, arrays, _ in read]
    tables = {name: shards.join([tables[name] for tables in found]) if count > 1 else found[0][name] for name in found[0]}
    return saves[0], _others(read[0][1]), tables


def read_any(paths: Sequence[Path]) -> tuple[Save, dict[str, TableState]]:
    """The embedding tables of a folder's last whole save, of one save (a delta's chain lies beside it), or of all shards of one.

    Raises:
        BadData: there is none, it is damaged or not whole, or has no embedding tables.
    """
    if len(paths) == 1 and paths[0].is_dir():
        _, save, _, tables, _ = read_last(paths[0])
    elif len(paths) == 1 and Save.from_metadata(read_metadata(paths[0]), paths[0]).number:
        save, _, tables = read_save(paths[0], places_of(newest_first(paths[0].parent)))
    else:
        save, _, tables = read_shards(paths)
    if not tables:
        raise BadData(f"{paths[0]} has no embedding variables; only a model that was built with some has them to look into.")
    return save, tables


def _place(metadata: dict[str, str], path: Path) -> tuple[int, int]:
    try:
        return int(metadata.get("shard", "0")), int(metadata.get("shards", "1"))
    except ValueError:
        raise BadData(f"{path} does not say which shard it is: {metadata['shard']} of {metadata['shards']}.") from None


def _others(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in arrays.items() if not name.startswith(PREFIX)}


def _write(save: Save, arrays, tables: dict[str, TableState], out: Path, shard: int, count: int) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    path = out / (SHARD.format(save.step, shard, count) if count > 1 else save.name)
    for name, state in tables.items():
        arrays = arrays | to_arrays(name, state, delta=bool(save.number))
    place = {"shard": str(shard), "shards": str(count)} if count > 1 else {}
    write_tensors(path, arrays, save.to_metadata() | place)
    return path
