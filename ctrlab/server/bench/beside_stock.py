"""Compares served models under load: our server beside a stock server in Python, with the same requests.

    stock in Python        the export of best stock ops behind uvicorn (`ctrlab.server.bench.stock_server`), a process a core
    stock, our processor   the same export in `ctrlab serve`
    none                   the baseline's ops in `ctrlab serve`
    all                    all rungs that don't change results
    all, binary            the same, with tensors as bytes
    all, batched           the same, where requests that come together are one call
    all, user once         the same, with a user's columns once for all candidates

CPU time per request is that of the server's processes, by their own clocks, while requests follow each other on one connection:
other work on the machine hardly changes it. Without a front it is the CPU time of `Processor.process` in this process, on the
bytes of tensors. The most requests per second are searched with the generator on the same cores, within two limits that are the
same for all sides: `LIMIT` times the stock server's unloaded median, and `SHORT`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from ctrlab import data, profiles
from ctrlab.errors import CtrlabError
from ctrlab.load import arrivals, client, requests, server
from ctrlab.load.client import Target
from ctrlab.load.requests import Body
from ctrlab.load.sweep import LEAST, most_within
from ctrlab.model_names import DATA_SETS
from ctrlab.models import build
from ctrlab.profiling.environments import Environment
from ctrlab.profiling.machine import cores
from ctrlab.profiling.progress import track
from ctrlab.profiling.timing import Interval, paired
from ctrlab.serving import export_model
from ctrlab.serving.processor import Processor

LIMIT = 5.0
SHORT = 0.010
"""A limit in seconds, such as teams with a time budget set."""
LEAST_STOCK = 20.0
"""The least requests per second of the stock server within its limit; if it reaches fewer, the limit says nothing about a
load.
"""
SEARCHES = 3
STOCK = "stock in Python"
ENVIRONMENT = Environment(STOCK, ("orjson==3.13.0", "uvloop==0.23.0", "httptools==0.9.0", "uvicorn==0.54.0"))
SAME = 1e-5
STARTS_SECONDS = 120.0
CANDIDATES = (1, 200)
BODIES, CALLS = 16, 100
SECONDS = (2.0, 8.0)
"""The shortest and the longest run of a search, in seconds; in between, a run lasts until it has `ENOUGH` requests."""
ENOUGH = 200
"""Number of requests of which two are beyond the 99th percentile."""


@dataclass(frozen=True)
class Side:
    """A server: its export, the requests' format, and options of `ctrlab serve`; or the stock server in `python`."""

    name: str
    optimizations: str
    format: requests.Format = "columns"
    options: tuple[str, ...] = ()
    share_users: bool = False
    python: bool = False

    def folder(self, within: Path, model: str) -> Path:
        """The folder to which the model is exported for this side."""
        return within / f"{self.optimizations}{'-user-once' * self.share_users}" / model


SIDES = (
    Side(STOCK, "stock", python=True),
    Side("stock, our processor", "stock"),
    Side("none", "none"),
    Side("all", "all"),
    Side("all, binary", "all", "binary"),
    Side("all, batched", "all", options=("--batch-rows", "800")),
    Side("all, user once", "all", share_users=True),
)


@dataclass(frozen=True)
class SideOnModel:
    """A side on a model.

    Attributes:
        rows: number of candidates of a request.
        cpu: CPU seconds of the server's processes per request, one number per round; sample i of all sides comes from round i.
        alone: the same for the processor without a front; empty for the stock server.
        limit: the limit in seconds. most: requests per second within the limit, one number per search; empty if they were not
            searched.
        most_short: the same within `SHORT`.
        difference: the largest difference between its answers and the stock server's.
    """

    model: str
    side: str
    rows: int
    cpu: list[float]
    alone: list[float]
    limit: float
    most: list[float]
    most_short: list[float]
    difference: float


def bench_serving(models: Sequence[str], profile: str | None = None) -> Iterator[SideOnModel]:
    """Measures one row per model, number of `CANDIDATES` and side. The most requests per second are searched only for the largest
    number.

    Raises:
        CtrlabError: a server doesn't start, or a side gives other answers.
    """
    size = profiles.current(profile)
    for model in models:
        with tempfile.TemporaryDirectory(prefix="ctrlab-serving-") as folder:
            files = data.prepare(DATA_SETS[model], profile=size)
            features, _ = next(iter(files.read_test(8)))
            for place, side in {side.folder(Path(folder), model): side for side in SIDES}.items():
                export_model(build(model, optimizations=side.optimizations), place, rows=[features], share_users=side.share_users)
            table = pq.read_table(files.test[0])
            for count in CANDIDATES:
                yield from _of_model(Path(folder), model, files, table, count, size, count == max(CANDIDATES))


