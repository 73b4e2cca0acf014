"""The opening of a processor: configurations, folders, versions that come while it serves; and its end."""

import contextlib
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf
from served import first, seal, wait_for
from wire_requests import answer_of, by_rows

from ctrlab.serving import warm_up, wire
from ctrlab.serving.bundled import WEIGHTS
from ctrlab.serving.processor import Code, Processor, Refused


@pytest.mark.parametrize(
    ("configuration", "sentence"),
    [
        ({"threads": 1}, "threads is unknown"),
        ({"version": 0}, '"version" must be'),
        ({"version": 7}, "there is no version 7"),
        ({"poll_seconds": -1}, '"poll_seconds" must be'),
        ({"intra_op_threads": "many"}, '"intra_op_threads" must be.*received "many"'),
        ({"name": ""}, '"name" must be'),
        ({"most_slowdown": -1}, '"most_slowdown" must be'),
        ({"most_slowdown": "ten"}, '"most_slowdown" must be.*received "ten"'),
    ],
)
def test_odd_configurations_are_refused(din, configuration, sentence):
    with pytest.raises(Refused, match=sentence):
        Processor(din[0], **configuration)


def test_a_request_has_a_limit(din):
    with Processor(din[0], most_request_bytes=10) as processor, pytest.raises(Refused, match="at most 10 bytes; received 11"):
        processor.process(b" " * 11, "json")


def test_a_folder_without_versions_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(Refused, match=r"none: .*ctrlab export") as refused:
            Processor(folder)
        assert refused.value.code == Code.NOT_FOUND
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "ctrlab.json").write_text("{}")
    with pytest.raises(Refused, match=f"{tmp_path}/1/ctrlab.json is no manifest"):
        Processor(tmp_path)
    (tmp_path / "1" / "ctrlab.json").unlink()
    seal(tmp_path / "1")
    with pytest.raises(Refused, match=f"Version {tmp_path}/1 can't be loaded"):
        Processor(tmp_path)


@pytest.mark.timeout(300)
def test_newer_versions_are_found_and_broken_ones_are_not_served(din, tmp_path):
    """While four threads ask."""
    out, _, _, right = din
    folder, body = tmp_path / "ctr", warm_up.predict_request("ctr", right)
    shutil.copytree(out / "1", folder / "1")
    seen, end = set(), threading.Event()

    def ask(processor):
        while not end.is_set():
            seen.add(answer_of(processor.process(body, "predict").data)[2])

    with (
        Processor(folder, poll_seconds=0.02) as processor,
        Processor(folder, version=1) as pinned,
        ThreadPoolExecutor(4) as pool,
        contextlib.ExitStack() as last,
    ):
        last.callback(end.set)
        asking = [pool.submit(ask, processor) for _ in range(4)]
        shutil.copytree(out / "1", folder / "2", ignore=lambda *_: ["ctrlab.json"])  # half written
        shutil.copytree(out / "1", tmp_path / "3")
        damaged = tmp_path / "3" / "assets" / WEIGHTS
        damaged.write_bytes(damaged.read_bytes()[:-1])
        # A bundle of the same name is open already, so the damage shows in another name only.
        graph = tmp_path / "3" / "saved_model.pb"
        graph.write_bytes(graph.read_bytes()[:-100])
        seal(tmp_path / "3")
        (tmp_path / "3").rename(folder / "3")
        wait_for(lambda: "3" in processor.info()["refused"])
        assert processor.info()["version"] == 1
        shutil.copytree(out / "1", tmp_path / "4")
        (tmp_path / "4").rename(folder / "4")
        wait_for(lambda: processor.info()["version"] == 4)
        wait_for(lambda: 4 in seen)
        end.set()
        assert [future.result() for future in asking] == [None] * 4
        assert seen == {1, 4} and pinned.info()["version"] == 1


def test_a_version_whose_warm_up_fails_is_not_served(din, tmp_path):
    out, _, _, _ = din
    folder = tmp_path / "ctr"
    shutil.copytree(out / "1", folder / "1")
    shutil.copytree(out / "1", folder / "2")
    with tf.io.TFRecordWriter(str(folder / "2" / warm_up.PLACE)) as file:
        file.write(wire.field(6, wire.field(1, warm_up.predict_request("ctr", {"item": tf.constant(["a"])}))))
    seal(folder / "2")
    with Processor(folder, poll_seconds=0) as processor:
        assert processor.info()["version"] == 1
        assert "warm-up requests" in processor.info()["refused"]["2"]


