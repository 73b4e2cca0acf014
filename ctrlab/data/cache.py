"""Train and test files of a data set, made once: generated or converted on the first call, found on the next ones.

A folder of the cache is written under another name and renamed when it is whole, so a run that is broken off, or two at once,
leave nothing half-made. Its manifest says what it was made from; where that has changed it is made again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from filelock import FileLock

from ctrlab import imports, profiles
from ctrlab.data import make, sets
from ctrlab.data.engine import Engine
from ctrlab.data.outputs import clear_errors
from ctrlab.data.reader import read, read_dealt
from ctrlab.data.source import FORMATS
from ctrlab.errors import CtrlabError, choose
from ctrlab.optimizations import resolve
from ctrlab.paths import cache_folder
from ctrlab.schema import Schema

if TYPE_CHECKING:
    import tensorflow as tf

    from ctrlab.data.dealing import Dealing

MANIFEST = "manifest.json"
SEED = 0


@dataclass(frozen=True)
class DataFiles:
    """A data set on disk.

    Attributes:
        train, test: files of one format, to be read in this order.
        rows, test_rows: how many rows they hold.
        ceiling: AUC by label of the planted model, None for real data.
        rejected: number of raw rows that broke a rule of this set; they lie in `rejects` with file, line and reason.
        made_of: a digest of what the rows were made from: code, figures or raw files, and their number.
    """

    name: str
    schema: Schema
    train: tuple[Path, ...]
    test: tuple[Path, ...]
    format: str
    rows: int
    test_rows: int
    ceiling: dict[str, float] | None
    made_of: str = ""
    rejected: int = 0
    rejects: Path | None = None

    def read_train(self, batch_size: int, **options) -> tf.data.Dataset:
        """Batches of the train rows; options as in `read`."""
        return read(self.train, self.schema, batch_size=batch_size, format=self.format, **options)

    def read_train_dealt(self, dealing: Dealing, worker: int, **options) -> tf.data.Dataset:
        """A worker's batches of the train rows; options as in `read_dealt`."""
        return read_dealt(self.train, self.schema, dealing, worker, **options)

    def read_test_dealt(self, dealing: Dealing, worker: int, **options) -> tf.data.Dataset:
        """A worker's batches of the held-out rows; options as in `read_dealt`."""
        return read_dealt(self.test, self.schema, dealing, worker, **options)

    def read_test(self, batch_size: int, **options) -> tf.data.Dataset:
        """Batches of the held-out rows; options as in `read`."""
        return read(self.test, self.schema, batch_size=batch_size, format=self.format, **options)


def prepare(
    name: str,
    *,
    profile: str | profiles.Profile | None = None,
    source: Literal["generated", "real"] = "generated",
    format: str = "parquet",
    encoded_for: Schema | None = None,
    progress: bool = True,
    engine: Engine = map,
) -> DataFiles:
    """Makes the files of a data set in the cache folder, or finds them there.

    Generated data are a stream of rows. The first rows are for training; the next ones, a fifth as many, are held out, so that
    effects which drift with time have drifted. Real data are converted whole from the folder to which `CTRLAB_REAL_DATA` points
    (see data/README.md).

    Args:
        profile: how many rows are generated; a name, or else `CTRLAB_PROFILE`'s. Real data are always whole.
        format: "csv", "tfrecord", "tfrecord.gz" or "parquet".
        encoded_for: a model's schema; the files then hold the ids of its tables in place of words (see `ctrlab.data.encode`).
        engine: generates or converts; `ctrlab.data.ray_engine` has one of many processes. The files are the same.
    Raises:
        UnknownName: no such data set, profile, source or format.
        CtrlabError: there are no real data, or the cache can't be written.
    """
    schema = sets.schema(name)
    choose("source of data", source, ("generated", "real"))
    choose("format", format, FORMATS)
    if source == "real":
        label, recipe = "real", _real_recipe(schema)
        parquet = functools.partial(make.converted, name, recipe["root"])
    else:
        profile = profile if isinstance(profile, profiles.Profile) else profiles.current(profile)
        label, recipe = profile.name, _generated_recipe(schema, profile.rows)
        parquet = functools.partial(make.generated, name, profile.rows, SEED)
    folder = cache_folder() / f"{name}-{label}"
    folder = folder / format
    if encoded_for:
        schema = encoded_for.encoded()
        recipe = recipe | {"encoded": schema.to_config()}
        digest = hashlib.sha256(json.dumps(recipe["encoded"]).encode()).hexdigest()
        folder = folder.with_name(f"{format}-encoded-{digest[:8]}")  # models differ in the sizes of their tables
    if format == "parquet" and not encoded_for:
        manifest = _made(folder, recipe, lambda out: parquet(out, progress, engine))
        rejects = folder / "train.parquet.rejects.tsv" if manifest["rejected"] else None
    else:
        files = prepare(name, profile=profile, source=source, progress=progress, engine=engine)
        manifest = _made(folder, recipe, lambda out: _copy(files, format, encoded_for, out, progress))
        rejects = files.rejects
    train, test = ((folder / f"{part}{FORMATS[format][0]}",) for part in ("train", "test"))
    made_of = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]
    figures = (manifest[name] for name in ("rows", "test_rows", "ceiling"))
    return DataFiles(name, schema, train, test, format, *figures, made_of, manifest["rejected"], rejects)