def _of_model(folder, model, files, table, count, size, searches) -> Iterator[SideOnModel]:
    token = secrets.token_hex(8)
    with contextlib.ExitStack() as held:
        running = {side.name: held.enter_context(_started(side, folder, model, token)) for side in SIDES}
        inputs = {side: server.inputs_of(running[side.name].targets[0], model, token) for side in SIDES if not side.python}
        plain = next(found for side, found in inputs.items() if not side.share_users)
        posts, answers, alone = {}, {}, {}
        for side in SIDES:
            taken = inputs.get(side, plain)
            made = _bodies(files, table, taken, count, side.format)
            posts[side.name] = [server.posted(model, body, token) for body in made]
            answers[side.name] = [running[side.name].scores(post, body) for post, body in zip(posts[side.name], made)]
            if not side.python and not side.options and side.format == "columns":
                processor = held.enter_context(Processor(side.folder(folder, model), intra_op_threads=1))
                alone[side.name] = _Alone(processor, _bodies(files, table, taken, count, "binary"))
        apart = {name: float(np.max(np.abs(np.subtract(found, answers[STOCK])))) for name, found in answers.items()}
        if odd := [name for name, difference in apart.items() if not difference <= SAME]:
            raise CtrlabError(f"Sides that are compared give the same answers; {odd[0]} is {apart[odd[0]]:.1g} from {STOCK}.")
        calls = 5 if size.name == "tiny" else CALLS
        sides = {name: lambda name=name: running[name].cpu_per_request(posts[name], calls) for name in running}
        for measure in sides.values():  # every process of a server is warm then
            measure()
        rounds = range(size.repetitions)
        cpu = paired(sides, track(rounds, f"CPU per request, {model}, {count} rows"))
        graphs = paired({name: lambda name=name: alone[name].cpu_per_request(calls) for name in alone}, rounds)
        limit = LIMIT * running[STOCK].unloaded(posts[STOCK], calls)
        most: dict[float, dict[str, list[float]]] = {within: {} for within in (limit, SHORT)}
        tries = 1 if size.name == "tiny" else SEARCHES
        for within, found in most.items() if searches else ():
            searching = {
                name: lambda side=running[name], sent=posts[name], within=within: side.most(sent, within, size.name == "tiny")
                for name in running
            }
            found |= paired(searching, track(range(tries), f"Searches, {model}, within {1e3 * within:.3g} ms"))
            if within == limit and Interval.of(found[STOCK]).median < LEAST_STOCK:
                raise CtrlabError(
                    f"A comparison under load needs a stock server that does {LEAST_STOCK:g} requests per second in its limit "
                    f"of {1e3 * limit:.3g} ms; it does {Interval.of(found[STOCK]).median:.3g} here: take fewer candidates."
                )
    for name in running:
        found = [most[within].get(name, []) for within in (limit, SHORT)]
        yield SideOnModel(model, name, count, cpu[name], graphs.get(name, []), limit, *found, apart[name])


def _bodies(files, table, inputs, count: int, format: requests.Format) -> list[Body]:
    return requests.bodies(table, files.schema, inputs, candidates=(count, count), count=BODIES, format=format)


@dataclass
class _Alone:
    """A processor in this process."""

    processor: Processor
    bodies: list[Body]

    def cpu_per_request(self, calls: int) -> float:
        before = time.process_time()
        for number in range(calls):
            body = self.bodies[number % len(self.bodies)]
            self.processor.process(body.data, "infer_json", body.header)
        return (time.process_time() - before) / calls


