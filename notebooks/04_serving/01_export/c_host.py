"""A learner's program that answers requests through processor_c.h: `PROGRAM FOLDER FILE`, a JSON request on each line of FILE.

It writes a line for each request: the code, a space, and the answer or the sentence of the refusal.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ctrlab import compiling
from ctrlab.errors import CtrlabError
from ctrlab.lessons.cpp_cell import FAST, Source
from ctrlab.serving.processor import LIBRARY

SECONDS = 60


def answers(source: Source, folder: Path, bodies: Sequence[bytes]) -> list[tuple[int, str]]:
    """(code, answer or sentence) of each request, from the processor, in a process that has no Python.

    Args:
        folder: the model's folder. bodies: JSON without line breaks.
    Raises:
        CellError: the source does not compile. CtrlabError: the program fails, or writes other lines.
    """
    with tempfile.TemporaryDirectory(prefix="ctrlab-host-") as place:
        place = Path(place)
        program = source.compiled(place / "host", *FAST, libraries=[LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"])
        (place / "requests").write_bytes(b"".join(body + b"\n" for body in bodies))
        code, out, err = compiling.run([program, folder, place / "requests"], SECONDS)
    lines = out.split("\n")[:-1]
    if code != 0 or len(lines) != len(bodies):
        how = f"did not end within {SECONDS} s" if code is None else f"ended with {code} and {len(lines)} lines"
        rule = f"The program writes a line per request, {len(bodies)} here, and ends with 0"
        raise CtrlabError(f"{rule}; it {how}. {out} {err}"[:900])
    return [(int(number), text) for number, _, text in (line.partition(" ") for line in lines)]


@contextlib.contextmanager
def planned(steps: Sequence[tuple[int, bytes, bytes]]) -> Iterator[tuple[Path, Path]]:
    """A folder and a file of requests for native/lessons/strict_processor.cc.

    Args:
        steps: for each call of process, the code, the expected body, and the answer.
    """
    with tempfile.TemporaryDirectory(prefix="ctrlab-plan-") as place:
        folder, requests = Path(place), Path(place, "requests")
        plan = (b"%d %d %d\n%b%b" % (code, len(body), len(text), body, text) for code, body, text in steps)
        (folder / "plan").write_bytes(b"".join(plan))
        bodies = dict.fromkeys(body for _, body, _ in steps)  # one that is asked again stands there once
        requests.write_bytes(b"".join(body + b"\n" for body in bodies))
        yield folder, requests
