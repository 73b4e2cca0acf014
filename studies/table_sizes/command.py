"""The command line of the study, `ctrlab bench table-sizes`."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ctrlab.cli.app import import_tensorflow, require_files
from ctrlab.errors import CtrlabError, choose

if TYPE_CHECKING:
    from ctrlab.training.table_sizes import Sample


def command(
    out: Annotated[Path, typer.Option(help="The JSON file; runs that it has are not repeated.", dir_okay=False)],
    source: Annotated[Literal["generated", "real"], typer.Option("--data", help="Criteo's rows.")] = "generated",
    rows: Annotated[int, typer.Option(min=1, help="Generated rows to train on.")] = 100_000,
    rare: Annotated[str, typer.Option(help="Shares of the logit's variance that rare ids make, separated by commas.")] = "",
    drift: Annotated[str, typer.Option(help="The same of drift.")] = "",
    ways: Annotated[str, typer.Option(help="all, or names joined by semicolons: see ctrlab/training/table_sizes.py.")] = "all",
    compressions: Annotated[str, typer.Option(help="Separated by commas.")] = "1,5,20,100",
    seeds: Annotated[int, typer.Option(min=1, help="How many.")] = 3,
    model: Annotated[str, typer.Option(help="dlrm, wdl or deepfm.")] = "dlrm",
) -> None:
    """Train one model on the same rows, its embeddings kept in different ways, and write what came out.

    - `ctrlab bench table-sizes --data real --compressions 1,5,20,100 --seeds 3 --out size.json`
    - `ctrlab bench table-sizes --ways "variable;hashed" --model wdl --rare ,0.4 --drift ,0.3 --out sweep.json`
    """
    require_files(out)
    sizes, of_rare, of_drift = numbers("--compressions", compressions), numbers("--rare", rare), numbers("--drift", drift)
    if not all(size and size > 0 for size in sizes):
        raise CtrlabError(f"--compressions takes numbers above 0; got {compressions!r}.")
    import_tensorflow()
    from ctrlab.training import table_sizes

    chosen = list(table_sizes.WAYS) if ways == "all" else [choose("way", way, table_sizes.WAYS) for way in ways.split(";")]

    def samples() -> Iterator[tuple[int, Sample]]:
        whole = table_sizes.real() if source == "real" else None
        for seed, *shares in itertools.product(range(seeds), of_rare, of_drift):
            yield seed, whole or table_sizes.generated(rows, seed, *shares)

    study(samples(), chosen, sizes, out, model)


def study(
    samples: Iterable[tuple[int, Sample]], ways: Sequence[str], compressions: Sequence[float], out: Path, model: str
) -> None:
    """Runs each sample by each way at each compression, and writes the file after each run; runs that it has are not repeated."""
    from ctrlab.profiling.machine import machine
    from ctrlab.training import table_sizes

    report = json.loads(out.read_text()) if out.exists() else {"machine": machine().line, "made by": [], "runs": []}
    report["made by"].append("ctrlab bench " + " ".join(sys.argv[1:]))
    for seed, sample in samples:
        for way, compression in itertools.product(ways, compressions):
            key = sample.about | {
                "model": model,
                "way": way,
                "compression": 1.0 if way in table_sizes.UNCOMPRESSED else compression,
                "seed": seed,
            }
            if any(key.items() <= done.items() for done in report["runs"]):
                continue
            report["runs"].append(table_sizes.run(sample, way, compression, seed, model))
            typer.echo(json.dumps(report["runs"][-1]))
            out.write_text(json.dumps(report, indent=1))


def numbers(option: str, text: str) -> list[float | None]:
    """The numbers that an option lists; an empty place is None: ",0.4" is None and 0.4.

    Raises:
        CtrlabError: an entry is not a number.
    """
    try:
        return [float(part) if part else None for part in text.split(",")]
    except ValueError:
        raise CtrlabError(f"{option} takes numbers separated by commas; got {text!r}.") from None