def prepare_for(schema: Schema, optimizations: str | Iterable[str] = "none", *, format: str = "csv", **options) -> DataFiles:
    """The files that a model of `schema` trains on, in the form that the rungs of level "input" select; options as in `prepare`.

    Args:
        format: if no rung selects another; CSV is what the original models read.
    """
    rungs = resolve(optimizations, level="input")
    encoded_for = schema if "encoded" in rungs else None
    return prepare(schema.name, format="parquet" if "parquet" in rungs else format, encoded_for=encoded_for, **options)


def _generated_recipe(schema: Schema, rows: int) -> dict:
    return {"source": "generated", "rows": rows, "seed": SEED, "schema": schema.to_config(), "code": fingerprint(schema.name)}


def _real_recipe(schema: Schema) -> dict:
    root = os.environ.get("CTRLAB_REAL_DATA")
    if not root:
        raise CtrlabError(
            f"Real {schema.name} data are needed: set CTRLAB_REAL_DATA to the folder that they were downloaded to; "
            "data/README.md says where they are had and how the folder is laid out."
        )
    if not Path(root).is_dir():
        raise CtrlabError(f"CTRLAB_REAL_DATA must name a folder; {root} is not one.")
    folders = {pattern.split("/")[0] for layout in sets.RAWS[schema.name].layouts for pattern in layout.patterns}
    files = sorted(path for folder in folders for path in Path(root, folder).glob("*"))
    found = [[path.name, about.st_size, about.st_mtime_ns, about.st_ctime_ns] for path in files for about in [path.stat()]]
    code = fingerprint(schema.name)
    return {"source": "real", "root": str(Path(root).resolve()), "files": found, "schema": schema.to_config(), "code": code}


def fingerprint(name: str, root: Path = imports.PACKAGE) -> str:
    """A digest of the code and figures that make the rows of a data set. If it changes, the rows may change too.

    It covers the data set's module, `make`, all modules of ctrlab that these use, and the set's statistics.

    Args:
        root: the folder of the package.
    """
    known = imports.modules(root)
    code = [known[module] for module in imports.used(make.__name__, f"{sets.__name__}.{name}", known=known)]
    digest = hashlib.sha256()
    for path in (*code, root / "data" / "statistics" / f"{name}.json"):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _made(folder: Path, recipe: dict, make: Callable[[Path], dict]) -> dict:
    """The manifest of a folder of the cache. `make` fills the folder if it is missing or was made from another recipe."""
    recipe = json.loads(json.dumps(recipe))  # as it comes back: lists for tuples
    if (manifest := _manifest(folder, recipe)) is not None:
        return manifest
    with clear_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        # One process at a time. The system takes the lock from one that is killed; a soft lock would outlive it.
        with FileLock(folder.with_name(f".{folder.name}.lock"), fallback_to_soft=False):
            if (manifest := _manifest(folder, recipe)) is None:  # else another process has made it meanwhile
                manifest = _make_folder(folder, recipe, make)
    return manifest


def _make_folder(folder: Path, recipe: dict, make: Callable[[Path], dict]) -> dict:
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as partial:
        manifest = {"recipe": recipe} | make(Path(partial))
        Path(partial, MANIFEST).write_text(json.dumps(manifest, indent=1))
        shutil.rmtree(folder, ignore_errors=True)  # of another recipe
        # Not the temporary folder itself: its permissions are for one user only.
        folder.mkdir()
        for path in sorted(Path(partial).iterdir(), key=lambda path: path.name == MANIFEST):  # the manifest last: it says "whole"
            path.rename(folder / path.name)
    return manifest


def _manifest(folder: Path, recipe: dict) -> dict | None:
    """A folder's manifest, written when it was made; None if the folder is missing, incomplete or made from another recipe."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        return None
    return manifest if manifest.get("recipe") == recipe else None


def _copy(files: DataFiles, format: str, encoded_for: Schema | None, out: Path, progress: bool) -> dict:
    """Copies the Parquet files to another format, or encodes them."""
    parts = {path: rows for paths, rows in ((files.train, files.rows), (files.test, files.test_rows)) for path in paths}
    make.copied(parts, encoded_for or files.schema, format, bool(encoded_for), out, progress)
    return {"rows": files.rows, "test_rows": files.test_rows, "ceiling": files.ceiling, "rejected": files.rejected}
