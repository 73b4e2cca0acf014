"""Where the time goes: turns the TensorFlow profiler's trace of some steps into a table of ops.

The profiler writes an XPlane: for each host thread a line of events, nested in time. These events are read:

    "dien/gru/while/body/_3/MatMul:_MklMatMul"    an op: its name, with the name scopes it was made in, and its kernel
    "EagerLocalExecute: MatMul"                   an op called outside a tf.function
    "Iterator::Root::Prefetch::BatchV2"           a stage of a tf.data pipeline
    "ExecutorState::Process"                      the executor that selects the next op; its self time is overhead

An event's self time is its duration minus that of the events inside it. Ops run in parallel on the threads of the inter-op pool,
so self times add up to at most wall time x threads. An op that uses several intra-op threads counts once, with its duration.
Profiling adds a little time per event: ratios within a table are valid, but use the stopwatch for times.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from ctrlab.errors import CtrlabError
from ctrlab.plain import Plain
from ctrlab.profiling.consuming import consume
from ctrlab.profiling.machine import machine
from ctrlab.profiling.parts import part_of

STEP = "ctrlab step"
EXECUTOR = "ExecutorState::Process"
_OP = re.compile(r"^([^:\s]+):((?:\w+>)?\w+)$")  # other libraries' ops have a namespace: "Ctrlab>Lookup"
_EAGER = re.compile(r"^EagerLocalExecute: ((?:\w+>)?[A-Za-z]\w*)$")
_LOOP = re.compile(r"^.*/(body|cond)/_\d+/")
_LIBRARY = re.compile(r"^_Mkl(Native)?")

Event = tuple[str, int, int]
"""Name, start and duration, in picoseconds."""


@dataclass(frozen=True)
class OpRow:
    """One op of the graph, or the sum of several.

    Attributes:
        op_type: the kernel, "MatMul"; oneDNN's versions have the name of the op that they replace.
        name: the op's name in the graph.
        part: see parts.PARTS.
        calls: average number of runs per step.
        seconds: average self time per step.
        share: fraction of all self time in the profile, 0 to 1.
    """

    op_type: str
    name: str
    part: str
    calls: float
    seconds: float
    share: float


@dataclass(frozen=True)
class OpTable(Plain):
    """The ops of some steps.

    Attributes:
        rows: the longest first.
        wall: the duration of one step under the profiler, in seconds.
        device: the machine.
        threads: the largest number of threads that ran ops at the same time.
    """

    rows: tuple[OpRow, ...]
    steps: int
    wall: float
    device: str
    title: str = ""
    threads: int = 1

    @property
    def seconds(self) -> float:
        """The self time of all rows in one step."""
        return sum(row.seconds for row in self.rows)

    @property
    def overlap(self) -> float:
        """The self time of all ops of the step, also of those that `of_part` left out, relative to `wall`."""
        return self.seconds / (self.share() * self.wall) if self.share() else 0.0

    def by_type(self) -> OpTable:
        """One row per op type."""
        return self._grouped(lambda row: (row.op_type, "", ""))

    def by_part(self) -> OpTable:
        """One row per part of the model."""
        return self._grouped(lambda row: ("", "", row.part))

    def of_part(self, part: str) -> OpTable:
        """The rows of one part; shares still refer to the whole step."""
        return dataclasses.replace(self, rows=tuple(row for row in self.rows if row.part == part))

    def share(self, *, part: str | None = None, op_type: str | None = None) -> float:
        """The fraction of self time of a part, an op type, or an op type within a part: 0 to 1."""
        return sum(r.share for r in self.rows if part in (None, r.part) and op_type in (None, r.op_type))

    def to_table(self, most: int = 15) -> Table:
        """The `most` longest rows as a rich table; its last line sums the rest."""
        shown, rest = self.rows[:most], self.rows[most:]
        fields = [f for f in ("part", "op_type", "name") if any(getattr(row, f) for row in self.rows)]
        caption = f"{self.wall * 1e3:.3g} ms per step; {sum_of([self])} · {self.steps} steps · {self.device}"
        table = Table(title=self.title or None, caption=caption)
        for heading in fields:
            table.add_column(heading.replace("_", " "), overflow="fold")
        for heading in ("calls", "self ms", "share"):
            table.add_column(heading, justify="right")
        if rest:
            count = f"{len(rest)} more"
            total = OpRow(
                count, count, count, sum(r.calls for r in rest), sum(r.seconds for r in rest), sum(r.share for r in rest)
            )
            shown = (*shown, total)
        for row in shown:
            numbers = f"{row.calls:.4g}", f"{row.seconds * 1e3:.3f}", f"{row.share:.1%}"
            table.add_row(*(getattr(row, f) for f in fields), *numbers)
        return table

    def _grouped(self, key: Callable[[OpRow], tuple[str, str, str]]) -> OpTable:
        sums: dict[tuple, list[float]] = {}
        for row in self.rows:
            total = sums.setdefault(key(row), [0.0, 0.0, 0.0])
            for i, value in enumerate((row.calls, row.seconds, row.share)):
                total[i] += value
        rows = [OpRow(*names, *total) for names, total in sums.items()]
        return dataclasses.replace(self, rows=tuple(sorted(rows, key=lambda row: -row.seconds)))


def sum_of(tables: Sequence[OpTable]) -> str:
    """A sentence with the sum of the self times, and why it is more than a step.

    >>> sum_of([OpTable((OpRow("MatMul", "", "", 1, 0.6, 1.0),), steps=1, wall=0.4, device="", threads=2)])
    'self times add up to 1.50 times the step: ops run on up to 2 threads at once'
    """
    overlaps = [table.overlap for table in tables]
    low, high = f"{min(overlaps):.2f}", f"{max(overlaps):.2f}"
    why = f": ops run on up to {max(table.threads for table in tables)} threads at once" if max(overlaps) > 1 else ""
    return f"self times add up to {low if low == high else f'{low} to {high}'} times the step{why}"


@dataclass(frozen=True)
class Recording:
    """The events of profiled steps: for each thread that ran ops, a list of its ops' events. `wall` is in seconds per step."""

    threads: tuple[list[Event], ...]
    steps: int
    wall: float
    title: str = ""

    def to_table(self, own: Callable[[list[Event]], dict[str, int]] | None = None) -> OpTable:
        """The table of the ops.

        Args:
            own: computes the self times of one thread, by name; default: `self_times`.
        """
        calls: Counter[str] = Counter()
        picoseconds: Counter[str] = Counter()
        for events in map(nested, self.threads):
            calls.update(name for name, _, _ in events)
            picoseconds.update((own or self_times)(events))
        total = sum(picoseconds.values()) or 1
        rows: dict[tuple[str, str, str], OpRow] = {}
        for name, length in picoseconds.items():
            key = _identify(name)
            before = rows.get(key, OpRow(*key, 0, 0, 0))
            often, seconds = calls[name] / self.steps, length / self.steps / 1e12
            rows[key] = OpRow(*key, before.calls + often, before.seconds + seconds, before.share + length / total)
        ordered = tuple(sorted(rows.values(), key=lambda row: -row.seconds))
        return OpTable(ordered, self.steps, self.wall, machine().line, self.title, _at_once(self.threads))


