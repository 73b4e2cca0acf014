"""The command line: `ctrlab doctor | data | train | race | bench | lab`.

Each command imports what it needs when it runs: TensorFlow takes seconds to import, and `--help` must not.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.core import TyperGroup

from ctrlab.errors import CtrlabError

INTERRUPTED = 130  # what shells give for Ctrl-C


class OneSentence(TyperGroup):
    """A group of commands that turns what a user can mend into one sentence on stderr and exit code 1."""

    def invoke(self, ctx):
        try:
            return super().invoke(ctx)
        except CtrlabError as problem:
            raise _exit(str(problem), 1) from None
        except KeyboardInterrupt as interrupt:
            raise _exit(str(interrupt) or "Interrupted.", INTERRUPTED) from None
        except OSError as problem:
            raise _exit(_of_system(problem), 1) from None


def _exit(sentence: str, code: int) -> typer.Exit:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text(sentence, style="" if code == INTERRUPTED else "red"))
    return typer.Exit(code)


def _of_system(problem: OSError) -> str:
    where = f" ({problem.filename})" if problem.filename else ""
    if problem.errno == errno.ENOSPC:
        return f"The disk is full{where}. Free some space, or point CTRLAB_CACHE to a folder on a bigger disk."
    return f"The system refused: {problem.strerror or problem}{where}. Check the path and its permissions."


def _app(help: str, **options) -> typer.Typer:
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False, **options)


app = _app(
    "Six click models on stock TensorFlow, made fast one optimization at a time.",
    cls=OneSentence,
    add_completion=False,
    epilog="Start with [bold]ctrlab doctor[/bold], then [bold]ctrlab race --models deepfm --profile tiny[/bold].",
)
data = _app("Make, convert and look at data sets.")
bench = _app("Measure parts against each other.")
app.add_typer(data, name="data")
app.add_typer(bench, name="bench")

ProfileOption = Annotated[str | None, typer.Option(help="tiny, lesson or full; else CTRLAB_PROFILE, else lesson.")]
SourceOption = Annotated[
    Literal["generated", "real"],
    typer.Option(help="Generated rows, or the samples in the folder that CTRLAB_REAL_DATA names."),
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Write the result to this file.", dir_okay=False)]


@app.command()
def race(
    models: Annotated[str, typer.Option(help="all, or names joined by commas.")] = "all",
    optimizations: Annotated[
        str, typer.Option(help="Sets joined by commas; the rungs of one set are joined by +. The baseline always races.")
    ] = "none,all",
    profile: ProfileOption = None,
    data: SourceOption = "generated",
    json_path: JsonOption = None,
    html: Annotated[Path | None, typer.Option(help="Write a report that needs nothing else to be read.", dir_okay=False)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted race of the same options.")] = False,
) -> None:
    """Train the contest's six models against the clock, each set of optimizations against the baseline.

    The score is the contest's: training seconds at its numbers of steps, added up. A set whose AUC falls below the baseline's
    by more than three standard deviations over seeds does not count. Interrupted, the race keeps the models that are done.

    [dim]ctrlab race --models deepfm --profile tiny[/dim]

    [dim]ctrlab race --optimizations none,indicator,all --html race.html[/dim]

    [dim]ctrlab race --data real --json race.json --resume[/dim]
    """
    from ctrlab.race.command import run

    run(models, optimizations, profile, data, json_path, html, resume)


def main() -> None:
    """The entry point of the `ctrlab` command."""
    app()


if __name__ == "__main__":
    main()
