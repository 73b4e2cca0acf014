"""The files of a run's checkpoints: the metadata in each, the save that each follows, and which may be deleted.

    folder/latest.json                         {"file": "step-000000300.delta.safetensors", "step": 300, "position": 300}
    folder/step-000000100.safetensors          a full save
    folder/step-000000200.delta.safetensors    all other weights, but of embedding tables only what changed since step 100
    folder/step-000000300.delta.safetensors    the same, since step 200

Each save has a random id. A delta records the id of its full save and of the save before it. So a delta that is missing, out
of order or from another chain is noticed, whatever the file names are. The metadata:

    format, step, position, run    the format's version, the optimizer's step, batches read, settings that must not change (JSON)
    model                          how one of the six models is made again (JSON); {} for any other model
    id, base, previous, number     ids of this save, of its full save (itself if full) and of the save before; number of deltas
                                   since the full save. Merged deltas have the id and number of the last one
"""

from __future__ import annotations

import itertools
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ctrlab.embedding.formats.partition import require_alike
from ctrlab.embedding.formats.table_arrays import PREFIX, apply_delta, from_arrays, merge_deltas, whole
from ctrlab.embedding.formats.tensor_file import Stored, TensorFile, read_metadata
from ctrlab.embedding.table_state import TableState
from ctrlab.errors import BadData, CtrlabError, unreadable

FORMAT = "ctrlab checkpoint {}"
VERSION = 2
POINTER = "latest.json"
OF_WORKERS = "workers.json"
"""File name of the manifest of several workers' saves, which lie in folders beside it: see `ctrlab.distributed.checkpoints`."""
PATTERN = re.compile(r"step-(\d{9,19})(\.delta)?\.safetensors")
ATTEMPTS = 10
"""How often a folder is read again, if a run deletes listed files before they are opened."""
Use = TypeVar("Use")


@dataclass(frozen=True)
class Save:
    """The metadata of a checkpoint file."""

    step: int
    position: int
    run: dict[str, str]
    id: str
    base: str
    previous: str = ""
    number: int = 0
    model: dict = field(default_factory=dict)

    @classmethod
    def full(cls, step: int, position: int, run: Mapping[str, str], model: Mapping | None = None) -> Save:
        id = secrets.token_hex(8)
        return cls(step, position, dict(run), id, base=id, model=dict(model or {}))

    def delta(self, step: int, position: int) -> Save:
        """The delta that follows this save."""
        return Save(step, position, self.run, secrets.token_hex(8), self.base, self.id, self.number + 1, self.model)

    @property
    def name(self) -> str:
        return f"step-{self.step:09d}{'.delta' if self.number else ''}.safetensors"

    def to_metadata(self) -> dict[str, str]:
        facts = {name: str(getattr(self, name)) for name in ("step", "position", "id", "base", "previous", "number")}
        texts = {name: json.dumps(getattr(self, name), sort_keys=True) for name in ("run", "model")}
        return {"format": FORMAT.format(VERSION)} | texts | facts

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str], path: Path) -> Save:
        """Raises BadData if the file is not a checkpoint of this version."""
        written = re.fullmatch(FORMAT.format(r"(\d{1,9})"), metadata.get("format", ""))
        if written and int(written[1]) > VERSION:
            raise BadData(f"{path} is of format {written[1]}, and this ctrlab knows none after {VERSION}: update it.")
        if not written or int(written[1]) < VERSION:
            raise BadData(f"{path} holds tensors, but is no checkpoint of this version ({FORMAT.format(VERSION)!r}).")
        try:
            numbers = {name: int(metadata[name]) for name in ("step", "position", "number")}
            texts = {name: metadata[name] for name in ("id", "base", "previous")}
            run, model = json.loads(metadata["run"]), json.loads(metadata.get("model", "{}"))  # earlier saves don't have it
        except (KeyError, ValueError, RecursionError) as problem:
            raise BadData(f"{path} is a checkpoint that does not say what it is: {problem}.") from None
        objects = {"run": run, "model": model}
        odd = [name for name, number in numbers.items() if not 0 <= number < 1 << 63]
        if odd := odd or [name for name, found in objects.items() if type(found) is not dict]:
            rule = "numbers must be in [0, 2^63), and run and model objects"
            raise BadData(
                f"{path} is a checkpoint that does not say what it is: {rule}; its {odd[0]} is {metadata[odd[0]][:30]}."
            )
        return cls(**numbers, **texts, **objects)