@dataclass
class _Running:
    """A server's processes and their addresses."""

    processes: list[subprocess.Popen]
    targets: list[Target]

    def scores(self, post: bytes, body: Body) -> np.ndarray:
        """The probabilities in the answer to a request, float [B, K]."""
        status, said = server.answer(self.targets[0], post)
        if status != 200:
            raise CtrlabError(f"A server of the comparison refused a request: {said[:300].decode(errors='replace')}")
        if body.header is None:
            return np.array(json.loads(said)["outputs"], np.float64)
        return np.frombuffer(said[-4 * body.rows :], np.float32).astype(np.float64).reshape(body.rows, 1)

    def cpu_per_request(self, posts: list[bytes], calls: int) -> float:
        """CPU seconds of the processes per request, while requests follow each other."""
        with contextlib.ExitStack() as held:
            lines = [held.enter_context(server.Connection(target)) for target in self.targets]
            before = sum(_cpu(process.pid) for process in self.processes)
            for number in range(calls):
                lines[number % len(lines)].answer(posts[number % len(posts)])
        return (sum(_cpu(process.pid) for process in self.processes) - before) / calls

    def unloaded(self, posts: list[bytes], calls: int) -> float:
        """The median latency at a rate at which hardly any request waits."""
        return client.send(self.targets, posts, 0.1 * np.arange(max(10, calls // 3))).percentile(50)

    def most(self, posts: list[bytes], limit: float, quick: bool) -> float:
        """The most requests per second within the limit; 0, without a search, if half of the requests exceed it although none
        waits.
        """
        alone = self.unloaded(posts, BODIES)
        if alone > limit:
            return 0.0

        def run(rate: float, seed: int):
            seconds = 0.5 if quick else min(max(ENOUGH / rate, SECONDS[0]), SECONDS[1])
            due = arrivals.poisson(rate, seconds, seed)
            return client.send(self.targets, posts, due if len(due) else np.zeros(1), rate=rate, seconds=seconds)

        highest = 60.0 if quick else 20_000.0
        return most_within(run, limit, min(max(0.5 * cores() / alone, LEAST), highest), highest).rate


@contextlib.contextmanager
def _started(side: Side, folder: Path, model: str, token: str) -> Iterator[_Running]:
    place = side.folder(folder, model)
    environment = os.environ | {"CTRLAB_TOKEN": token, "TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "200"}
    with tempfile.TemporaryFile() as log:
        if side.python:
            running = _stock(place / "1", environment, log)
        else:
            words = [sys.executable, "-m", "ctrlab", "serve", place, "--port", "0", "--grpc-port", "0", *side.options]
            process = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
            running = _Running([process], [])
        try:
            _wait(running, log)
            yield running
        finally:
            for process in running.processes:
                process.terminate()
            for process in running.processes:
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _stock(version: Path, environment: dict[str, str], log) -> _Running:
    """Starts one process per core, each on its own port, so that the generator balances the load ideally."""
    ours = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    packages = next((ENVIRONMENT.python().parents[1] / "lib").glob("python*/site-packages"))
    path = os.pathsep.join([str(packages), ours])
    running = _Running([], [])
    for _ in range(cores()):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = [sys.executable, Path(__file__).with_name("stock_server.py"), version, str(port)]
        running.processes.append(subprocess.Popen(words, env=environment | {"PYTHONPATH": path}, stdout=log, stderr=log))
        running.targets.append(Target("127.0.0.1", port))
    return running


def _wait(running: _Running, log) -> None:
    """Waits until every process answers."""
    ends = time.monotonic() + STARTS_SECONDS
    waiting = list(running.targets)
    while waiting or not running.targets:
        said = os.pread(log.fileno(), 1 << 16, 0).decode(errors="replace")  # its offset is the processes' own
        if any(process.poll() is not None for process in running.processes) or time.monotonic() > ends:
            raise CtrlabError(f"A server of the comparison did not start: {said.strip()[-500:]}")
        if not running.targets and (found := re.search(r"HTTP on http://127\.0\.0\.1:(\d+)", said)):
            running.targets = [Target("127.0.0.1", int(found[1]))]
        for target in waiting[:1]:
            with contextlib.suppress(OSError), socket.create_connection(target, 1):
                waiting.remove(target)
        time.sleep(0.05)


def _cpu(pid: int) -> float:
    """CPU seconds of all threads of a process."""
    clock = ctypes.c_int()
    if ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise CtrlabError("A server of the comparison ended before it was measured.")
    return time.clock_gettime(clock.value)


def ratio(stock: SideOnModel, row: SideOnModel) -> Interval:
    """CPU time per request of the first side, divided by that of this side."""
    return Interval.of([theirs / ours for theirs, ours in zip(stock.cpu, row.cpu)])
