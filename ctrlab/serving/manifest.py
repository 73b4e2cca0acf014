"""The manifest of a version folder, the file ctrlab.json: its columns, its model, its origin and its files.

It has the checksums of all other files, and ends with its own. A server checks all of them before it loads a version
(native/processor/verified.h). A manifest of format 1, which earlier versions of this package wrote, has none of its own: it is
read as it is, and the other files are checked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ctrlab.errors import BadData, unreadable
from ctrlab.plain import Plain
from ctrlab.serving.inputs import Input

NAME = "ctrlab.json"
FORMAT = 2
UNSEALED = 1
"""The format of manifests without a checksum of their own."""
PIECE = 8 << 20  # bytes per read
SEAL = re.compile(r',\n "sha256": "([0-9a-f]{64})"\n}\n\Z')
"""The end of a manifest: the checksum of all bytes before it."""


@dataclass(frozen=True)
class File(Plain):
    """A file's size and content."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> File:
        digest, size = hashlib.sha256(), 0
        try:
            with path.open("rb") as file:
                while piece := file.read(PIECE):
                    digest.update(piece)
                    size += len(piece)
        except OSError as error:
            raise unreadable(str(path), error) from None
        return cls(size, digest.hexdigest())


@dataclass(frozen=True)
class Manifest(Plain):
    """The description of an export in its file ctrlab.json.

    Attributes:
        format: the manifest's own version.
        model: a description from which the model is made again: see `ctrlab.models.saving`.
        optimizations: rungs of level "model" in the graph; none for stock ops.
        inputs: the columns of a request.
        tasks: the columns of the output "probabilities", float32 [B, K]; of an own model those of its outputs.
        rows_apart: whether the answer for a row does not depend on the other rows of a request.
        trained: settings of the training run.
        step: number of the optimizer's steps; 0 if a model was exported without its checkpoint.
        position: number of batches read, if a checkpoint was exported. Otherwise 0, because a publisher sees steps, not the
            batches that were read.
        versions: versions of the packages that wrote it.
        warm_up: the answers to the warm-up requests, in their order: [requests][examples][K], K the values of a row of all
            outputs, in the order of their names.
        files: all other files of the folder, by path.
    """

    format: int
    model: dict
    optimizations: tuple[str, ...]
    inputs: tuple[Input, ...]
    tasks: tuple[str, ...]
    rows_apart: bool
    trained: dict[str, str]
    step: int
    position: int
    versions: dict[str, str]
    warm_up: list[list[list[float]]] = field(default_factory=list)
    files: dict[str, File] = field(default_factory=dict)


def files_in(folder: Path) -> dict[str, File]:
    """Every file below a folder except its manifest, by its path relative to the folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / NAME)
    return {path.relative_to(folder).as_posix(): File.of(path) for path in found}


def sealed(plain: Mapping) -> str:
    """The text of a manifest, given its fields, with its checksum."""
    text = json.dumps(plain, indent=1).removesuffix("\n}")
    return f'{text},\n "sha256": "{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n'


def read_manifest(folder: Path) -> Manifest:
    """Raises BadData if the folder has no manifest of this version, or a damaged one."""
    path = Path(folder) / NAME
    try:
        text = path.read_bytes().decode("utf-8")
        plain = json.loads(text)
    except OSError as error:
        raise unreadable(str(path), error) from None
    except (ValueError, RecursionError) as error:
        raise BadData(f"{path} must be the manifest of an exported model; it is not JSON: {error}.") from None
    if isinstance(plain, dict):
        format, seal = plain.get("format"), SEAL.search(text)
        if format not in (UNSEALED, FORMAT):
            raise BadData(f"{path} is of format {format!r}; this ctrlab reads format {FORMAT}: export the model again.")
        if seal or format != UNSEALED:
            if not seal or hashlib.sha256(text[: seal.start()].encode()).hexdigest() != seal[1]:
                raise BadData(f"A version is served as it was exported; {path} is not what was exported: export the model again.")
            del plain["sha256"]
    try:
        return Manifest.from_json(plain)
    except BadData as error:
        raise BadData(f"{path}: {error}") from None


def verify(folder: Path) -> Manifest:
    """Checks that all files of a version folder are as they were written, and returns its manifest.

    Raises:
        BadData: a file is missing or damaged, or is not listed in the manifest.
    """
    manifest, found = read_manifest(folder), files_in(Path(folder))
    for name in sorted(manifest.files.keys() | found.keys()):
        said, there = manifest.files.get(name), found.get(name)
        if said != there:
            problem = "is missing" if there is None else "is not in its manifest" if said is None else "is not what was exported"
            cure = "take it away, or export the model again" if said is None else "export the model again"
            raise BadData(f"A version is served as it was exported; {Path(folder) / name} {problem}: {cure}.")
    return manifest
