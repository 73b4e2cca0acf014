"""When a run that follows a folder ends by itself: only while it waits for rows, however long a step or a save takes."""

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ctrlab import data
from ctrlab.cli import app, train_follow
from ctrlab.data.arrow import arrow_schema
from ctrlab.model_names import DATA_SETS

BATCH, STEPS = 512, 4


class Clock:
    """Each look at it takes 1,000 s. Who waits for ever is told."""

    def __init__(self, slept=lambda: None):
        self.looks, self.waits, self._slept = itertools.count(0, 1000), 0, slept

    def monotonic(self):
        return next(self.looks)

    def sleep(self, seconds):
        self.waits += 1
        assert self.waits < 20, "it waits for ever"
        self._slept()


@pytest.fixture
def rows(tmp_path):
    name = DATA_SETS["din"]
    table = pa.concat_tables(part.cast(arrow_schema(data.schema(name))) for part in data.generate(name, STEPS * BATCH + 10))
    (tmp_path / "rows").mkdir()
    pq.write_table(table, tmp_path / "rows" / "1.parquet")
    return tmp_path / "rows"


def run(*options):
    found = CliRunner().invoke(app, ["train", "din", "--idle", "100s", *map(str, options)])
    assert found.exit_code == 0, found.output
    return " ".join(found.output.split())


def test_rows_that_are_there_are_trained_on_although_saves_take_longer_than_idle(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(train_follow, "time", Clock())
    said = run("--follow", rows, "--checkpoint", tmp_path / "run", "--every", 1)
    assert f"Trained on {STEPS * BATCH:,} rows" in said and "10 rows wait for a whole batch" in said


def test_without_a_first_file_nothing_is_published(tmp_path, monkeypatch):
    monkeypatch.setattr(train_follow, "time", Clock())
    (tmp_path / "rows").mkdir()
    said = run("--follow", tmp_path / "rows", "--publish", tmp_path / "models" / "ctr")
    assert "No file with rows came" in said and not (tmp_path / "models").exists()