def test_a_manifest_may_know_no_answers(din, tmp_path):
    shutil.copytree(din[0] / "1", tmp_path / "1")
    seal(tmp_path / "1", lambda manifest: manifest.pop("warm_up"))
    with Processor(tmp_path, poll_seconds=0) as processor:
        assert processor.info()["version"] == 1


@pytest.mark.parametrize("change", [1e-2, None])
def test_a_version_that_answers_otherwise_than_its_exporter_is_not_served(din, tmp_path, change):
    out, _, _, _ = din
    folder = tmp_path / "ctr"
    shutil.copytree(out / "1", folder / "1")
    shutil.copytree(out / "1", folder / "2")

    def changed(manifest):
        manifest["warm_up"][0][2][0] = manifest["warm_up"][0][2][0] + change if change else None

    seal(folder / "2", changed)
    with Processor(folder, poll_seconds=0) as processor:
        assert processor.info()["version"] == 1
        assert "as its exporter did" in processor.info()["refused"]["2"]


@pytest.fixture(scope="module")
def slowed(trained, tmp_path_factory):
    """A folder with a version, and a newer one that answers the same after a loop of 5,000 turns."""
    from ctrlab import serving

    model, features = trained("din", optimizations="stock", embedding="hashed")
    out, call = tmp_path_factory.mktemp("slowed") / "ctr", type(model).call

    def slow(self, features, training=False):
        logits = call(self, features, training=training)
        turned = tf.while_loop(lambda n, _: n < 5_000, lambda n, x: (n + 1, tf.cos(x)), (0, tf.reduce_sum(logits)))[1]
        return logits + tf.minimum(tf.abs(turned), 0.0)

    serving.export_model(model, out, rows=[first(features, 3)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "call", slow)
        serving.export_model(model, out, rows=[first(features, 3)])
    return out


@pytest.mark.parametrize(("configuration", "served"), [({}, 1), ({"most_slowdown": 0}, 2), ({"most_slowdown": 1e9}, 2)])
def test_a_version_that_is_much_slower_is_not_served(slowed, tmp_path, configuration, served):
    shutil.copytree(slowed / "1", tmp_path / "1")
    with Processor(tmp_path, poll_seconds=0.02, **configuration) as processor:
        shutil.copytree(slowed / "2", tmp_path / "2.part")
        (tmp_path / "2.part").rename(tmp_path / "2")
        wait_for(lambda: processor.info()["version"] == 2 or processor.info()["refused"])
        info = processor.info()
        assert info["version"] == served
        if served == 1:
            assert "at most 10 times as long" in info["refused"]["2"] and "configure most_slowdown" in info["refused"]["2"]
    with Processor(tmp_path, poll_seconds=0) as processor:  # nothing serves yet, so there is nothing to compare with
        assert processor.info()["version"] == 2


def test_versions_of_other_inputs_are_not_compared(din, trained, tmp_path):
    from ctrlab import serving

    shutil.copytree(din[0] / "1", tmp_path / "ctr" / "1")
    with Processor(tmp_path / "ctr", poll_seconds=0.02, most_slowdown=1e-9) as processor:
        model, features = trained("din", optimizations="all", embedding="hashed")
        serving.export_model(model, tmp_path / "ctr", inputs="ids", rows=[first(features, 3)])
        wait_for(lambda: processor.info()["version"] == 2)


def test_a_closed_processor_refuses(din):
    processor = Processor(din[0])
    processor.close()
    processor.close()
    with pytest.raises(Refused, match="until it is released"):
        processor.process(b"{}", "json")
    with pytest.raises(Refused, match="until it is released"):
        processor.info()


def test_it_is_closed_while_others_ask(din):
    """Their calls are answered, or refused in a sentence."""
    out, _, _, right = din
    body = by_rows(right)

    def ask(processor):
        with pytest.raises(Refused, match="released"):
            for _ in range(10_000):
                processor.process(body, "json")

    for _ in range(5):
        processor = Processor(out, poll_seconds=0.01)
        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(ask, processor) for _ in range(3)]
            time.sleep(0.02)
            processor.close()
            assert [future.result() for future in asking] == [None] * 3
