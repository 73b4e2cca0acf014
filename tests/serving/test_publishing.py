"""Publishing: servers that follow a training answer as the model does, through full versions, updates, evictions and faults."""

import itertools
import json
import logging
import re
import shutil

import numpy as np
import pytest
from served import TOLERANCE, first, probabilities, wait_for
from trainers import Trainer, published
from wire_requests import by_columns

from ctrlab import serving
from ctrlab.embedding import Options, Storage, embedding_variables
from ctrlab.embedding.choices import QuotientRemainder, Variable
from ctrlab.embedding.options import GlobalStepEviction
from ctrlab.errors import CtrlabError
from ctrlab.serving import inputs
from ctrlab.serving.processor import Processor
from ctrlab.serving.publishing_folder import LOCKED
from ctrlab.serving.versions import LAST, versions
from ctrlab.serving.weights import Moment, write_update

CHOICES = {
    "hashed": "hashed",
    "rows that come and go": Variable(Options(eviction=GlobalStepEviction(1))),
    "on disk": Variable(Options(storage=Storage("rows", 20))),
    "multi-hash": QuotientRemainder(),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", ["wdl", "dlrm", "dien"])
def test_a_server_follows_a_training(small_batches, tmp_path, name, choice):
    follows(small_batches, tmp_path, name, CHOICES[choice])


@pytest.mark.parametrize("name", ["deepfm", "din", "mmoe"])
def test_a_server_follows_each_model(small_batches, tmp_path, name):
    follows(small_batches, tmp_path, name, "hashed")


def follows(small_batches, tmp_path, name, choice):
    if isinstance(choice, Variable) and choice.options.storage:
        choice = Variable(Options(storage=Storage(str(tmp_path / "rows"), 20)))
    trainer, folder, seen = Trainer(small_batches, name, choice), tmp_path / "ctr", []
    with trainer.publisher(folder, every=1e6, full_every=4) as publisher:
        for _ in range(6):
            trainer.step()
            for table in embedding_variables(trainer.model):
                if table.options.eviction:
                    table.evict(int(trainer.optimizer.iterations))
            published(publisher)
            with Processor(folder, poll_seconds=0) as processor:
                seen.append(trainer.agrees(processor))
        assert seen == [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1)]
        found = publisher.published
        assert (found.versions, found.updates) == (2, 4) and found.bytes > 4 * found.rows > 0
        if choice == "hashed":
            assert found.rows < 4 * sum(table.shape[0] for table in publisher._bundled.tables)
        trainer.step()
    with Processor(folder, poll_seconds=0) as processor:  # `close` published the last step
        assert trainer.agrees(processor) == (2, 2)
    serving.verify(folder / "1")


def test_a_server_that_runs_takes_each_update(small_batches, tmp_path):
    trainer, folder = Trainer(small_batches, "din"), tmp_path / "ctr"
    with trainer.publisher(folder, every=1e6) as publisher:
        trainer.step()
        published(publisher)
        with Processor(folder, poll_seconds=0.01) as processor, Processor(folder, poll_seconds=0.01, version=1) as pinned:
            for update in range(1, 6):
                trainer.step()
                published(publisher)
                wait_for(lambda: processor.info()["update"] == pinned.info()["update"] == publisher.published.updates)
                assert trainer.agrees(processor) == trainer.agrees(pinned) == (1, update)
            assert processor.info()["step"] == trainer.number


def test_updates_come_by_the_clock(small_batches, tmp_path):
    """Without a word from the trainer, in steps of Keras's own."""
    trainer, folder = Trainer(small_batches, "dlrm"), tmp_path / "ctr"
    with trainer.publisher(folder, every=0.05) as publisher:
        while publisher.published.updates < 3:
            trainer.step()
            publisher(trainer.number, 0.0)
    with Processor(folder, poll_seconds=0) as processor:
        assert trainer.agrees(processor)[1] >= 3


@pytest.fixture(scope="module")
def training_of(small_batches, tmp_path_factory):
    """The folder of a version and five updates, and (update: what the model answered then)."""
    trainer, folder = Trainer(small_batches, "dlrm", Variable()), tmp_path_factory.mktemp("published") / "ctr"
    answers = []
    batch = first(trainer.batches[0][0], 20)
    with trainer.publisher(folder, every=1e6) as publisher:
        for _ in range(6):
            trainer.step()
            published(publisher)
            answers.append(probabilities(trainer.model, batch))
    request = by_columns(inputs.to_tensors(batch, inputs.inputs_of(trainer.model, "text"), trainer.model))
    assert all(abs(a - b).max() > 10 * TOLERANCE for a, b in itertools.pairwise(answers))
    return folder, request, answers


def copied(folder, to, updates):
    shutil.copytree(folder / "1", to / "1")
    (to / "1.updates").mkdir()
    for update in updates:
        shutil.copy(folder / "1.updates" / str(update), to / "1.updates")


def answers_as(processor, request, expected):
    np.testing.assert_allclose(json.loads(processor.process(request, "json").data)["outputs"], expected, rtol=0, atol=TOLERANCE)


def test_a_missing_update_is_noticed_and_mended(training_of, tmp_path):
    folder, request, answers = training_of
    copied(folder, tmp_path, [1, 2, 4, 5])
    with Processor(tmp_path, poll_seconds=0.01) as processor:
        assert processor.info()["update"] == 2
        assert "1.updates/3 is missing, and 5 is there" in processor.info()["stopped"]
        answers_as(processor, request, answers[2])
        shutil.copy(folder / "1.updates" / "3", tmp_path / "1.updates")
        wait_for(lambda: processor.info()["update"] == 5 and not processor.info()["stopped"])
        answers_as(processor, request, answers[5])


