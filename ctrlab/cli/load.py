"""`ctrlab load`: requests for a served model at a rate, or the most that it answers within a limit."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ctrlab.cli.app import JsonOption, ProfileOption, SourceOption, console, duration, require_files, write_json
from ctrlab.cli.serve import TOKEN
from ctrlab.errors import CtrlabError
from ctrlab.paths import write_atomically

if TYPE_CHECKING:
    import numpy as np

    from ctrlab.load.outcome import Outcome

WARM_RATE, WARM_SECONDS = 20.0, 2.0
"""Requests per second before the first run, and the most seconds for which they are sent."""


def command(
    url: Annotated[str, typer.Argument(help="Of the server, such as http://127.0.0.1:8501.")],
    model: Annotated[str, typer.Option(help="Its name there.")],
    data: Annotated[str, typer.Option(help="The data set whose held-out rows the requests are made of.")],
    rate: Annotated[float | None, typer.Option(min=0.1, help="Requests a second, in the mean.")] = None,
    find_most: Annotated[bool, typer.Option("--find-most", help="Search for the largest rate within the limit.")] = False,
    within: Annotated[str, typer.Option(help="The limit, for 99 % of the requests.")] = "50ms",
    candidates: Annotated[str, typer.Option(help="Rows of a request: a number, or a range such as 1-500.")] = "200",
    seconds: Annotated[float, typer.Option(min=0.1, max=3600, help="Of a run.")] = 10.0,
    most_requests: Annotated[int, typer.Option(min=1, help="Of a run, which is cut there.")] = 100_000,
    format: Annotated[str, typer.Option(help="columns (JSON) or binary (the open inference protocol).")] = "columns",
    bodies: Annotated[int, typer.Option(min=1, help="Different requests, sent in rotation.")] = 64,
    timeout: Annotated[str, typer.Option(help="After which a request has failed.")] = "10s",
    seed: Annotated[int, typer.Option(min=0, help="Of the schedule and of the requests.")] = 0,
    source: SourceOption = "generated",
    profile: ProfileOption = None,
    html: Annotated[Path | None, typer.Option(help="Write the curves of latencies to this file.", dir_okay=False)] = None,
    json_path: JsonOption = None,
) -> None:
    """Send requests to a served model when they are due, whether or not others were answered, and say how long they took.

    The server's token is CTRLAB_TOKEN's.

    - `ctrlab load http://127.0.0.1:8501 --model deepfm --data food_delivery --rate 100`
    - `ctrlab load http://127.0.0.1:8501 --model deepfm --data food_delivery --find-most --within 50ms`
    """
    if (rate is None) != find_most:
        raise CtrlabError("A load has a rate or searches for one: give --rate, or --find-most.")
    limit, patience, spread = duration("--within", within), duration("--timeout", timeout), _range(candidates)
    require_files(json_path, html)
    import pyarrow.parquet as pq

    from ctrlab import data as sets
    from ctrlab.load import arrivals, client, requests, server, sweep

    where, token = server.target(url), os.environ.get(TOKEN, "")
    inputs = server.inputs_of(where, model, token)
    files = sets.prepare(data, profile=profile, source=source)
    made = requests.bodies(
        pq.read_table(files.test[0]), files.schema, inputs, candidates=spread, count=bodies, format=format, seed=seed
    )
    posts = [server.posted(model, body, token) for body in made]
    status, said = server.answer(where, posts[0])
    if status != 200:
        raise CtrlabError(f"The server at {where} refuses such requests ({status}): {said.decode(errors='replace')[:300]}")

    def odd(number: int, answer: bytes) -> str:
        return server.odd(made[number], answer)

    if why := odd(0, said):
        raise CtrlabError(f"The server at {where} answers without scores: {_shown(why)}.")

    def send(due: np.ndarray, asked: float, length: float, before: str = "", after: str = "") -> Outcome:
        outcome = client.send([where], posts, due, rate=asked, seconds=length, timeout=patience, odd=odd)
        out.print(f"{before}{line(outcome)}{after}", highlight=False, markup=False, soft_wrap=True)
        return outcome

    def run(asked: float, number: int) -> Outcome:
        due = arrivals.poisson(asked, seconds, seed + number, most_requests)
        if not len(due):
            raise CtrlabError(
                f"A run has a request at least; at {asked:g} a second {seconds:g} s have none: give it more seconds."
            )
        if len(due) < most_requests:
            return send(due, asked, seconds)
        length = float(due[-1])
        return send(due, asked, length, after=f"; cut after {length:.3g} s: --most-requests is {most_requests}")

    out = console()
    pace, length = min(rate or WARM_RATE, WARM_RATE), min(seconds, WARM_SECONDS)
    send(arrivals.even(pace, length), pace, length, before="Warm-up, ")  # connections, pages and caches
    if rate is not None:
        tries = (run(rate, 0),)
    else:
        most = sweep.most_within(run, limit, WARM_RATE)
        tries = most.tries
        ended = "; the generator can't make more, the server may" if most.of_generator else ""
        out.print(f"Within {within}: {most.rate:.4g} requests a second{ended}", highlight=False, soft_wrap=True)
    out.print(table_of(tries))
    write_json(json_path, [dataclasses.asdict(one) for one in tries], indent=None)
    if not any(one.latencies for one in tries):
        unwritten = f"; {html} is not written" if html else ""
        asked, why = sum(one.requests for one in tries), _shown(tries[0].why)
        raise CtrlabError(f"A load has an answer at least; none of the {asked} requests got one ({why}){unwritten}.")
    if html:
        from ctrlab.profiling import page
        from ctrlab.profiling.charts import latency

        drawn = latency(curves(tries), title="Latency from the time due")
        write_atomically(html, page.of_figures([drawn], f"Load on {model}"))
    if rate is not None and tries[0].behind():
        raise CtrlabError(
            f"A generator sends on time; at {rate:g} a second this one was {1e3 * tries[0].lag:.0f} ms late, so the run says "
            "nothing of the server: ask for less, or load from another machine."
        )


def line(outcome: Outcome) -> str:
    """One line about a run."""
    late = " (the generator fell behind)" if outcome.behind() else ""
    why = f", the first: {_shown(outcome.why)}" if outcome.failed else ""
    return f"{outcome.rate:.4g} a second: p99 {_ms(outcome.percentile(99))} ms, {outcome.failed} failed{why}{late}"


def _shown(why: str) -> str:
    """A text from a server, without characters that would move a terminal's cursor."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in why).split())[:200]


