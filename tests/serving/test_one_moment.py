"""No answer is of two moments: a model that tells the moment of each of its parts, under load, through thousands of updates."""

import secrets
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from served import seal, wait_for
from wire_requests import answer_of

from ctrlab import _native
from ctrlab.embedding.table_state import TableState
from ctrlab.serving import warm_up
from ctrlab.serving.bundled import WEIGHTS, weights_in
from ctrlab.serving.graph import saved_model
from ctrlab.serving.processor import Processor
from ctrlab.serving.weights import Moment, write_update, write_weights
from ctrlab.training.changes import Changed

ROWS, KEYS, PARTS = 50, np.arange(1_000, 1_030), 5


def planted(bundle):
    """A graph: ids [B] -> [B, 5], what two fixed tables, two growing ones and a dense tensor hold."""
    ops = _native.library().ops
    with tf.Graph().as_default() as graph:
        ids = tf.compat.v1.placeholder(tf.int64, [None], "ids")
        handles = ops.ctrlab_serving_tables(bundle=bundle, T=4, name="tables")
        [dense] = ops.ctrlab_serving_dense(bundle=bundle, types=[tf.float32], shapes=[[1_000]], name="dense")
        found = [tf.raw_ops.ResourceGather(resource=handle, indices=ids, dtype=tf.float32)[:, :1] for handle in handles[:2]]
        for handle in handles[2:]:
            rows = ops.ctrlab_embedding_lookup(
                tables=[handle], proxies=[], ids=[ids + KEYS[0]], splits=[tf.zeros([0], tf.int64)], times=[],
                table_dims=[2], table_of=[0], output_of=[0], combiners=["rows"], M=1, training=False,
            )  # fmt: skip
            found.append(rows[0][:, :1])
        found.append(tf.fill([tf.size(ids), 1], dense[-1]))
        output = tf.concat(found, 1)
        path = tf.constant(WEIGHTS, name="path")
        opened = ops.ctrlab_serving_open(
            path=path, bundle=bundle, table_names=list("abcd"), table_dims=[2] * 4, table_rows=[ROWS, ROWS, -1, -1],
            memory_rows=[0, 0, 0, 5], row_formats=["float32"] * 4, dense_bytes=[4_000], name="open",
        )  # fmt: skip
    return saved_model(graph, {"ids": ids.name}, {"probabilities": output.name}, opened, {WEIGHTS: path})


def cut(u):
    """A cut of a growing table whose rows all contain u."""
    n = len(KEYS)
    rows, counts = np.full([n, 2], u, np.float32), np.ones(n, np.int64)
    return SimpleNamespace(dim=2, rows=n, parts=lambda _: iter([TableState(KEYS, rows, {}, counts, counts)]))


def contents(u):
    fixed = [np.full([ROWS, 2], u, np.float32)] * 2
    return fixed, [(cut(u), False), (cut(u), True)], [np.full(1_000, u, np.float32)], ["float32"] * 4


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model's folder; what writes the update u; and a SavedModel of the weights that a processor of the folder has open."""
    folder, bundle = tmp_path / "planted" / "ctr", secrets.token_hex(16)
    (folder / "1").mkdir(parents=True)
    (folder / "1.updates").mkdir()
    (folder / "1" / "saved_model.pb").write_bytes(planted(bundle).SerializeToString())
    write_weights(weights_in(folder / "1"), bundle, Moment(), *contents(0))
    seal(folder / "1", lambda manifest: manifest.update(rows_apart=True))

    def update(u):
        fixed, *others = contents(u)
        changed = [Changed(np.arange(ROWS), rows, u - 1, u) for rows in fixed]
        write_update(folder / "1.updates" / "part", bundle, Moment(u, u), changed, *others)
        (folder / "1.updates" / "part").rename(folder / "1.updates" / str(u))

    past, file = tmp_path / "past", (folder / "1" / "assets" / WEIGHTS).stat()
    shutil.copytree(folder / "1", past)
    opened = f"{bundle}@{file.st_dev}.{file.st_ino}.{file.st_ctime_ns // 10**9}.{file.st_ctime_ns % 10**9}"
    (past / "saved_model.pb").write_bytes(planted(opened).SerializeToString())
    return folder, update, past


REQUEST = {"ids": tf.constant(np.arange(len(KEYS)), tf.int64)}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "configuration",
    [{}, {"batch_rows": 100, "batch_wait_micros": 100}, {"group": {"members": 2, "policy": "least_in_flight"}}],
    ids=["alone", "batched", "two members"],
)
@pytest.mark.parametrize("updates", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_answer_is_of_two_moments(model, updates, configuration):
    """The model is also asked past the processor, without its gate: there, moments are mixed, so this test can see it."""
    folder, update, past = model
    body, end, seen = warm_up.predict_request("ctr", REQUEST), threading.Event(), []
    _native.library()
    with Processor(folder, poll_seconds=0.001, **configuration) as processor, ThreadPoolExecutor(4) as pool:

        def ask():
            count = 0
            while not end.is_set():
                reply = processor.process(body, "predict")
                answer = answer_of(reply.data)[0]
                assert answer.shape == (len(KEYS), PARTS) and (answer == reply.update).all(), (reply.update, answer)
                count += 1
            return count

        def ask_past_it():
            signature, mixed = tf.saved_model.load(str(past)).signatures["serving_default"], 0
            while not end.is_set():
                answer = signature(**REQUEST)["probabilities"].numpy()
                mixed += (answer != answer[0, 0]).any()
            return mixed

        asked, past_it = [pool.submit(ask) for _ in range(3)], pool.submit(ask_past_it)
        try:
            for u in range(1, updates + 1):
                update(u)
                if u % 100 == 0:
                    wait_for(lambda u=u: processor.info()["update"] >= u)
        finally:
            end.set()
        seen = [future.result() for future in asked]
        wait_for(lambda: processor.info()["stopped"] == "")
        assert processor.info()["update"] == updates
        assert min(seen) > 100 and past_it.result() > 0 and bool(processor.info()["batches"]) == ("batch_rows" in configuration)
        print(f"{sum(seen)} answers, none mixed; {past_it.result()} mixed past the gate")
