"""Converts downloaded raw files to Parquet or another format, streaming, in bounded memory; a failed conversion leaves no output.

A bad row goes to a rejects file with its file, line and reason, and the conversion continues. A bad file stops it with one
sentence. The data set's module in `ctrlab/data/sets` names the code that reads its raw files.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from ctrlab.data import sets
from ctrlab.data.engine import Engine
from ctrlab.data.outputs import Replacement, clear_errors
from ctrlab.data.raw.intake import Counts, Intake
from ctrlab.data.raw.layout import Raw
from ctrlab.data.source import format_of
from ctrlab.data.splitmix import GOLDEN, mix
from ctrlab.data.writer import WRITERS
from ctrlab.errors import BadData, CtrlabError, choose

SEED = 2021


@dataclass(frozen=True)
class Job:
    """Raw files and their output: one file, or train and test, where test gets one row in `held_out`."""

    sources: list[Path]
    outs: list[Path]
    held_out: int = 1


def convert(
    name: str,
    sources: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    progress: bool = True,
    limit: int | None = None,
    engine: Engine = map,
) -> Counts:
    """Converts raw files of a data set to one file with the columns of its schema.

    Rejected rows are written to `<out>.rejects.tsv`: file, line number, reason, the raw line.

    Args:
        name: one of `ctrlab.data.sets.RAWS`, "criteo" for example.
        sources: raw files, plain or gzip, converted one after another. Files in DIN's layout are read with the `_neg` files next
            to them; without those, negatives are drawn.
        out: the file, whose suffix says its format (see `ctrlab.data.write`); replaced only after the whole conversion succeeded.
        progress: show a bar of the bytes read (not without a terminal).
        limit: maximum number of rows to write.
        engine: parses the blocks of the files; `ctrlab.data.ray_engine` has one of many processes. The files come out the same.
    Returns:
        Counts of rows read, written and rejected; the rejected also by violated rule.
    Raises:
        UnknownName: no such data set.
        BadData: a file is missing, empty, truncated or damaged, or most of its rows are not rows of this data set; `out` has the
            suffix of no format.
        CtrlabError: `out` can't be written.

    >>> counts = convert("criteo", "train.txt.gz", "criteo.parquet")  # doctest: +SKIP
    >>> counts.read == counts.written + counts.rejected  # doctest: +SKIP
    True
    """
    choose("raw data set", name, sets.RAWS)
    if limit is not None and limit < 1:
        raise CtrlabError(f"limit must be at least 1 row; received {limit}.")
    sources = [sources] if isinstance(sources, (str, Path)) else sources
    return _convert(name, [Job([Path(s) for s in sources], [Path(out)])], progress=progress, limit=limit, engine=engine)


def convert_real(name: str, root: str | Path, out_dir: str | Path, *, progress: bool = True, engine: Engine = map) -> Counts:
    """Converts real data in one of the set's layouts below `root` to `out_dir`/train.parquet and `out_dir`/test.parquet.

    Uses the first layout for which every pattern has a file. Raises: as `convert`.
    """
    layouts = sets.RAWS[choose("raw data set", name, sets.RAWS)].layouts
    train, test = Path(out_dir) / "train.parquet", Path(out_dir) / "test.parquet"
    for layout in layouts:
        found = {pattern: _found(Path(root), pattern) for pattern in layout.patterns}
        if all(found.values()):
            sources = [file for pattern in layout.train for file in found[pattern]]
            if not layout.test:
                return _convert(name, [Job(sources, [train, test], layout.held_out)], progress=progress, engine=engine)
            tests = [file for pattern in layout.test for file in found[pattern]]
            return _convert(name, [Job(sources, [train]), Job(tests, [test])], progress=progress, engine=engine)
    wanted = ", or ".join(" and ".join(layout.patterns) for layout in layouts)
    raise BadData(f"No raw {name} data in {root}: expected {wanted} (plain or .gz); data/README.md says where they are had.")


def _found(root: Path, pattern: str) -> list[Path]:
    """The files that match a pattern, plain or gzip, sorted by name."""
    return sorted(root.glob(pattern)) or sorted(root.glob(pattern + ".gz"))


def _convert(name: str, jobs: list[Job], *, progress: bool, engine: Engine, limit: int | None = None) -> Counts:
    """Runs all jobs; if one fails, no output is kept. All rejects go to one file, named after the first result."""
    raw = sets.RAWS[name]
    sources = [source for job in jobs for source in job.sources]
    outs = [out for job in jobs for out in job.outs]
    for out in outs:
        if any(out.resolve() == source.resolve() for source in sources):
            raise CtrlabError(f"{out} is one of the raw files; name another file for the result.")
    with clear_errors(outs[0]), ExitStack() as stack:
        rejects = stack.enter_context(Replacement(Path(f"{outs[0]}.rejects.tsv")))
        files = {out: stack.enter_context(WRITERS[format_of(out)](out, raw.schema)) for out in outs}
        intake = stack.enter_context(Intake(name, rejects, sources, progress, engine))
        for job in jobs:
            _write_rows(raw, job, intake, [files[out] for out in job.outs], limit)
        for file in files.values():
            file.keep()
        if intake.counts.rejected:
            rejects.keep()
        else:
            rejects.path.unlink(missing_ok=True)  # from an earlier run
    return intake.counts


def _write_rows(raw: Raw, job: Job, intake: Intake, files: list[Replacement], limit: int | None) -> None:
    """Reads a job's sources once and writes its files."""
    counts, rows = intake.counts, 0
    for table in raw.tables(job.sources, intake, raw.schema):
        intake.check()
        if limit is not None:
            table = table.slice(0, limit - rows)
        parts = _split(table, rows, raw.together, job.held_out) if len(files) > 1 else (table,)
        for file, part in zip(files, parts):
            file.write(part)
        rows += len(table)
        counts.written += len(table)
        if rows == limit:
            counts.read = counts.written + counts.rejected  # the rest of the last block counts as not read
            break
    intake.check(at_least=1)
    if not rows:
        raise BadData(f"{', '.join(map(str, job.sources))} has no rows of {intake.name}; expected at least one.")


def _split(table: pa.Table, first: int, together: int, held_out: int) -> tuple[pa.Table, pa.Table]:
    """Splits a table into train and test rows by a hash of row numbers; `first` is the number of its first row."""
    group = np.arange(first, first + len(table), dtype=np.uint64) // np.uint64(together) + np.uint64(SEED)
    test = mix(group * GOLDEN) % np.uint64(held_out) == 0
    return table.filter(pa.array(~test)), table.filter(pa.array(test))