def profile(fn: Callable[[], object], steps: int = 5, *, title: str = "", warm_ups: int = 2) -> OpTable:
    """Runs `fn` under the TensorFlow profiler and returns its ops' times; the arguments are those of `record`.

    >>> import tensorflow as tf
    >>> square = tf.function(lambda a: a @ a)
    >>> table = profile(lambda: square(tf.ones([256, 256])), steps=2)
    >>> table.share(op_type="MatMul") > 0
    True
    """
    return record(fn, steps, title=title, warm_ups=warm_ups).to_table()


def record(fn: Callable[[], object], steps: int = 5, *, title: str = "", warm_ups: int = 2) -> Recording:
    """Runs `fn` under the TensorFlow profiler.

    Args:
        fn: one step; its result is consumed.
        steps: number of profiled steps, after `warm_ups` steps that are not profiled (they trace a tf.function).
        title: title of the table and its charts.
    Raises:
        CtrlabError: no op ran, or another profile is running in this process.
    """
    import tensorflow as tf

    for _ in range(warm_ups):
        consume(fn())
    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        try:
            tf.profiler.experimental.start(folder, options)
        except tf.errors.AlreadyExistsError:
            raise CtrlabError("Only one profile can be taken at a time; stop the other one of this process first.") from None
        try:
            for step in range(steps):
                with tf.profiler.experimental.Trace(STEP, step_num=step):
                    consume(fn())
        finally:
            tf.profiler.experimental.stop()
        return _read(Path(folder), steps, title)


