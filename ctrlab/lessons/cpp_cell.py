"""`%%cpp NAME`: makes the cell's C++ available as NAME in the notebook, for the lesson's check and for later cells."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctrlab import compiling
from ctrlab.errors import CtrlabError
from ctrlab.lessons.check import CheckFailed
from ctrlab.ops.kernel_swap import CHECKED, COMPILE_SECONDS
from ctrlab.paths import native

FAST = ["-std=c++20", "-O2", "-Wall"]
CELL = "cell.cc"
"""The cell's file name in messages of the compiler and the sanitizers; the number after it is the line that Jupyter shows."""
STRICT = [*CHECKED, "-ftrivial-auto-var-init=pattern"]
"""Compiler flags that fill uninitialized variables with a pattern, so that they are not zero by chance."""


class CellError(CtrlabError):
    """A cell does not compile; the compiler's own message follows."""


@dataclass(frozen=True)
class Source:
    """The C++ of a cell, called `name`. Its includes are found from the folder `native`."""

    name: str
    text: str

    @property
    def __name__(self) -> str:
        return self.name

    def compiled(self, target: Path, *flags, others: Sequence[Path] = (), libraries: Sequence = ()) -> Path:
        """Compiles `target` from this source and `others`, which are sources or objects.

        Raises:
            CellError: it does not compile.
        """
        with tempfile.TemporaryDirectory(prefix="ctrlab-cell-") as folder:
            cell = Path(folder, CELL)
            cell.write_text(f"#line 2\n{self.text}\n", encoding="utf-8")  # Jupyter counts the line of %%cpp, too
            try:
                options = {"folder": cell.parent, "seconds": COMPILE_SECONDS, "libraries": libraries}
                return compiling.compile(["-I", native(), *flags], [CELL, *others], target, **options)
            except compiling.CompileError as refused:
                raise CellError(f"The cell %%cpp {self.name} must compile.\n{refused.output}") from None


@contextlib.contextmanager
def checked(answer: object, others: Sequence[Path] = ()) -> Iterator[Path]:
    """Compiles a program from the cell and `others`, C++ sources, with AddressSanitizer and UBSan.

    Raises:
        CheckFailed: `answer` is not a cell, or does not compile. NotImplementedError: it is the stub.
    """
    if not isinstance(answer, Source):
        raise CheckFailed(
            "The check takes the name of the cell that begins with %%cpp.",
            wrong=f"The check was given a {type(answer).__name__}, and no cell.",
            expected="that name",
            received=type(answer).__name__,
            cure="run the %%cpp cell, then the check as it stood",
        )
    made = [compiling.cached_object(path, [*STRICT, "-I", native()]) for path in others]
    with tempfile.TemporaryDirectory(prefix="ctrlab-cell-") as folder:
        try:
            yield answer.compiled(Path(folder, "checked"), *STRICT, others=made)
        except CellError as refused:
            if "#error" in answer.text:  # check.run reads which exercise's
                raise NotImplementedError(str(refused)) from None
            raise CheckFailed(
                "The cell compiles.",
                wrong="The cell does not compile.",
                expected="a program",
                received=str(refused),
                cure="mend the line that is named first",
            ) from None


def cpp(line: str, cell: str) -> None:
    """%%cpp NAME: the C++ of this cell is NAME from now on; it is compiled once, to check that it compiles."""
    from IPython import get_ipython

    source = Source(line.strip(), cell)
    if not source.name.isidentifier():
        raise CtrlabError(f"A cell of C++ has a name, as in `%%cpp ask`; {line!r} was given.")
    get_ipython().user_ns[source.name] = source  # also one that is refused: a check judges what stands in the cell
    with tempfile.TemporaryDirectory(prefix="ctrlab-cell-") as folder:
        source.compiled(Path(folder, "cell.o"), *FAST, "-c")
    print(f"Compiled: {source.name}.")


def load_ipython_extension(shell) -> None:
    shell.register_magic_function(cpp, magic_kind="cell", magic_name="cpp")
