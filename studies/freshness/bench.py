"""Measures how fresh a served model is: the time from a click to the first answer by weights that were trained on it.

    client --request--> ctrlab serve --log--> joined by `ctrlab.data.join` --files--> ctrlab train --follow --publish
       |                     ^                        ^                                           |
       +------- clicks ------|------------------------+                                           |
                             +------------------------- versions and updates ---------------------+

All parts run on this machine, as a user would run them: two commands, and the join and the client in this process.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ctrlab import data
from ctrlab.data.follow import LEDGER
from ctrlab.data.join import join, read_parquet
from ctrlab.data.labels import KEYS, REQUEST, ROW, TIME
from ctrlab.data.outputs import Replacement
from ctrlab.errors import CtrlabError
from ctrlab.load.client import Target, post
from ctrlab.load.connection import Connection
from ctrlab.model_names import DATA_SETS
from ctrlab.models import MODELS
from ctrlab.serving import read_manifest
from ctrlab.serving.inputs import Features, to_tensors

FIRST_BATCHES = 4
STARTS_SECONDS = 300.0
TOKEN = secrets.token_hex(16)
GAUGES = re.compile(r"^ctrlab_(version|update|training_step)\{.*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class LoopTimes:
    """The times of the loop, in seconds.

    Attributes:
        window: time within which a click counts.
        log_every, publish_every: intervals of the two commands; labels are written as often as the log.
        rows: examples per request. rows_per_second: rate of the client's requests.
        seconds: duration of the client's requests.
    Raises:
        CtrlabError: `rows_per_second` is not a number above 0.
    """

    window: float = 2.0
    log_every: float = 1.0
    publish_every: float = 1.0
    rows: int = 64
    rows_per_second: float = 1024.0
    seconds: float = 60.0

    def __post_init__(self):
        if not 0 < self.rows_per_second < math.inf:
            raise CtrlabError(f"A client asks for rows per second, a finite number above 0; received {self.rows_per_second}.")


@dataclass(frozen=True)
class Freshness:
    """The result of a run.

    Attributes:
        joined, learned: seconds from each click to the file that contains it, and to the first answer that learned from it.
        clicks: number of clicks from which an answer learned; `others` came too near to the end.
        requests, steps: requests that the server answered, and steps that the training took in that time.
    """

    model: str
    setting: LoopTimes
    joined: list[float]
    learned: list[float]
    clicks: int
    others: int
    requests: int
    steps: int

    def to_json(self) -> dict:
        return asdict(self)


def measure(
    model: str, setting: LoopTimes, profile: str | None = None, said: Callable[[str], None] = lambda line: None
) -> Freshness:
    """Runs the loop, and measures it. SIGTERM ends it as Ctrl-C does: no command and no file is left.

    Args:
        said: called with a line when a part begins.
    Raises:
        CtrlabError: a command ended; no click was learned from.
    """
    files = data.prepare(DATA_SETS[model], profile=profile)
    batch = MODELS[model].presets["contest"].hyper.batch_size
    with _sigterm_raises(), tempfile.TemporaryDirectory(prefix="ctrlab-freshness-") as folder, contextlib.ExitStack() as held:
        place = Path(folder)
        for name in ("joined", "labels", "models"):
            (place / name).mkdir()
        rows = pq.ParquetFile(files.train[0]).iter_batches(FIRST_BATCHES * batch)
        first = pa.Table.from_batches([next(rows)])
        pq.write_table(first, place / "joined" / "0.parquet")
        publishing = ("--publish", place / "models" / "ctr", "--publish-every", f"{setting.publish_every}s")
        following = ("--follow", place / "joined", "--checkpoint", place / "run")
        trainer = held.enter_context(_command(place, "train", model, "--optimizations", "all", *following, *publishing))
        said("Training")
        _wait(lambda: (place / "models" / "ctr" / "1").exists(), trainer)
        logging = ("--log", place / "log", "--log-every", f"{setting.log_every}s")
        server = held.enter_context(_command(place, "serve", place / "models", "--port", "0", "--grpc-port", "0", *logging))
        _wait(lambda: "HTTP on" in server.log.read_text(), server)
        said("Serving")
        client = _Client(files, place, setting, int(re.search(r"HTTP on http://[^:]+:(\d+)", server.log.read_text())[1]))
        ends = threading.Event()
        joiner = threading.Thread(target=_join_all, args=(place, setting, ends, client.problems))
        joiner.start()
        held.callback(joiner.join)
        held.callback(ends.set)
        client.run(lambda: trainer.require() or server.require())
        client.require()
        return _found(model, setting, place, client, len(first), batch)


class _Client:
    """Sends requests, clicks as the rows' labels say, and records the training step of the weights behind each answer."""

    def __init__(self, files: data.DataFiles, place: Path, setting: LoopTimes, port: int):
        self._place, self._setting = place, setting
        self._server = Connection(Target("127.0.0.1", port), timeout=60)
        self._batches = files.read_test(setting.rows, drop_remainder=True, epochs=-1)
        self._inputs = read_manifest(place / "models" / "ctr" / "1").inputs
        self._names = [label.name for label in files.schema.labels]
        self.clicked: dict[tuple[str, int], float] = {}
        self.answers: list[tuple[float, int]] = []
        """(time, training step) of each answer whose step is known."""
        self.requests = 0
        self.problems: list[BaseException] = []

    def run(self, check: Callable[[], None]) -> None:
        pending, written, begun = [], time.monotonic(), time.monotonic()
        for number, (features, labels) in enumerate(self._batches):
            due = begun + number * self._setting.rows / self._setting.rows_per_second
            if max(due, time.monotonic()) - begun > self._setting.seconds or self.problems:
                break
            time.sleep(max(0.0, due - time.monotonic()))
            id = self._ask(features)
            now = time.time()
            for row in np.flatnonzero(labels.numpy().max(axis=1)):
                self.clicked[id, int(row)] = now
                pending.append((id, int(row), datetime.fromtimestamp(now, UTC), *labels.numpy()[row].tolist()))
            if time.monotonic() - written > self._setting.log_every and pending:
                self._write(pending, number)
                pending, written = [], time.monotonic()
                check()

    def require(self) -> None:
        if self.problems:
            raise self.problems[0]

    def _ask(self, features: Features) -> str:
        tensors = {name: tensor.numpy() for name, tensor in to_tensors(features, self._inputs, None).items()}
        plain = {name: values.astype(str) if values.dtype == object else values for name, values in tensors.items()}
        plain = {name: values.tolist() for name, values in plain.items()}
        answer = self._server.answer(post("/v1/models/ctr:predict", json.dumps({"inputs": plain}).encode(), TOKEN))
        if answer.status != 200:
            raise CtrlabError(f"A request was refused: {answer.body.decode()[:500]}")
        answered = time.time()
        metrics = dict(GAUGES.findall(self._server.ask("GET", "/metrics", token=TOKEN).body.decode()))
        of_answer = float(answer.headers[b"x-model-version"]), float(answer.headers[b"x-model-update"])
        if (float(metrics["version"]), float(metrics["update"])) == of_answer:
            self.answers.append((answered, int(float(metrics["training_step"]))))
        self.requests += 1
        return answer.headers[b"x-request-id"].decode()

    def _write(self, rows: list[tuple], number: int) -> None:
        columns = list(zip(*rows))
        table = pa.table(dict(zip(KEYS, columns)), schema=pa.schema(KEYS))
        for name, values in zip(self._names, columns[len(KEYS) :]):
            table = table.append_column(name, pa.array(values, pa.float32()))
        with Replacement(self._place / "labels" / f"{number:09}.parquet") as file:
            pq.write_table(table, file.file)
            file.keep()


