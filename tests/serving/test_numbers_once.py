"""A version's number is never used twice: after deletions, by several writers, in copies, and with a damaged record."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served import wait_for
from small_exports import BODY, ITEMS, bundled, export, put, stock

from ctrlab.embedding import Embedding
from ctrlab.errors import BadData, CtrlabError
from ctrlab.serving.label_file import FILE, MOST
from ctrlab.serving.manifest import NAME
from ctrlab.serving.processor import Processor
from ctrlab.serving.publishing import Publisher
from ctrlab.serving.publishing_folder import LOCKED, PublisherLock, delete_old, updates_of
from ctrlab.serving.versions import LAST, ignored, new_version, versions
from ctrlab.training import TouchedRows, train


def make(folder, number=None, **options):
    with new_version(folder, number, **options) as (number, part):
        (part / "a").write_text("x")
    return number


def test_a_deleted_number_does_not_come_again(tmp_path):
    assert [make(tmp_path), make(tmp_path)] == [1, 2]
    shutil.rmtree(tmp_path / "2")
    assert make(tmp_path) == 3
    for n in (1, 3):
        shutil.rmtree(tmp_path / str(n))
    assert make(tmp_path) == 4 and versions(tmp_path) == [4]


def test_a_file_and_links_that_lead_nowhere_have_their_numbers(tmp_path):
    make(tmp_path)
    (tmp_path / "2").touch()
    (tmp_path / "3").symlink_to("nowhere")
    (tmp_path / "4").symlink_to("4")
    assert versions(tmp_path) == [1] and {"2", "3", "4"} <= ignored(tmp_path).keys()
    assert make(tmp_path) == 5 and versions(tmp_path) == [1, 5]


def test_a_number_that_a_label_names_does_not_come_again(tmp_path):
    """Also where the record of numbers was deleted together with the version."""
    (tmp_path / FILE).write_text('{"stable": 3, "canary": 7}')
    assert make(tmp_path) == 8
    (tmp_path / LAST).unlink()
    shutil.rmtree(tmp_path / "8")
    assert make(tmp_path) == 8


def test_retention_counts_whole_versions(tmp_path):
    for n in range(1, 6):
        updates_of(tmp_path, make(tmp_path)).mkdir()
        if n != 4:
            (tmp_path / str(n) / NAME).touch()
    delete_old(tmp_path, 2)
    assert versions(tmp_path) == [3, 4, 5]


def test_a_deletion_by_retention_uses_up_its_number(tmp_path):
    for n in range(1, 4):
        updates_of(tmp_path, make(tmp_path)).mkdir()
        (tmp_path / str(n) / NAME).touch()
    delete_old(tmp_path, 1)
    assert versions(tmp_path) == [3]
    shutil.rmtree(tmp_path / "3")
    assert make(tmp_path) == 4


@pytest.mark.parametrize("number", [1, 2, 8, 9])
def test_a_number_of_one_s_own_is_new(tmp_path, number):
    make(tmp_path, 9)
    shutil.rmtree(tmp_path / "9")
    with pytest.raises(CtrlabError, match=rf"above all that were given; .* has had 9, received {number}: name a higher one"):
        make(tmp_path, number)
    assert make(tmp_path, 12) == 12 and make(tmp_path) == 13


def test_a_writer_that_fails_uses_no_number_up(tmp_path):
    make(tmp_path)
    with pytest.raises(KeyError), new_version(tmp_path):
        raise KeyError
    assert make(tmp_path) == 2


def test_the_largest_number_is_the_last(tmp_path):
    make(tmp_path, MOST)
    shutil.rmtree(tmp_path / str(MOST))
    with pytest.raises(CtrlabError, match="export to another folder"):
        make(tmp_path)


def test_a_copy_of_a_folder_goes_on(tmp_path):
    """With its record, or without, as `cp -r ctr/* there` leaves it."""
    for _ in range(3):
        make(tmp_path / "ctr")
    shutil.rmtree(tmp_path / "ctr" / "3")
    shutil.copytree(tmp_path / "ctr", tmp_path / "whole")
    shutil.copytree(tmp_path / "ctr", tmp_path / "visible", ignore=shutil.ignore_patterns(".*"))
    assert make(tmp_path / "whole") == 4 and make(tmp_path / "visible") == 3
    put(tmp_path / "whole" / "4", tmp_path / "visible" / "9")  # by hand: the record is behind the folder
    assert make(tmp_path / "visible") == 10


@pytest.mark.parametrize("odd", ["", "x", "0", "-1", "1.5", "07", str(MOST + 1), "9" * 200, "\udcff"])
def test_a_damaged_record_is_a_sentence(tmp_path, odd):
    make(tmp_path)
    (tmp_path / LAST).write_bytes(odd.encode(errors="surrogateescape"))
    with pytest.raises(BadData, match=r"holds the highest number that a version has had; it is .*: write that number into it"):
        make(tmp_path)
    (tmp_path / LAST).unlink()
    assert make(tmp_path) == 2


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["make", "named", "fails", "delete newest", "delete oldest", "copy by hand"]), max_size=12))
def test_whatever_happens_a_number_comes_once(tmp_path_factory, steps):
    folder, given_before = tmp_path_factory.mktemp("numbers"), set()
    for step in steps:
        there = versions(folder)
        if step == "fails":
            with pytest.raises(KeyError), new_version(folder):
                raise KeyError
        elif step == "delete newest" and there:
            shutil.rmtree(folder / str(there[-1]))
        elif step == "delete oldest" and there:
            shutil.rmtree(folder / str(there[0]))
        elif step == "copy by hand" and there:
            shutil.copytree(folder / str(there[-1]), folder / str(max(*given_before, *there) + 3))
        elif step in ("make", "named"):
            given_before |= {*there}  # a copy that went before the next export was never a version to anyone here
            number = make(folder, max(given_before, default=0) + 5 if step == "named" else None)
            assert number not in given_before and number > max(given_before, default=0)
            given_before.add(number)


class Training:
    """A model in training that publishes."""

    def __init__(self, folder, **options):
        keras.utils.set_random_seed(0)
        columns = {"item": keras.Input((), dtype="int64", name="item")}
        rows = Embedding(4, {"item": "items"}, {"item": "rows"})(columns)["item"]
        self.model, self.optimizer = (
            keras.Model(columns, keras.layers.Dense(1, activation="sigmoid")(rows)),
            TouchedRows("sgd", 0.5),
        )
        self.publisher = Publisher(folder, self.model, self.optimizer, every=1e6, rows=[{"item": ITEMS}], **options)

    def step(self):
        train(self.model, self.optimizer, [({"item": ITEMS}, tf.ones((4, 1)))])
        self.publisher.publish()
        self.publisher.wait()

    def agrees(self, processor):
        """Whether the processor answers as the model, whose answers change with each step."""
        found = np.array(json.loads(processor.process(BODY, "json").data)["outputs"])
        return np.allclose(found, self.model({"item": ITEMS}, training=False).numpy(), atol=1e-6)

    @property
    def counts(self):
        return self.publisher.published.versions, self.publisher.published.updates


@pytest.fixture
def training(tmp_path):
    found = Training(tmp_path / "ctr")
    for _ in range(2):
        found.step()
    assert found.counts == (1, 1)
    yield found
    found.publisher.close()


def wipe_all(folder):
    shutil.rmtree(folder)


def wipe_version(folder):
    shutil.rmtree(folder / "1")


def wipe_updates(folder):
    shutil.rmtree(folder / "1.updates")


def wipe_an_update(folder):
    (folder / "1.updates" / "1").unlink()


def replace_version(folder):
    shutil.rmtree(folder / "1")
    put(export(stock, 3, folder.parent / "other"), folder / "1")


def export_over(folder):
    """Into a folder that somebody wiped: it is another 1."""
    shutil.rmtree(folder)
    export(bundled, 3, folder)


@pytest.mark.parametrize("happens", [wipe_all, wipe_version, wipe_updates, wipe_an_update, replace_version, export_over])
def test_a_publisher_goes_on_whatever_was_deleted(training, tmp_path, caplog, happens):
    folder = tmp_path / "ctr"
    with Processor(folder, poll_seconds=0.02) as processor:
        wait_for(lambda: processor.info()["update"] == 1)
        happens(folder)
        for counts in ((2, 1), (2, 2)):
            training.step()
            assert training.counts == counts
            wait_for(lambda: training.agrees(processor))
        info = processor.info()
        assert (info["version"], info["update"], info["stopped"], info["gone"]) == (2, 1, "", False)
    said = [record.getMessage() for record in caplog.records if "A full version follows" in record.getMessage()]
    assert len(said) == 1
    with Processor(folder, poll_seconds=0) as started:  # a server that starts now
        assert training.agrees(started)


def test_a_publisher_stays_above_its_own_numbers(tmp_path):
    folder, training = tmp_path / "ctr", Training(tmp_path / "ctr", full_every=1)
    for _ in range(3):
        training.step()
    shutil.rmtree(folder)
    training.step()
    assert versions(folder) == [4]
    training.publisher.close()


def test_a_publisher_takes_its_lock_again(training, tmp_path):
    """Also after the folder was wiped, two trainings never publish to it."""
    folder = tmp_path / "ctr"
    shutil.rmtree(folder)
    training.step()
    assert (folder / LOCKED).is_dir()
    with pytest.raises(CtrlabError, match="One training at a time"):
        PublisherLock(folder)


def test_of_two_publishers_after_a_wipe_one_is_refused(training, tmp_path, caplog):
    folder = tmp_path / "ctr"
    shutil.rmtree(folder)
    other = PublisherLock(folder)  # it began while the folder was empty
    training.step()
    assert "another publishes to" in caplog.text and training.counts == (1, 1)
    other.release()
    training.step()
    assert training.counts == (2, 1) and versions(folder) == [2]
