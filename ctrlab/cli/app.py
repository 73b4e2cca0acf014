"""What all commands share: how a group is made, options that several take, and errors in one sentence."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer.core import TyperGroup

from ctrlab.errors import CtrlabError, cure_of
from ctrlab.model_names import DATA_SETS

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
            if problem.errno == errno.EPIPE:  # `| head` has read enough
                raise
            raise _exit(_of_system(problem), 1) from None


def _exit(sentence: str, code: int) -> typer.Exit:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text(sentence, style="" if code == INTERRUPTED else "red"))
    return typer.Exit(code)


def _of_system(problem: OSError) -> str:
    where = f" ({problem.filename})" if problem.filename else ""
    if problem.errno == errno.ENOSPC:
        return (
            f"The disk is full{where}. Free some space, or name a folder on a bigger disk; that of cached data is CTRLAB_CACHE."
        )
    why = f"The system refused: {problem.strerror or problem}"
    if problem.errno == errno.EMFILE:
        why = "More files were to be open at once than a process may have"
    cure = cure_of(problem, "check the path and its permissions")
    return f"{why}{where}. {cure[0].upper()}{cure[1:]}."


def make_app(help: str, **options) -> typer.Typer:
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False, **options)


ModelArgument = Annotated[str, typer.Argument(help=f"One of {', '.join(DATA_SETS)}.")]
ProfileOption = Annotated[str | None, typer.Option(help="tiny, lesson or full; else CTRLAB_PROFILE, else lesson.")]
SourceOption = Annotated[
    Literal["generated", "real"],
    typer.Option(help="Generated rows, or the samples in the folder that CTRLAB_REAL_DATA names."),
]
Format = Literal["csv", "tfrecord", "tfrecord.gz", "parquet"]
FormatOption = Annotated[Format, typer.Option(help="How the rows are stored.")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Write the result to this file.", dir_okay=False)]
