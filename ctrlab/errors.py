"""The error types. Every bad input raises one clear sentence: the rule, what was received, where, and the cure."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM)
"""Codes of errors on opening a file that do not mean that the file itself is bad."""
CURES = {
    errno.EMFILE: "ask for fewer, or raise `ulimit -n`",
    errno.ENFILE: "end programs that hold many open",
    errno.ENOMEM: "free some memory",
    errno.EROFS: "make the disk writable",
}


class CtrlabError(Exception):
    """An error that the user can fix. The command line prints it as one sentence and exits with `exit_code`."""

    exit_code = 1
    _keras_call_info_injected = True
    """Keeps Keras from wrapping an error in a layer's call in a page of text about the call's arguments."""

    def _render_traceback_(self) -> list[str]:
        """The lines that Jupyter shows: the sentence alone, without a traceback through our code."""
        return [f"{type(self).__name__}: {self}"]


class WorkerLost(CtrlabError):
    """Another worker of a training has ended or does not answer. All workers start again, from the last save."""

    exit_code = 75  # EX_TEMPFAIL of sysexits.h: launchers start a command again that ends with it


class UnknownName(CtrlabError, ValueError):
    """A name that is not in the list of known names."""


class BadData(CtrlabError, ValueError):
    """A file or a row that violates the format; the message names file and line or column."""


class BadSchema(CtrlabError, ValueError):
    """Columns that make no sense, alone or together; the message names them."""


class NativeLibraryError(CtrlabError, RuntimeError):
    """The compiled library is missing or was built for another version; the message names the command that cures it."""


SHORTEST = 3
"""The least number of letters in a beginning that hints at a name."""


def choose(what: str, name: str, known: Iterable[str]) -> str:
    """`name` if it is known; otherwise raises UnknownName with the known names, and the nearest if one is near or begins so.

    >>> choose("model", "dlrm", ["wdl", "dlrm"])
    'dlrm'
    """
    known = list(known)
    if name in known:
        return name
    raise UnknownName(f"Unknown {what} {name!r}; known are {', '.join(known)}.{hint(name, known)}")


def hint(name: str, known: Iterable[str]) -> str:
    """A hint to add to the sentence about an unknown name, if a known name is similar or begins with it; otherwise "".

    >>> hint("dlmr", ["wdl", "dlrm"]), hint("x", ["wdl", "dlrm"])
    (" Did you mean 'dlrm'?", '')
    """
    alike, typed = {one.lower(): one for one in known}, str(name).lower()
    begun = [one for one in alike if len(typed) >= SHORTEST and one.startswith(typed)]  # 'adam' for 'adam_async'
    near = begun or difflib.get_close_matches(typed, alike, n=1)
    return f" Did you mean {alike[near[0]]!r}?" if near else ""


def cure_of(problem: OSError, otherwise: str) -> str:
    """The cure for errors that do not depend on the path, such as too many open files; for others, `otherwise`.

    >>> cure_of(OSError(errno.EMFILE, "Too many open files"), "name another folder")
    'ask for fewer, or raise `ulimit -n`'
    """
    return CURES.get(problem.errno, otherwise)


def unreadable(what: str, problem: OSError) -> CtrlabError:
    """The error for a file or folder that can't be opened: BadData, unless the file may be intact and the cause is temporary."""
    if problem.errno not in PASSING:
        return BadData(f"{what} can't be read: {problem.strerror}.")
    return CtrlabError(f"{what} can't be opened: {problem.strerror}; {cure_of(problem, 'change its permissions')}.")
