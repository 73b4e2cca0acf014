"""`ctrlab load` against `ctrlab serve`: figures of a real server, and a sentence for what can't be."""

import itertools
import json
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))
from serve_command import TOKEN, Server

import ctrlab
from ctrlab import cli, data, serving
from ctrlab.load import requests, server
from ctrlab.load.client import Target


@pytest.fixture(scope="module")
def files():
    return data.prepare("amazon_reviews", profile="tiny", progress=False)


@pytest.fixture(scope="module")
def served(files, tmp_path_factory):
    """The port of a server of DIN."""
    folder = tmp_path_factory.mktemp("models") / "din"
    features, _ = next(iter(files.read_test(8)))
    serving.export_model(ctrlab.build("din", optimizations="all"), folder, rows=[features])
    found = Server(folder)
    yield found.port
    found.process.terminate()
    found.process.wait(60)


def load(port, *options, token=TOKEN):
    words = ["load", f"http://127.0.0.1:{port}", "--seconds", "1", "--profile", "tiny", "--bodies", "4", *map(str, options)]
    return CliRunner(env={"COLUMNS": "160", "CTRLAB_TOKEN": token}).invoke(cli.app, words)


OF_DIN = ("--model", "din", "--data", "amazon_reviews")


@pytest.mark.usefixtures("busy_machine")
def test_a_rate_is_sent_and_told(served, tmp_path):
    found = load(
        served, *OF_DIN, "--rate", 30, "--candidates", "1-20", "--json", tmp_path / "f.json", "--html", tmp_path / "f.html"
    )
    assert found.exit_code == 0, found.output
    [outcome] = json.loads((tmp_path / "f.json").read_text())
    assert outcome["failures"] == {} and 10 < len(outcome["latencies"]) < 60
    assert "Latency from the time due" in (tmp_path / "f.html").read_text()


@pytest.mark.parametrize(
    ("options", "token", "says"),
    [
        ((*OF_DIN, "--rate", 5), "another", "asks for its token: set CTRLAB_TOKEN"),
        (("--model", "dni", "--data", "amazon_reviews", "--rate", 5), TOKEN, "has no model dni: This server has the models din"),
        (("--model", "din", "--data", "criteo", "--rate", 5), TOKEN, "The model takes a column .*, and data set criteo has"),
        (OF_DIN, TOKEN, "give --rate, or --find-most"),
        ((*OF_DIN, "--rate", 5, "--candidates", "9-2"), TOKEN, "--candidates takes a number or a range"),
    ],
)
def test_what_can_not_be_is_a_sentence(served, options, token, says):
    found = load(served, *options, token=token)
    assert found.exit_code == 1 and re.search(says, " ".join(found.output.split())), found.output


def test_nothing_that_listens_is_a_sentence():
    found = load(1, *OF_DIN, "--rate", 5)
    assert found.exit_code == 1 and "A load needs a server that answers; 127.0.0.1:1 does not" in " ".join(found.output.split())


def test_both_formats_have_the_same_rows_and_answers(served, files):
    where = Target("127.0.0.1", served)
    inputs, table = server.inputs_of(where, "din", TOKEN), pq.read_table(files.test[0])
    found = []
    for format in requests.FORMATS:
        made = requests.bodies(table, files.schema, inputs, candidates=(7, 7), count=3, format=format, seed=2)
        assert [body.rows for body in made] == [7] * 3
        found.append([server.answer(where, server.posted("din", body, TOKEN)) for body in made])
    for (status, plain), (binary_status, binary) in zip(*found):
        assert status == binary_status == 200
        numbers = np.array(json.loads(plain)["outputs"], np.float32).ravel()
        assert np.allclose(numbers, np.frombuffer(binary[-4 * 7 :], np.float32), atol=1e-6)


def test_a_request_has_one_user_and_many_candidates(served, files):
    inputs = server.inputs_of(Target("127.0.0.1", served), "din", TOKEN)
    made = requests.bodies(pq.read_table(files.test[0]), files.schema, inputs, candidates=(50, 50), count=20)
    users, shared = [], 0
    for body in made:
        columns = json.loads(body.data)["inputs"]
        assert len(set(columns["user"])) == 1 and len(set(columns["item"])) > 10
        splits = columns["history_items/row_splits"]
        lists = {tuple(columns["history_items/values"][a:b]) for a, b in itertools.pairwise(splits)}
        shared += len(lists) == 1
        users.append(columns["user"][0])
    assert shared == 20 and len(set(users)) > 1


def test_a_model_whose_candidates_share_users_gets_the_user_once(served, files):
    where, table = Target("127.0.0.1", served), pq.read_table(files.test[0])
    inputs = server.inputs_of(where, "din", TOKEN)
    [plain] = requests.bodies(table, files.schema, inputs, candidates=(9, 9), count=1)
    [once] = requests.bodies(table, files.schema, inputs | {"candidates": "INT64"}, candidates=(9, 9), count=1)
    of_all, of_one = (json.loads(body.data)["inputs"] for body in (plain, once))
    assert of_one["candidates"] == [once.rows] == [plain.rows] == [9]
    for name, values in of_one.items():
        if name.startswith(("user", "history")):
            assert values == of_all[name][: len(values)] and len(values) < len(of_all[name])
        elif name != "candidates":
            assert values == of_all[name]
