"""The common parts of all commands: groups, output, options that several commands take, and errors in one sentence."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

import ctrlab
from ctrlab.errors import CtrlabError, choose, cure_of, hint
from ctrlab.model_names import DATA_SETS
from ctrlab.paths import require_place, write_atomically
from ctrlab.profiling import page
from ctrlab.profiling.quiet import quiet

INTERRUPTED, TERMINATED = 130, 143  # what shells give for Ctrl-C and SIGTERM
WIDTH = 100
"""Columns of output that does not go to a terminal; wide enough for the widest table, that of the race."""


class OneSentence(TyperGroup):
    """A group of commands that turns an error which the user can fix into one sentence on stderr and the error's exit code."""

    def invoke(self, ctx):
        try:
            with _ending_as_interrupted() as ended:
                return super().invoke(ctx)
        except CtrlabError as problem:
            raise _exit(str(problem), problem.exit_code) from None
        except typer.BadParameter as problem:
            problem.message += _nearest(problem.message)
            raise
        except KeyboardInterrupt as interrupt:
            raise _interrupted(ended, str(interrupt)) from None
        except RuntimeError as problem:  # an interrupt that came while a library's C++ gave an error to Python
            if not (ended and KeyboardInterrupt.__name__ in str(problem)):
                raise
            raise _interrupted(ended) from None
        except OSError as problem:
            if problem.errno == errno.EPIPE:  # `| head` has read enough
                raise
            raise _exit(_of_system(problem), 1) from None


@contextmanager
def _ending_as_interrupted() -> Iterator[list[int]]:
    """A context in which SIGTERM raises KeyboardInterrupt like Ctrl-C, so that temporary files are removed. The list then holds
    the signal that came. A SIGTERM after that is ignored: `timeout` sends two at once, and a launcher ends workers that Ctrl-C
    has reached. A second Ctrl-C still counts.
    """
    ended: list[int] = []

    def end(number: int, frame) -> None:
        ended.append(number)
        if len(ended) == 1 or number == signal.SIGINT:
            raise KeyboardInterrupt

    defaults = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    main = threading.current_thread() is threading.main_thread()
    ours = {number: default for number, default in defaults.items() if main and signal.getsignal(number) == default}
    for number in ours:
        signal.signal(number, end)
    try:
        yield ended
    finally:
        for number, default in ours.items():
            signal.signal(number, default)


def _interrupted(ended: list[int], said: str = "") -> typer.Exit:
    by_term = ended and ended[0] == signal.SIGTERM
    return _exit(said or ("Terminated." if by_term else "Interrupted."), TERMINATED if by_term else INTERRUPTED)


def _exit(sentence: str, code: int) -> typer.Exit:
    Console(stderr=True, soft_wrap=True).print(Text(sentence, style="" if code in (INTERRUPTED, TERMINATED) else "red"))
    return typer.Exit(code)


def _nearest(said: str) -> str:
    """A hint at the valid value that is nearest to the given one, for the error that lists an option's values."""
    found = re.search(r"'(.*)' is not one of (.*)", said)
    return hint(found[1], re.findall(r"'([^']*)'", found[2])) if found else ""


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


def add_commands(app: typer.Typer, *modules: ModuleType) -> None:
    """Adds the function `command` of each module, under the module's name."""
    for module in modules:
        app.command(module.__name__.rpartition(".")[2].replace("_", "-"))(module.command)


def console() -> Console:
    """The console on standard output: as wide as its terminal or as COLUMNS, otherwise WIDTH columns."""
    known = sys.stdout.isatty() or re.fullmatch(r"0*[1-9]\d*", os.environ.get("COLUMNS", ""))
    return Console(width=None if known else WIDTH)


def import_tensorflow(gpu: bool = False) -> None:
    """Imports TensorFlow without its messages.

    Args:
        gpu: whether it may see a GPU. A command that computes on the CPU takes no memory of one.
    Raises:
        CtrlabError: it can't be imported.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with quiet():
            import tensorflow  # noqa: F401
    except ImportError as problem:
        raise CtrlabError(f"TensorFlow can't be imported: {problem}. `ctrlab doctor` says how to mend it.") from problem
    if not gpu:
        from ctrlab import devices

        devices.hide()


def require_files(json_path: Path | None = None, html: Path | None = None) -> None:
    """Checks before minutes of work that the requested files can be written after it.

    Raises:
        CtrlabError: a file can't be written, or the library for a page's plots is missing.
    """
    if json_path:
        require_place(json_path)
    if html:
        page.check(html)


def write_json(path: Path | None, value, indent: int | None = 1) -> None:
    """Writes `value` if a file was asked for."""
    if path:
        write_atomically(path, json.dumps(value, indent=indent) + "\n")


def _print_version(asked: bool) -> None:
    if asked:
        try:
            beside = f"TensorFlow {metadata.version('tensorflow')}"
        except metadata.PackageNotFoundError:
            beside = "without TensorFlow"
        typer.echo(f"ctrlab {ctrlab.__version__}, {beside}")
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option("--version", help="The versions of this package and of TensorFlow.", callback=_print_version, is_eager=True),
]
ModelArgument = Annotated[
    str, typer.Argument(help=f"One of {', '.join(DATA_SETS)}.", callback=lambda name: choose("model", name, DATA_SETS))
]
ProfileOption = Annotated[str | None, typer.Option(help="tiny, lesson or full; else CTRLAB_PROFILE, else lesson.")]
SourceOption = Annotated[
    Literal["generated", "real"],
    typer.Option(help="Generated rows, or the samples in the folder that CTRLAB_REAL_DATA names."),
]
Format = Literal["csv", "tfrecord", "tfrecord.gz", "parquet"]
FormatOption = Annotated[Format, typer.Option(help="How the rows are stored.")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Write the result to this file.", dir_okay=False)]
DeviceOption = Annotated[
    Literal["auto", "cpu", "gpu"], typer.Option(help="auto: the GPU if there is one and the model's ops can run on it.")
]
OptimizationsOption = Annotated[str, typer.Option(help="none, all, all+results, or names joined by commas.")]


def duration(option: str, text: str) -> float:
    """The seconds in a text such as "500ms", "1s" or "5m".

    Raises:
        CtrlabError: the text is not a duration, or not above 0.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", text)
    seconds = float(found[1]) * {"ms": 1e-3, "s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
    if not 0 < seconds <= 365 * 86_400:
        raise CtrlabError(f"{option} takes a time above 0, such as 500ms, 1s or 5m; received {text}.")
    return seconds
