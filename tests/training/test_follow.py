"""A run that follows a folder takes the same steps as one that has all rows at once, whenever its files come and it is killed."""

import itertools
import signal
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ctrlab import data
from ctrlab.cli import app
from ctrlab.data.arrow import arrow_schema
from ctrlab.embedding.choices import Variable
from ctrlab.embedding.options import Options, Storage
from ctrlab.errors import CtrlabError
from ctrlab.model_names import DATA_SETS
from ctrlab.training import Run, Saving, Spec
from ctrlab.training.state import get_state
from tests import forked

BATCH = 512
ROWS = 7 * BATCH + 100


@pytest.fixture(scope="module")
def table():
    name = DATA_SETS["din"]
    parts = list(data.generate(name, ROWS))
    return pa.concat_tables(part.cast(arrow_schema(data.schema(name))) for part in parts)


def put(folder, number, table):
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / f".{number}")
    (folder / f".{number}").rename(folder / f"{number:03}.parquet")


def followed(spec, steps=None):
    """Follows until there are too few rows, or for so many steps."""
    losses, waits = [], []
    with Run(spec) as run:
        run.follow(
            lambda number, loss: losses.append(loss),
            ends=lambda: bool(waits) or len(losses) == steps,
            on_wait=lambda: waits.append(1),
        )
        return losses, get_state(run.model, run.optimizer)


def same(found, expected):
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("optimizations", ["none", "all"])
def test_it_takes_the_steps_of_one_who_has_all_rows(table, tmp_path, optimizations):
    put(tmp_path / "whole", 0, table)
    losses, _ = followed(Spec("din", optimizations, follow=tmp_path / "whole"))
    assert len(losses) == 7
    parts, saving = tmp_path / "parts", Saving(tmp_path / "run", resume=True)
    spec, found, cuts = Spec("din", optimizations, follow=parts, saving=saving), [], [0, 100, BATCH, BATCH + 1, 2000, ROWS]
    for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
        put(parts, number, table[begin:end])
        found += followed(spec, steps=1 if number == 4 else None)[0]
    found += followed(spec)[0]
    np.testing.assert_allclose(found, losses, rtol=1e-5)


def test_rows_as_a_server_logs_them_are_enough_where_negatives_are_not_used(table, tmp_path, caplog):
    put(tmp_path / "rows", 0, table.drop_columns(["negative_items", "negative_categories"]))
    assert len(followed(Spec("din", follow=tmp_path / "rows"))[0]) == 7
    assert followed(Spec("dien", follow=tmp_path / "rows"))[0] == []
    assert "has no column 'negative_items', which amazon_reviews needs" in caplog.text


def test_rows_on_a_disk_are_there_before_they_are_needed(table, tmp_path):
    def variable(place):
        return Variable(Options(storage=Storage(str(tmp_path / place), 200)))

    put(tmp_path / "whole", 0, table)
    losses, state = followed(Spec("din", "all", embedding=variable("a"), follow=tmp_path / "whole"))
    for number in range(8):
        put(tmp_path / "parts", number, table[number * BATCH : (number + 1) * BATCH])
    found, parts_state = followed(Spec("din", "all", embedding=variable("b"), follow=tmp_path / "parts"))
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    assert len(losses) == 7 and parts_state.keys() == state.keys()


def test_a_followed_run_has_no_held_out_rows_and_goes_on_only_as_one(table, tmp_path):
    put(tmp_path / "rows", 0, table[: 2 * BATCH])
    saving = Saving(tmp_path / "run", resume=True)
    followed(Spec("din", follow=tmp_path / "rows", saving=saving))
    with Run(Spec("din", follow=tmp_path / "rows")) as run, pytest.raises(CtrlabError, match="has no held-out rows"):
        run.evaluate()
    with pytest.raises(CtrlabError, match="followed"):
        Run(Spec("din", profile="tiny", saving=saving))


COMMAND = [sys.executable, "-m", "ctrlab", "train", "din", "--optimizations", "all", "--follow"]


def test_the_command_publishes_what_it_learns_and_ends_when_nothing_comes(table, tmp_path):
    put(tmp_path / "rows", 0, table[: 3 * BATCH])
    options = ["--checkpoint", tmp_path / "run", "--publish", tmp_path / "models/ctr", "--publish-every", "200ms", "--resume"]
    found = forked.run(
        [*COMMAND, tmp_path / "rows", *options, "--idle", "3s"], capture_output=True, text=True, timeout=300, check=True
    )
    assert f"Trained on {3 * BATCH:,} rows" in found.stdout.replace("\n", " ") and "1 full versions" in found.stdout
    put(tmp_path / "rows", 1, table[3 * BATCH :])
    process = forked.Popen([*COMMAND, tmp_path / "rows", *options], stdout=subprocess.PIPE, text=True)
    said = []
    reader = threading.Thread(target=lambda: said.extend(process.stdout))
    reader.start()
    ledger, updates = tmp_path / "run" / "followed.jsonl", tmp_path / "models/ctr/2.updates"
    while process.poll() is None and not (updates.exists() and list(updates.iterdir())) and len(said) < 10_000:
        threading.Event().wait(0.2)
        if (tmp_path / "models/ctr/2").exists() and len(ledger.read_text().splitlines()) == 2:
            break
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0, said
    reader.join()
    assert "Trained on" in "".join(said)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--follow", "rows", "--epochs", "2"], "leave out --epochs and --data"),
        (["--idle", "3s"], "name the folder with --follow"),
        (["--follow", "nowhere"], "in a folder; nowhere is none"),
    ],
)
def test_odd_options_are_refused(options, sentence):
    found = CliRunner().invoke(app, ["train", "din", *options])
    assert found.exit_code == 1 and sentence in " ".join(found.output.split())