def _read(folder: Path, steps: int, title: str) -> Recording:
    """The events of a profile in `folder` (any `*.xplane.pb` below it)."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    threads, wall = [], 0
    for path in sorted(folder.rglob("*.xplane.pb")):
        for line in _host_lines(xplane_pb2.XSpace.FromString(path.read_bytes())):
            wall += sum(length for name, _, length in line if name == STEP)
            if ops := [event for event in line if _counts(event[0])]:
                threads.append(ops)
    if not threads:
        raise CtrlabError("A profile needs at least one TensorFlow op; this one has none. Was the step a TensorFlow function?")
    return Recording(tuple(threads), steps, wall / steps / 1e12, title)


def _host_lines(space) -> Iterator[list[Event]]:
    """The events of each host thread."""
    for plane in space.planes:
        if plane.name.startswith("/host:"):
            names = {key: metadata.name for key, metadata in plane.event_metadata.items()}
            for line in plane.lines:
                start = 1000 * line.timestamp_ns
                yield [(names[e.metadata_id], start + e.offset_ps, e.duration_ps) for e in line.events]


def nested(events: Iterable[Event]) -> list[Event]:
    """The events of one thread, ordered by start. If an event begins inside another and ends after it, the outer one is cut off
    where the inner one begins.

    The profiler writes such events: the executor's often end a fraction of a microsecond after the next one began.
    """
    found: list[Event] = []
    open_events: list[int] = []  # indices, the innermost last
    for name, start, length in sorted(events, key=lambda event: (event[1], -event[2])):
        while open_events and sum(found[open_events[-1]][1:]) < start + length:
            index = open_events.pop()
            other, begun, lasted = found[index]
            found[index] = (other, begun, min(lasted, start - begun))
        open_events.append(len(found))
        found.append((name, start, length))
    return found


def self_times(events: Iterable[Event]) -> dict[str, int]:
    """Nested events of one thread -> {name: the duration minus that of the events directly inside it, summed over its events}."""
    ordered = sorted(events, key=lambda event: (event[1], -event[2]))
    own = [length for _, _, length in ordered]
    open_events: list[tuple[int, int]] = []  # (end, index), the innermost last
    for index, (_, start, length) in enumerate(ordered):
        while open_events and open_events[-1][0] <= start:
            open_events.pop()
        if open_events:
            own[open_events[-1][1]] -= length
        open_events.append((start + length, index))
    times: Counter[str] = Counter()
    for (name, _, _), length in zip(ordered, own):
        times[name] += length
    return dict(times)


def _at_once(threads: Iterable[Iterable[Event]]) -> int:
    """The largest number of threads that had an event open at the same time."""
    changes: list[tuple[int, int]] = []
    for events in threads:
        busy_until = 0
        for _, start, length in sorted(events, key=lambda event: (event[1], -event[2])):
            if start >= busy_until:
                changes.append((start, 1))
                changes.append((start + length, -1))
            busy_until = max(busy_until, start + length)
    return max(itertools.accumulate(change for _, change in sorted(changes)), default=0)


def _counts(name: str) -> bool:
    return name == EXECUTOR or name.startswith("Iterator::") or bool(_OP.match(name) or _EAGER.match(name))


def _identify(event: str) -> tuple[str, str, str]:
    """An event's name -> (op type, name, part).

    An op in a loop's body repeats the loop's own path, which is dropped: "dien/gru/while/body/_3/dien/gru/while/MatMul".
    """
    if event == EXECUTOR:
        return "executor", event, "executor"
    if event.startswith("Iterator::"):
        stage = event.partition("#")[0]
        return f"tf.data {stage.rpartition('::')[2]}", stage, "input"
    if eager := _EAGER.match(event):
        return eager[1], eager[1], "input" if eager[1].startswith("Iterator") else "other"
    name, op_type = _OP.match(event).groups()
    return _LIBRARY.sub("", op_type), _LOOP.sub("", name), part_of(name)