@pytest.mark.parametrize("how", ["a bit", "cut", "empty", "another export's", "an earlier one", "a later one", "a folder"])
def test_a_damaged_update_is_noticed_and_the_next_full_version_mends_it(training_of, tmp_path, how):
    folder, request, answers = training_of
    copied(folder, tmp_path, [1, 2])
    bad = tmp_path / "1.updates" / "3"
    whole = (folder / "1.updates" / "3").read_bytes()
    half = len(whole) // 2
    match how:
        case "a bit":
            bad.write_bytes(whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :])
        case "cut":
            bad.write_bytes(whole[:half])
        case "empty":
            bad.touch()
        case "another export's":
            write_update(bad, "another", Moment(4, 3), [], [], [], [])
        case "an earlier one":
            shutil.copy(folder / "1.updates" / "1", bad)
        case "a later one":
            shutil.copy(folder / "1.updates" / "4", bad)
        case "a folder":
            bad.mkdir()
    with Processor(tmp_path, poll_seconds=0.01) as processor:
        assert processor.info()["update"] == 2
        assert str(bad) in processor.info()["stopped"] and "\n" not in processor.info()["stopped"]
        answers_as(processor, request, answers[2])
        shutil.copytree(folder / "1", tmp_path / "part")
        (tmp_path / "part").rename(tmp_path / "2")
        wait_for(lambda: processor.info()["version"] == 2 and not processor.info()["stopped"])
    # The same file, written whole, is taken.
    shutil.rmtree(tmp_path / "2")
    shutil.rmtree(bad) if how == "a folder" else bad.unlink()
    with Processor(tmp_path, poll_seconds=0.01) as processor:
        shutil.copy(folder / "1.updates" / "3", bad)
        wait_for(lambda: processor.info()["update"] == 3)
        answers_as(processor, request, answers[3])


def test_what_a_full_disk_refused_comes_with_the_next_update(small_batches, tmp_path, monkeypatch, caplog):
    trainer, folder = Trainer(small_batches, "dlrm", Variable()), tmp_path / "ctr"
    with trainer.publisher(folder, every=1e6) as publisher, caplog.at_level(logging.WARNING):
        trainer.step()
        published(publisher)
        for name in ("write_update", "write_weights"):
            with monkeypatch.context() as full:

                def refuses(path, *_):
                    path.write_bytes(b"half")
                    raise OSError(28, "No space left on device", str(path))

                full.setattr(f"ctrlab.serving.publishing.{name}", refuses)
                if name == "write_weights":
                    publisher.full_every = 1
                trainer.step()
                published(publisher)
                assert "could not be" in caplog.text and "free some space" in caplog.text
                caplog.clear()
            assert {path.name for path in folder.rglob(".*")} == {LOCKED, LAST}
            published(publisher)
            with Processor(folder, poll_seconds=0) as processor:
                trainer.agrees(processor)


def test_the_last_failure_is_raised_at_the_end(small_batches, tmp_path, caplog):
    trainer = Trainer(small_batches, "dlrm")
    publisher = trainer.publisher(tmp_path / "ctr", every=1e6)
    trainer.step()
    shutil.rmtree(tmp_path / "ctr")
    (tmp_path / "ctr").write_text("a file")
    with pytest.raises(CtrlabError, match="ctr"):
        publisher.close()
    assert not caplog.text  # no next publication is promised


def test_old_versions_go_with_their_updates_and_exports_stay(small_batches, tmp_path):
    trainer, folder = Trainer(small_batches, "dlrm"), tmp_path / "ctr"
    serving.export_model(trainer.model, folder)
    with trainer.publisher(folder, every=1e6, full_every=2, keep=2) as publisher:
        for _ in range(8):
            trainer.step()
            published(publisher)
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"1", "4", "4.updates", "5", "5.updates", LOCKED}
    with Processor(folder, poll_seconds=0) as processor:
        assert trainer.agrees(processor) == (5, 1)


@pytest.mark.parametrize(
    "odd",
    [
        *({"every": odd} for odd in (0, float("nan"), "60s", None, 1j)),
        *({"full_every": odd} for odd in (0, "3", 2.5, None)),
        *({"keep": odd} for odd in (0, 1.5, "1")),
    ],
)
def test_odd_numbers_are_refused(small_batches, tmp_path, odd):
    with pytest.raises(CtrlabError, match=rf"A publisher's .* received .*{re.escape(repr(next(iter(odd.values()))))}"):
        Trainer(small_batches, "dlrm").publisher(tmp_path, **odd)


@pytest.mark.parametrize("odd", [0, -1, 1.5, "many"])
def test_an_odd_number_of_rows_in_memory_is_refused(small_batches, tmp_path, odd):
    with pytest.raises(CtrlabError, match="`memory_rows` must be a whole number"):
        Trainer(small_batches, "dlrm", Variable()).publisher(tmp_path, memory_rows=odd)


def test_numbers_may_be_numpys(small_batches, tmp_path):
    trainer, folder = Trainer(small_batches, "dlrm"), tmp_path / "ctr"
    numbers = {"every": np.float32(1e6), "full_every": np.int64(1), "keep": np.uint8(1)}
    with trainer.publisher(folder, **numbers) as publisher:
        for _ in range(2):
            trainer.step()
            published(publisher)
    assert versions(folder) == [2]