@dataclass(frozen=True)
class Link:
    """One file of a chain. It has been read once and is intact; its arrays are still on disk."""

    path: Path
    save: Save
    tables: dict[str, TableState]
    others: dict[str, Stored]

    @classmethod
    def open(cls, path: Path) -> Link:
        """Raises BadData if the file is missing, damaged, or not a checkpoint of this version."""
        file = TensorFile(path)
        others = {name: array for name, array in file.items() if not name.startswith(PREFIX)}
        return cls(path, Save.from_metadata(file.metadata, path), from_arrays(file, str(path)), others)


@dataclass(frozen=True)
class PassedOver:
    """A save that can't be used: the reason, its step, and the batches read until then, if known."""

    problem: str
    step: int
    position: int | None


def paths_in(folder: Path) -> list[tuple[int, Path]]:
    """(step, file) of the saves in a folder, oldest first. For equal steps the full save comes last.

    Raises:
        BadData: there is no such folder. CtrlabError: the folder can't be opened now.
    """
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise unreadable(f"Folder {folder}", error) from None
    found = [(match, folder / name) for name in names if (match := PATTERN.fullmatch(name))]
    return [(int(m[1]), path) for m, path in sorted(found, key=lambda entry: (int(entry[0][1]), not entry[0][2]))]


def files_in(folder: Path) -> dict[int, Path]:
    """{step: file} of `paths_in`, oldest first."""
    return dict(paths_in(folder))


def newest_first(folder: Path, named: Path | None = None) -> list[Path]:
    """The file `named`, then the others, newest first."""
    return sorted((path for _, path in reversed(paths_in(folder))), key=lambda path: path != named)


def _pointer(folder: Path) -> tuple[Path | None, int | None]:
    """The file that latest.json names, and the number of batches read until then; None for each that it does not contain."""
    try:
        said = json.loads((folder / POINTER).read_text() if (folder / POINTER).is_file() else "")  # a pipe would block
        named, position = said["file"], said.get("position")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, None
    known = isinstance(named, str) and PATTERN.fullmatch(named)
    return (folder / named if known else None), (position if type(position) is int else None)


def places_of(paths: Sequence[Path]) -> dict[str, Path]:
    """{id: file} of the files whose metadata have an id."""
    places = {}
    for path in paths:
        try:
            places[Save.from_metadata(read_metadata(path), path).id] = path
        except BadData:
            continue
    return places


def is_there(folder: Path, save: Save) -> bool:
    """Whether the folder has a save and all saves that it builds on, by their ids. Only the files' metadata are read."""
    try:
        places = places_of([path for _, path in paths_in(folder)])
        while save.number and save.id in places:
            before = places[save.previous]
            save = Save.from_metadata(read_metadata(before), before)
    except (CtrlabError, KeyError):
        return False
    return save.id in places


def open_save(path: Path, places: Mapping[str, Path], open_link: Callable[[Path], Link] = Link.open) -> list[Link]:
    """The chain of a save: its full save and all deltas up to this one.

    Args:
        places: {id: file} of the saves that may belong to the chain.
    Raises:
        BadData: this save, or one that it builds on, is missing, damaged, or from another chain or model.
    """
    links = [open_link(path)]
    while (save := links[0].save).number:
        if save.previous not in places:
            raise BadData(
                f"{path} can't be used: {links[0].path.name} is delta {save.number} of full save {save.base} and follows save "
                f"{save.previous}, which is missing."
            )
        try:
            links.insert(0, open_link(places[save.previous]))
        except BadData as problem:
            raise BadData(f"{path} can't be used without the saves before it: {problem}") from None
        check_chain([(link.path.name, link.save) for link in links], begins_full=False)
    require_same_tables(links)
    return links


def require_same_tables(links: Sequence[Link]) -> None:
    """Raises BadData if the files are not of one model's tables."""
    first = links[0]
    for link in links[1:]:
        if link.tables.keys() != first.tables.keys():
            raise BadData(f"{link.path} has the tables {sorted(link.tables)}, and {first.path} {sorted(first.tables)}.")
        for name, state in link.tables.items():
            require_alike(first.tables[name], state, f"Table {name} of {first.path}", f"that of {link.path}")


def tables_in(links: Sequence[Link]) -> dict[str, TableState]:
    """The embedding tables of a chain, merged in memory."""
    tables = {}
    for name in links[0].tables:
        full, *deltas = (whole(link.tables[name]) for link in links)
        tables[name] = apply_delta(full, merge_deltas(deltas)) if deltas else full
    return tables