class _Running:
    """A command of this package, in a process of its own; its output goes to a file."""

    def __init__(self, place: Path, *words):
        self.name, self.log = words[0], place / f"{words[0]}.log"
        environment = os.environ | {"CTRLAB_TOKEN": TOKEN, "TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "200"}
        command = [sys.executable, "-m", "ctrlab", *map(str, words)]
        with open(self.log, "wb") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)

    def require(self) -> None:
        """Raises CtrlabError if the command has ended."""
        if self.process.poll() is not None:
            raise CtrlabError(f"`ctrlab {self.name}` ended: {self.log.read_text(errors='replace').strip()[-1000:]}")


@contextlib.contextmanager
def _command(place: Path, *words) -> Iterator[_Running]:
    running = _Running(place, *words)
    try:
        yield running
    finally:
        running.process.send_signal(signal.SIGTERM)
        try:
            running.process.wait(60)
        except subprocess.TimeoutExpired:
            running.process.kill()
            running.process.wait()


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # no other may handle signals
        yield
        return

    def ends(number: int, frame) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one would end the tidying
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, ends)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait(ready: Callable[[], bool], running: _Running) -> None:
    ends = time.monotonic() + STARTS_SECONDS
    while not ready():
        running.require()
        if time.monotonic() > ends:
            raise CtrlabError(f"`ctrlab {running.name}` did not begin within {STARTS_SECONDS:g} s.")
        time.sleep(0.1)


def _join_all(place: Path, setting: LoopTimes, ends: threading.Event, problems: list[BaseException]) -> None:
    window, delivery = timedelta(seconds=setting.window), timedelta(seconds=2 * setting.log_every)
    while not ends.wait(setting.log_every / 4):
        try:
            if (place / "log" / "ctr").is_dir():
                join(place / "log" / "ctr", place / "labels", place / "joined", window, delivery=delivery)
        except Exception as problem:
            problems.append(problem)
            return


def _found(model: str, setting: LoopTimes, place: Path, client: _Client, first_rows: int, batch: int) -> Freshness:
    ledger = [json.loads(line) for line in (place / "run" / LEDGER).read_text().splitlines()]
    whens, steps = np.array([when for when, _ in client.answers]), np.array([step for _, step in client.answers])
    joined, learned, others, before = [], [], len(client.clicked), first_rows
    for each in ledger[1:]:
        path = place / "joined" / each["file"]
        keys = read_parquet(path).select([REQUEST, ROW, TIME])
        made = path.stat().st_mtime
        for n, key in enumerate(zip(keys[REQUEST].to_pylist(), keys[ROW].to_pylist())):
            if key not in client.clicked:
                continue
            knows = np.flatnonzero(steps > (before + n) // batch)
            if len(knows):
                joined.append(made - client.clicked[key])
                learned.append(float(whens[knows[0]]) - client.clicked[key])
                others -= 1
        before += each["rows"]
    if not learned:
        raise CtrlabError("No click was learned from before the end: measure for longer.")
    taken = int(steps[-1] - steps[0])
    return Freshness(model, setting, joined, learned, len(learned), others, client.requests, taken)
