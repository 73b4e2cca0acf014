"""Dynamic batching: requests that come together get the answers that each gets alone, and only the odd ones are refused."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
from served import TOLERANCE, probabilities
from wire_requests import answer_of, by_rows, infer_request

from ctrlab import serving
from ctrlab.model_names import DATA_SETS
from ctrlab.serving import inputs, warm_up
from ctrlab.serving.processor import Code, Processor, Refused

BATCHED = {"batch_rows": 40, "batch_wait_micros": 20_000, "poll_seconds": 0}


def pieces(features, columns, model):
    """Requests of 0 to 7 rows of a batch, and of 50, which is above a batch; with the model's own answers."""
    ends = [0, 1, 1, 3, 6, 10, 15, 21, 28, 29, 31, 34]
    ranges = [*itertools.pairwise(ends), (0, 50)]
    for begin, end in ranges:
        part = {name: feature[begin:end] for name, feature in features.items()}
        yield inputs.to_tensors(part, columns, model), probabilities(model, part)


@pytest.mark.parametrize("kind", ["text", "ids"])
@pytest.mark.parametrize("name", [name for name in DATA_SETS if name != "wdl"])
def test_each_request_gets_its_own_rows(trained, tmp_path, name, kind):
    model, features = trained(name, optimizations="all")
    columns = serving.read_manifest(serving.export_model(model, tmp_path / "ctr", inputs=kind)).inputs
    requests = list(pieces(features, columns, model)) * 4
    with Processor(tmp_path / "ctr", **BATCHED) as processor, ThreadPoolExecutor(16) as pool:

        def ask(request):
            tensors, expected = request
            reply = processor.process(warm_up.predict_request("ctr", tensors), "predict")
            found = answer_of(reply.data)[0]
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)

        list(pool.map(ask, requests))
        info = processor.info()
        assert info["batches"] > 0 and info["batched_requests"] >= 2 * info["batches"]


def test_a_model_whose_rows_are_not_apart_is_never_batched(trained, tmp_path):
    model, features = trained("wdl", optimizations="all")
    columns = serving.read_manifest(serving.export_model(model, tmp_path / "ctr")).inputs
    with Processor(tmp_path / "ctr", **BATCHED) as processor, ThreadPoolExecutor(16) as pool:
        requests = list(pieces(features, columns, model))
        replies = pool.map(lambda r: processor.process(warm_up.predict_request("ctr", r[0]), "predict").data, requests)
        for reply, (_, expected) in zip(replies, requests):
            np.testing.assert_allclose(answer_of(reply)[0], expected, rtol=0, atol=TOLERANCE)
        assert processor.info()["batches"] == 0


def test_only_the_odd_request_of_a_batch_is_refused(din, tmp_path):
    out, model, features, right = din
    wrong = [
        right | {"item": tf.constant(["a", "b"])},
        right | {"history_items/row_splits": tf.constant([0, 2, 1, 3], tf.int64)},
        right | {"history_items/row_splits": tf.constant([0, 0, 0, 1 << 40], tf.int64)},
        right | {"history_items/row_splits": tf.constant([], tf.int64)},
    ]
    expected = probabilities(model, {name: feature[:3] for name, feature in features.items()})
    with Processor(out, **BATCHED) as processor, ThreadPoolExecutor(12) as pool:

        def ask(tensors):
            try:
                return answer_of(processor.process(warm_up.predict_request("ctr", tensors), "predict").data)[0]
            except Refused as refused:
                return refused

        asked = [right, wrong[0], right, wrong[1], right, wrong[2], right, wrong[3], right, right] * 5
        for tensors, found in zip(asked, pool.map(ask, asked)):
            if tensors is right:
                np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
            else:
                assert isinstance(found, Refused) and found.code == Code.INVALID and "\n" not in str(found)
        assert processor.info()["batches"] > 0


def test_two_wrong_requests_that_fit_together_are_both_refused(din):
    """Two items and three histories, beside three items and two histories."""
    out, _, _, right = din
    two = {name: tensor[:2] for name, tensor in right.items() if "/" not in name}
    lists = {name: tensor for name, tensor in right.items() if "/" in name}
    halves = {}
    for name in lists:
        if name.endswith("/row_splits"):
            halves[name] = lists[name][:3]
            values = name.replace("row_splits", "values")
            halves[values] = lists[values][: int(lists[name][2])]
    three = {name: tensor for name, tensor in right.items() if "/" not in name}
    with Processor(out, **BATCHED) as processor, ThreadPoolExecutor(2) as pool:

        def ask(tensors):
            with pytest.raises(Refused):
                processor.process(infer_request(tensors), "infer")

        for _ in range(5):
            list(pool.map(ask, [two | lists, three | halves]))


def test_a_lone_request_waits_no_longer_than_it_may(din):
    out, _, _, right = din
    with Processor(out, batch_rows=40, batch_wait_micros=1) as processor:
        for _ in range(20):
            assert len(json.loads(processor.process(by_rows(right), "json").data)["predictions"]) == 3
        assert processor.info()["batches"] == 0


@pytest.mark.parametrize("odd", [{"batch_rows": -1}, {"batch_rows": "many"}, {"batch_wait_micros": -1}])
def test_odd_batching_is_refused(din, odd):
    with pytest.raises(Refused, match="must be"):
        Processor(din[0], **odd)