def table_of(tries: tuple[Outcome, ...]) -> Table:
    """A table with one line per run."""
    table = Table(title="Latency from the time that each request was due; failures count as infinitely late")
    headings = ("asked/s", "answered/s", "p50, ms", "p95", "p99", "max", "failed", "late, ms", "generator, us")
    for heading in headings:
        table.add_column(heading, justify="right")
    for one in sorted(tries, key=lambda one: one.rate):
        times = [_ms(one.percentile(percent)) for percent in (50, 95, 99, 100)]
        failed = _failures(one) or "0"
        cpu = f"{1e6 * one.cpu / one.requests:.0f}"
        table.add_row(f"{one.rate:.4g}", f"{one.achieved:.4g}", *times, failed, f"{1e3 * one.lag:.2g}", cpu)
    return table


def curves(tries: Sequence[Outcome]) -> dict[str, tuple[float, ...]]:
    """{name of a run, with its failures: seconds of each of its requests, infinite for failed ones}."""
    found = {}
    for number, one in enumerate(tries):
        again = ", again" if one.rate in [other.rate for other in tries[:number]] else ""
        failed = f": {_failures(one)} of {one.requests}" if one.failed else ""
        found[f"{one.rate:.4g} a second{again}{failed}"] = one.latencies + (math.inf,) * one.failed
    return found


def _failures(outcome: Outcome) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in outcome.failures.items())


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


def _range(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([1-9][0-9]{0,5})(?:-([1-9][0-9]{0,5}))?", text)
    if not found or int(found[2] or found[1]) < int(found[1]):
        raise CtrlabError(f"--candidates takes a number or a range, such as 200 or 1-500; received {text}.")
    return int(found[1]), int(found[2] or found[1])
