"""Splits checkpoints into shards for many workers, joins shards for another number of workers, and merges chains into one file.

    folder/step-000000300.shard-00000-of-00004.safetensors    keys with hash_keys(key) mod 4 == 0, and all other weights

Everything here works on files, without a model and without training. The shards of a save carry its id, so shards of two
saves can't be mixed. A single shard (1 of 1) is an ordinary full save, which `restore` takes.

Files are processed in parts of some megabytes. The embedding engine merges chains: a table with storage beside the result
takes one file after the other, so only its index is in memory (`ctrlab.embedding.formats.merging`).
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ctrlab.embedding.formats import partition
from ctrlab.embedding.formats.folder_lock import take
from ctrlab.embedding.formats.saves import (
    Link,
    Save,
    check_chain,
    last_whole,
    newest_first,
    open_save,
    places_of,
    require_same_tables,
    tables_in,
)
from ctrlab.embedding.formats.table_arrays import Sizes, checked, shapes_of, to_arrays, whole
from ctrlab.embedding.formats.tensor_file import read_metadata, writing
from ctrlab.embedding.initial_values import hash_keys
from ctrlab.embedding.table_state import TableState
from ctrlab.errors import BadData, CtrlabError

SHARD = "step-{:09d}.shard-{:05d}-of-{:05d}.safetensors"
MOST_SHARDS = 99_999
"""The largest number of shards that fits the digits in a file name."""


def merge_chain(folder: Path, out: Path) -> Path:
    """Merges the last complete save of a folder, with its chain, into one full save in the folder `out`.

    Raises:
        BadData: there is no complete save. CtrlabError: `out` is the folder itself (the merged save has a new id, so later deltas
            of the folder would lose their base), or another run or merge writes into `out`. OSError: the disk refuses.
    """
    from ctrlab.embedding.formats.merging import merge  # imports TensorFlow, which resharding does not need

    if out.resolve() == folder.resolve():
        raise CtrlabError(f"A chain is merged into another folder, for what follows it needs it as it is; received {out} twice.")

    def write(links: list[Link]) -> Path:
        last = links[-1].save
        return merge(links, Save.full(last.step, last.position, last.run, last.model), out)

    return last_whole(folder, write)[1]


def merge_delta_files(paths: Sequence[Path], out: Path) -> Path:
    """Merges consecutive deltas into one delta in the folder `out`. It takes a full save from before the first to the last.

    Raises:
        BadData: they are not deltas, or not consecutive. CtrlabError: another run or merge writes into `out`.
            OSError: the disk refuses.
    """
    from ctrlab.embedding.formats.merging import merge

    links = [Link.open(path) for path in paths]
    if not links:
        raise BadData("There must be at least one delta to merge; received none.")
    check_chain([(link.path.name, link.save) for link in links], begins_full=False)
    if full := [link.path for link in links if not link.save.number]:
        raise BadData(f"Only deltas are merged into one; {full[0]} is a full save.")
    require_same_tables(links)
    first, last = links[0].save, links[-1].save
    return merge(links, replace(last, base=first.base, previous=first.previous), out)


def reshard(paths: Sequence[Path], count: int, out: Path) -> list[Path]:
    """Splits a full save, whole or sharded, into `count` shards in the folder `out`. All shards are open at the same time.

    Raises:
        BadData: the files are not all shards of one save. CtrlabError: a count outside [1, 99,999]; another run or merge writes
            into `out`. OSError: the disk refuses, or the system refuses that many open files.
    """
    if not 1 <= count <= MOST_SHARDS:
        raise CtrlabError(f"A save is cut into 1 to {MOST_SHARDS:,} shards; received {count:,}.")
    links = open_shards(paths)
    save, others = links[0].save, links[0].others
    sizes = {name: _sizes([link.tables[name] for link in links], count) for name in links[0].tables}
    written = [out / (SHARD.format(save.step, j, count) if count > 1 else save.name) for j in range(count)]
    with take(out, SHARD.split(".")[0].format(save.step)), contextlib.ExitStack() as files:
        puts = []
        for j, path in enumerate(written):
            shapes = {name: (array.dtype, array.shape) for name, array in others.items()}
            for name, of_shards in sizes.items():
                shapes |= shapes_of(name, of_shards[j])
            place = {"shard": str(j), "shards": str(count)} if count > 1 else {}
            puts.append(files.enter_context(writing(path, shapes, save.to_metadata() | place)))
        for name, array in others.items():
            for put, piece in itertools.product(puts, array.parts()):
                put(name, piece)
        for name in sizes:
            for part in _parts(links, name):
                for j, put in enumerate(puts):
                    for path, array in to_arrays(name, partition.shard(part, j, count)).items():
                        put(path, array)
    return written


def open_shards(paths: Sequence[Path]) -> list[Link]:
    """Opens all shards of a save, in order.

    Raises:
        BadData: a shard is missing, damaged, given twice, or from another save.
    """
    if not paths:
        raise BadData("A save has at least one shard; received none.")
    links = [Link.open(path) for path in paths]
    places = [_place(read_metadata(path), path) for path in paths]
    count, id = places[0][1], links[0].save.id
    for link, place in zip(links, places):
        if link.save.number:
            raise BadData(f"Full saves are sharded; {link.path} is a delta: merge its chain first.")
        if link.save.id != id or place[1] != count:
            raise BadData(f"{link.path} is of save {link.save.id} in {place[1]} shards, and {paths[0]} of save {id} in {count}.")
    numbers = sorted(j for j, _ in places)
    if odd := sorted({*range(count)} ^ {*numbers}) or [j for j, k in itertools.pairwise(numbers) if j == k]:
        what = "comes twice" if odd[0] in numbers else "is missing"
        raise BadData(f"Save {id} is in {count} shards, numbered from 0; shard {odd[0]} {what}.")
    require_same_tables(links)
    return [link for _, link in sorted(zip(places, links), key=lambda entry: entry[0])]


def read_any(paths: Sequence[Path]) -> tuple[Save, dict[str, TableState]]:
    """The embedding tables of one save, in memory. `paths` is a folder (its last complete save), one save (a delta's chain is
    beside it), or all shards of a save.

    Raises:
        BadData: there is no such save, it is damaged or incomplete, or it has no embedding tables.
    """
    if len(paths) == 1 and paths[0].is_dir():
        links, tables, _ = last_whole(paths[0], tables_in)
        save = links[-1].save
    elif len(paths) == 1 and Save.from_metadata(read_metadata(paths[0]), paths[0]).number:
        links = open_save(paths[0], places_of(newest_first(paths[0].parent)))
        save, tables = links[-1].save, tables_in(links)
    else:
        links = open_shards(paths)
        save = links[0].save
        tables = {name: partition.join([whole(link.tables[name]) for link in links]) for name in links[0].tables}
    if not tables:
        raise BadData(f"{paths[0]} has no embedding variables; only a model that was built with some has them to look into.")
    return save, tables


def _sizes(states: Sequence[TableState], count: int) -> list[Sizes]:
    """For each of `count` shards, how much of a table it will hold."""

    def of_shards(arrays) -> list[int]:
        found = np.zeros(count, np.int64)
        for keys in itertools.chain.from_iterable(array.parts() for array in arrays):
            found += np.bincount((hash_keys(keys) % np.uint64(count)).astype(np.int64), minlength=count)
        return found.tolist()

    rows, candidates = of_shards([s.keys for s in states]), of_shards([s.candidate_keys for s in states])
    return [Sizes(states[0].dim, n, m, len(states[0].filter), 0, tuple(states[0].slots)) for n, m in zip(rows, candidates)]


def _parts(links: Sequence[Link], name: str) -> Iterator[TableState]:
    """The parts of a sharded table. The larger of the Bloom filters' counters is kept, as in `partition.join`."""
    filter, count = np.maximum.reduce([link.tables[name].filter[:] for link in links]), np.uint64(len(links))
    for j, link in enumerate(links):
        for part in checked(link.tables[name], f"{link.path}: table {name}"):
            keys = np.concatenate([part.keys, part.candidate_keys])
            if (odd := keys[hash_keys(keys) % count != j]).size:
                raise BadData(f"{link.path} is shard {j} of {count}; key {odd[0]} of its table {name} is of another.")
            part.filter, filter = filter, filter[:0]
            yield part


def _place(metadata: dict[str, str], path: Path) -> tuple[int, int]:
    said = metadata.get("shard", "0"), metadata.get("shards", "1")
    if all(re.fullmatch(r"\d{1,5}", number) for number in said) and int(said[0]) < int(said[1]):
        return int(said[0]), int(said[1])
    raise BadData(f"{path} does not say which of up to {MOST_SHARDS:,} shards it is: {said[0][:30]} of {said[1][:30]}.")
