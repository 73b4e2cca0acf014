"""The output of `ctrlab load` about servers that fail, answer nonsense or refuse, and about runs that are cut or stopped."""

import json
import os
import re
import signal
import threading
import time

import numpy as np
import pytest
from fake_servers import a_model, said, scores, serving
from typer.testing import CliRunner

from ctrlab import cli
from ctrlab.cli import load
from ctrlab.load import arrivals, server
from ctrlab.load.outcome import Outcome
from ctrlab.load.requests import Body

FULL = said(b"too many", 429)
pytestmark = pytest.mark.usefixtures("busy_machine")


def run(port, *options, token="a-token", host="127.0.0.1"):
    """The exit code, and what is said, with single blanks."""
    words = ["load", f"http://{host}:{port}", "--model", "m", "--data", "amazon_reviews", "--profile", "tiny", "--bodies", "2"]
    runner = CliRunner(env={"COLUMNS": "200", "CTRLAB_TOKEN": token})
    found = runner.invoke(cli.app, [*words, "--candidates", "3", *map(str, options)])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, " ".join(found.output.split())


def test_the_page_shows_what_failed(tmp_path):
    """About half of the run's requests are refused, so the page has no p95."""
    refuses = a_model(lambda number, body: FULL if number % 2 else scores(body))
    with serving(refuses) as port:
        code, output = run(port, "--rate", 100, "--seconds", 1, "--html", tmp_path / "f.html", "--json", tmp_path / "f.json")
    [outcome] = json.loads((tmp_path / "f.json").read_text())
    failed = outcome["failures"]["status 429"]
    page = (tmp_path / "f.html").read_text()
    assert f"100 a second: {failed} status 429 of {failed + len(outcome['latencies'])}" in page and "p95, p99 never" in page
    assert code == 0 and f"{failed} failed, the first: status 429: too many" in output


def test_a_generator_that_is_late_measured_nothing(monkeypatch):
    monkeypatch.setattr(Outcome, "behind", lambda self: True)
    with serving(a_model()) as port:
        code, output = run(port, "--rate", 20, "--seconds", 0.5)
    assert code == 1 and "(the generator fell behind)" in output and "ms late, so the run says nothing of the server" in output


def test_a_rate_that_is_tried_twice_has_two_curves():
    tries = (Outcome(20, 1.0, (0.1,)), Outcome(40, 1.0, (0.2,), {"timeout": 1, "status 503": 2}), Outcome(40, 1.0, (0.3,)))
    found = load.curves(tries)
    assert list(found) == ["20 a second", "40 a second: 1 timeout, 2 status 503 of 4", "40 a second, again"]
    assert list(found.values()) == [(0.1,), (0.2, *[np.inf] * 3), (0.3,)]


@pytest.mark.parametrize(("number", "code", "says"), [(signal.SIGINT, 130, "Interrupted."), (signal.SIGTERM, 143, "Terminated.")])
def test_a_signal_ends_a_load(number, code, says):
    seen = threading.Event()

    def answer(count, body):
        if count == 10 and not seen.is_set():  # the warm-up has begun
            seen.set()
        return scores(body)

    begun = []

    def end():
        seen.wait(60)
        begun.append(time.monotonic())
        os.kill(os.getpid(), number)

    with serving(a_model(answer)) as port:
        threading.Thread(target=end).start()
        found = run(port, "--rate", 20, "--seconds", 30)
    assert found[0] == code and found[1].endswith(says) and time.monotonic() - begun[0] < 15, "of 30 s"


def test_a_run_that_is_cut_says_so_and_counts_its_real_length(tmp_path):
    begun = time.monotonic()
    with serving(a_model()) as port:
        code, output = run(port, "--rate", 100, "--seconds", 30, "--most-requests", 50, "--json", tmp_path / "f.json")
    [outcome] = json.loads((tmp_path / "f.json").read_text())
    assert code == 0 and 0.2 < outcome["seconds"] < 1.5 and len(outcome["latencies"]) == 50
    assert f"cut after {outcome['seconds']:.3g} s: --most-requests is 50" in output
    asked, answered = re.search(r"│ ([0-9.]+) │ ([0-9.]+) │", output).groups()
    assert time.monotonic() - begun < 15, "a warm-up has a length of its own"
    assert float(asked) == 100 and float(answered) == pytest.approx(50 / max(outcome["seconds"], outcome["took"]), rel=0.1)


@pytest.mark.parametrize("token", ["tok\n", "tok€", "tök", "a\r\nX: y"])
def test_a_token_that_no_header_holds_is_a_sentence(token):
    code, output = run(1, "--rate", 5, token=token)
    assert code == 1 and output == "A token is printable ASCII; CTRLAB_TOKEN's has other characters: set it to the server's."


@pytest.mark.parametrize("host", ["a" * 80, "a..b", "."])
def test_a_host_that_is_no_name_is_a_sentence(host):
    code, output = run(1, "--rate", 5, host=host)
    assert code == 1 and output.startswith("A load goes to an address such as http://127.0.0.1:8501")


ODD = {"nothing": b"", "an error": b'{"error": "no weights"}', "two of three": b'{"outputs": [[0.5], [0.5]]}'}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD)
def test_an_answer_without_the_scores_is_a_failure(body, tmp_path):
    with serving(a_model(lambda number, asked: said(body) if number % 2 else scores(asked))) as port:
        _, output = run(port, "--rate", 50, "--seconds", 1, "--json", tmp_path / "f.json")
    [outcome] = json.loads((tmp_path / "f.json").read_text())
    assert outcome["failures"]["odd answer"] > 10 and len(outcome["latencies"]) > 10
    assert "the first: odd answer: 3 scores were asked for; received" in output


def test_a_server_that_gives_no_scores_is_asked_once():
    with serving(a_model(lambda number, body: said(ODD["an error"]))) as port:
        code, output = run(port, "--rate", 50)
    assert code == 1 and 'answers without scores: 3 scores were asked for; received {"error": "no weights"}' in output


def test_binary_answers_have_their_bytes():
    head, body = b'{"outputs": [{"name": "probabilities"}]}', Body(b"", 10, 300)
    assert server.odd(body, head + bytes(1200)) == ""
    assert server.odd(body, head + bytes(1100)) and server.odd(body, bytes(1300)) and server.odd(body, b"")


def test_a_run_without_an_answer_fails_and_says_why(tmp_path):
    with serving(a_model(lambda number, body: said(b"[red]no weights\x1b[2J", 500) if number else scores(body))) as port:
        code, output = run(port, "--rate", 30, "--seconds", 1, "--html", tmp_path / "f.html", "--json", tmp_path / "f.json")
    assert code == 1 and not (tmp_path / "f.html").exists() and json.loads((tmp_path / "f.json").read_text())
    assert re.search(
        r"A load has an answer at least; none of the \d+ requests got one \(status 500: \[red\]no weights \[2J\)", output
    )
    assert "f.html is not written" in output


@pytest.mark.parametrize(("rate", "seconds", "count"), [(0.1, 0.1, 1), (20, 0.1, 2), (20, 2, 40), (0.5, 2, 1)])
def test_a_warm_up_is_never_empty(rate, seconds, count):
    due = arrivals.even(rate, seconds)
    assert len(due) == count and due[0] == 0 and due[-1] < seconds and np.allclose(np.diff(due), 1 / rate)


def test_a_short_run_is_not_refused_for_its_warm_up():
    with serving(a_model()) as port:
        code, output = run(port, "--rate", 500, "--seconds", 0.1)
    assert code == 0 and output.startswith("Warm-up, 20 a second")
