"""`ctrlab train --embedding variable`: a run that was stopped ends as one that was not, by whole saves and by deltas."""

import re
import threading

import numpy as np
import pytest
from histories import as_rows
from typer.testing import CliRunner

from ctrlab import cli
from ctrlab.embedding import CounterFilter, EmbeddingVariable, Options, embedding_variables
from ctrlab.embedding.choices import NAMES, Variable
from ctrlab.embedding.formats.saves import open_save, paths_in, places_of, tables_in
from ctrlab.errors import CtrlabError
from ctrlab.training import Spec, run

SAVING = ["--every", "3", "--full-every", "3"]  # of 8 steps: whole after 3, changes after 6 and 8
VARIABLE = ["--embedding", "variable", "--admission", "2", "--evict-after", "2"]


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    """call(*arguments) runs a command in this process, on tiny data that are made once."""
    env = {"CTRLAB_CACHE": str(tmp_path_factory.mktemp("cache")), "COLUMNS": "200"}
    return lambda *arguments: CliRunner(env=env).invoke(cli.app, [str(a) for a in arguments])


def train(call, folder, *more):
    return call("train", "mmoe", "--profile", "tiny", *VARIABLE, "--checkpoint", folder, *SAVING, *more)


def last_of(folder):
    paths = [path for _, path in paths_in(folder)]
    links = open_save(paths[-1], places_of(paths))
    last = links[-1]
    return paths, last.save, {name: array.read() for name, array in last.others.items()}, tables_in(links)


@pytest.fixture(scope="module")
def whole(call, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    found = train(call, folder)
    assert found.exit_code == 0, found.output
    return folder, found.stdout


def interrupted_after(monkeypatch, steps):
    """Makes `ctrlab train` behave as if interrupted by Ctrl-C after this number of steps."""
    own = run.train

    def stopped(model, optimizer, batches, most, hooks, step):
        def interrupt(number, loss):
            if number + 1 == steps:
                raise KeyboardInterrupt

        return own(model, optimizer, batches, most, [*hooks, interrupt], step)

    monkeypatch.setattr(run, "train", stopped)


def test_whole_saves_and_deltas_of_what_options_keep(whole):
    folder, printed = whole
    paths, save, _, tables = last_of(folder)
    assert [path.name for path in paths] == [f"step-00000000{n}.safetensors" for n in ("3", "6.delta", "8.delta")]
    assert (save.position, save.number) == (8, 2) and save.run["embedding"].startswith("Variable, CounterFilter")
    rows = sum(len(state.keys) for state in tables.values())
    assert rows > 0 and f"Embedding variables: {rows:,} rows in {len(tables)} tables, " in printed
    for state in tables.values():
        assert state.steps.min(initial=8) >= 6 and state.candidate_steps.min(initial=8) >= 6  # --evict-after 2
        assert state.frequencies.min(initial=2) >= 2 and state.candidate_counts.max(initial=1) == 1  # --admission 2


def test_a_run_that_was_stopped_ends_as_one_that_was_not(call, whole, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupted_after(patch, 7)
        assert train(call, tmp_path).exit_code == 130
    assert last_of(tmp_path)[1].position == 6
    found = train(call, tmp_path, "--resume")
    assert found.exit_code == 0 and "Resumed after 6 batches" in found.stdout
    (_, one, arrays, tables), (_, other, its_arrays, its_tables) = last_of(whole[0]), last_of(tmp_path)
    assert one.position == other.position == 8 and arrays.keys() == its_arrays.keys() and tables.keys() == its_tables.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, its_arrays[name], err_msg=name)
    for name, state in tables.items():
        assert as_rows(state) == as_rows(its_tables[name])


def test_a_run_goes_on_with_its_own_rules_only(call, whole):
    found = call("train", "mmoe", "--profile", "tiny", "--embedding", "hashed", "--checkpoint", whole[0], "--resume")
    assert found.exit_code == 1 and "goes on with the same embedding" in found.stderr and "now it is Hashed" in found.stderr


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (NAMES["hashed"], "Hashed"),
        (NAMES["multihash"], "QuotientRemainder"),
        (NAMES["variable"], "Variable"),
        (Variable(Options(admission=CounterFilter(2))), "Variable, CounterFilter(threshold=2)"),
    ],
)
def test_a_choice_in_words(choice, words):
    assert Spec("mmoe", embedding=choice).in_words["embedding"] == words


def test_rows_sink_to_the_storage(call, tmp_path):
    options = ["--embedding", "variable", "--storage", tmp_path / "rows", "--memory-rows", "40"]
    found = call("train", "mmoe", "--profile", "tiny", *options)
    assert found.exit_code == 0 and "of them on the disk" in found.stdout, found.output
    assert list((tmp_path / "rows").glob("*/TIER"))


ROWS_BELOW = ["--embedding", "variable", "--memory-rows", "1700", "--epochs", "2"]


def test_rows_come_up_before_the_step_that_reads_them(call, tmp_path, monkeypatch):
    """For columns with one id per row, the memory holds the rows of two batches, and most rows lie below it; not for lists."""
    own, stats = run.evaluate, []

    def evaluate(model, *options):
        stats.extend(v.stats() for v in embedding_variables(model) if not v.name.endswith("_list"))
        return own(model, *options)

    monkeypatch.setattr(run, "evaluate", evaluate)
    found = call("train", "mmoe", "--profile", "tiny", *ROWS_BELOW, "--storage", tmp_path / "rows")
    assert found.exit_code == 0, found.output
    assert sum(s.rows_below for s in stats) > 5_000 and sum(s.hits for s in stats) > 10_000
    assert sum(s.hits_below for s in stats) == 0
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ctrlab-prefetch")]


@pytest.mark.parametrize("stops", [KeyboardInterrupt, CtrlabError("The disk is full.")])
def test_who_stops_a_training_with_a_storage_leaves_no_thread(call, tmp_path, monkeypatch, stops):
    def prefetch(self, keys):
        prefetched.append(len(keys))
        if len(prefetched) == 20 and isinstance(stops, CtrlabError):
            raise stops

    prefetched = []
    monkeypatch.setattr(EmbeddingVariable, "prefetch", prefetch)
    if stops is KeyboardInterrupt:
        interrupted_after(monkeypatch, 3)
    found = call("train", "mmoe", "--profile", "tiny", *ROWS_BELOW, "--storage", tmp_path / "rows")
    assert found.exit_code == (130 if stops is KeyboardInterrupt else 1), found.output
    if isinstance(stops, CtrlabError):
        assert found.stderr.splitlines()[-1] == "The disk is full."
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ctrlab-prefetch")]


def test_a_storage_that_can_t_be_made_is_one_sentence(call, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    options = ["--embedding", "variable", "--storage", tmp_path / "file" / "rows", "--memory-rows", "40"]
    found = call("train", "mmoe", "--profile", "tiny", *options)
    assert found.exit_code == 1, found.output
    assert re.fullmatch(r"Embedding variable \w+: Can't make the store's folder \S+file/rows/\w+: [^\n\[]+\n", found.stderr)