def last_whole(folder: Path, use: Callable[[list[Link]], Use]) -> tuple[list[Link], Use, tuple[PassedOver, ...]]:
    """Finds the last save in a folder that `use` accepts: its chain, what `use` returned, and the later saves it passed over.

    All files of a chain stay open until `use` returns. A run may save into the folder meanwhile. If it deletes a file before this
    function opens it, the search starts again.

    Args:
        use: called with the chain of a complete save; raises BadData if it can't use it.
    Raises:
        BadData: no save is usable, or the run deletes saves too fast. CtrlabError: a file can't be opened now; the folder holds
            the saves of several workers.
    """
    if (folder / OF_WORKERS).exists():
        raise CtrlabError(
            f"Folder {folder} holds checkpoints of several workers, each with a shard of the tables: make one of them by "
            f"`ctrlab checkpoints merge {folder} merged`, and take that folder."
        )
    found = ""
    for _ in range(ATTEMPTS):
        try:
            return _last_whole(folder, use)
        except _FileVanished as others:
            found = f" The last time: {others}" if str(others) else ""
    raise BadData(
        f"A folder's saves must stay until they are opened; {ATTEMPTS} times one that was listed in {folder} was gone before: "
        "a run saves into it and deletes saves faster than they are read. Keep more of them, or read it once the run has ended."
        f"{found}"
    )


class _FileVanished(Exception):
    """A listed file no longer exists. It carries the problems of the files that were opened before."""


def _last_whole(folder: Path, use: Callable[[list[Link]], Use]) -> tuple[list[Link], Use, tuple[PassedOver, ...]]:
    passed_over: list[PassedOver] = []
    opened: dict[Path, Link | BadData] = {}

    def open_once(path: Path) -> Link:
        if path not in opened:
            try:
                opened[path] = Link.open(path)
            except BadData as problem:
                opened[path] = problem
        if isinstance(opened[path], BadData):
            raise opened[path]
        return opened[path]

    named, position = _pointer(folder)
    paths = newest_first(folder, named)
    if named and named not in paths:
        if _pointer(folder)[0] != named:
            raise _FileVanished
        step = int(PATTERN.fullmatch(named.name)[1])
        passed_over.append(PassedOver(f"{named} is missing, although {POINTER} names it.", step, position))
    places = places_of(paths)
    for path in paths:
        try:
            try:
                links = open_save(path, places, open_once)
            except BadData:
                if not all(map(os.path.lexists, paths)):
                    raise _FileVanished(_problems(passed_over)) from None
                raise
            return links, use(links), tuple(passed_over)
        except BadData as problem:
            batches = position if path == named else _position(path)
            passed_over.append(PassedOver(str(problem), int(PATTERN.fullmatch(path.name)[1]), batches))
    raise BadData(f"Folder {folder} has no whole checkpoint. {_problems(passed_over) or 'It has none.'}")


def _problems(passed_over: Sequence[PassedOver]) -> str:
    return " ".join(passed.problem for passed in passed_over)


def _position(path: Path) -> int | None:
    try:
        return Save.from_metadata(read_metadata(path), path).position
    except BadData:
        return None


def check_chain(saves: Sequence[tuple[str, Save]], begins_full: bool = True) -> None:
    """Checks that named saves, in this order, are a full save and its deltas.

    Raises:
        BadData: names the save that is missing, out of order or from another chain.
    """
    name, first = saves[0]
    if begins_full and first.number:
        raise BadData(f"A chain begins with a full save; {name} is delta {first.number} of full save {first.base}.")
    for (name_before, before), (name, save) in itertools.pairwise(saves):
        if save.base != before.base or not save.number:
            raise BadData(f"{name} is foreign: its full save is {save.base}, and that of {name_before} is {before.base}.")
        if save.previous != before.id or save.number <= before.number:
            follows = next((n for n, s in saves if s.id == save.previous), None)
            place = f"comes after {name_before}" if follows else f"it is missing: before comes {name_before}, save {before.id}"
            raise BadData(f"{name} is delta {save.number} and follows {follows or f'save {save.previous}'}, but {place}.")


def spare(folder: Path, newest: Path, keep: int) -> list[Path]:
    """The files that neither the `keep` newest saves up to `newest` nor their chains need, latest first.

    These include files of the same or later steps: an earlier run wrote them and was resumed from an older save.
    """
    found = paths_in(folder)
    step = next(step for step, path in found if path == newest)
    earlier = [path for s, path in found if s < step]
    kept = [newest, *earlier[::-1][: keep - 1]]
    places = places_of(earlier)
    needed = set(kept)
    for path in kept:
        while path := _followed(path, places):
            if path in needed:
                break
            needed.add(path)
    return [path for _, path in reversed(found) if path not in needed]


def _followed(path: Path, places: Mapping[str, Path]) -> Path | None:
    try:
        return places.get(Save.from_metadata(read_metadata(path), path).previous)
    except BadData:
        return None
