"""One clear sentence for every bad input: the rule, what was received, where, and the cure."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM)
"""Refusals to open a file that tell nothing of what is in it."""
CURES = {
    errno.EMFILE: "ask for fewer, or raise `ulimit -n`",
    errno.ENFILE: "end programs that hold many open",
    errno.ENOMEM: "free some memory",
}


class CtrlabError(Exception):
    """What a user can mend. The command line prints it as one sentence and exits with 1."""

    _keras_call_info_injected = True
    """Keras else wraps the sentence of an error from a layer's call in a page about the call's arguments."""

    def _render_traceback_(self) -> list[str]:
        """What Jupyter shows: the sentence, without the stack of what is ours."""
        return [f"{type(self).__name__}: {self}"]


class UnknownName(CtrlabError, ValueError):
    """A name that is not among the known ones."""


class BadData(CtrlabError, ValueError):
    """A file or a row that breaks the format; the message names file and line or column."""


class NativeLibraryError(CtrlabError, RuntimeError):
    """The compiled library is missing or was built for something else; the message names the command that cures it."""


def choose(what: str, name: str, known: Iterable[str]) -> str:
    """`name` if it is known, else an UnknownName that says the nearest.

    >>> choose("model", "dlrm", ["wdl", "dlrm"])
    'dlrm'
    """
    known = list(known)
    if name in known:
        return name
    near = difflib.get_close_matches(str(name).lower(), known, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownName(f"Unknown {what} {name!r}; known are {', '.join(known)}.{hint}")


def cure_of(problem: OSError, otherwise: str) -> str:
    """What helps where the system refuses for what has nothing to do with the path; else `otherwise`.

    >>> cure_of(OSError(errno.EMFILE, "Too many open files"), "name another folder")
    'ask for fewer, or raise `ulimit -n`'
    """
    return CURES.get(problem.errno, otherwise)


def unreadable(what: str, problem: OSError) -> CtrlabError:
    """That a file or folder can't be opened: a BadData, unless it may be whole and only this process does not get it now."""
    if problem.errno not in PASSING:
        return BadData(f"{what} can't be read: {problem.strerror}.")
    return CtrlabError(f"{what} can't be opened: {problem.strerror}; {cure_of(problem, 'change its permissions')}.")
