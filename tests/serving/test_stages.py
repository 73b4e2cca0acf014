"""What a reply says of its stages adds up to the call."""

import statistics
import time

import pytest
from wire_requests import by_columns, by_rows, infer_json, infer_request

from ctrlab.serving import warm_up
from ctrlab.serving.processor import STAGES, Processor

OWN_SECONDS = 30e-6


@pytest.fixture(scope="module")
def processor(din):
    with Processor(din[0], poll_seconds=0) as processor:
        yield processor


@pytest.mark.parametrize("format", ["predict", "json", "rows", "infer", "infer_json"])
def test_a_call_takes_little_more_than_its_stages(processor, din, format):
    tensors = din[3]
    request = {
        "predict": lambda: (warm_up.predict_request("ctr", tensors), "predict"),
        "json": lambda: (by_columns(tensors), "json"),
        "rows": lambda: (by_rows(tensors), "json"),
        "infer": lambda: (infer_request(tensors), "infer"),
        "infer_json": lambda: (infer_json(tensors, True)[0], "infer_json", infer_json(tensors, True)[1]),
    }[format]()
    beyond = []
    for _ in range(300):
        begun = time.perf_counter()
        reply = processor.process(*request)
        taken = time.perf_counter() - begun
        assert len(reply.seconds) == len(STAGES) and min(reply.seconds) > 0
        beyond.append(taken - sum(reply.seconds))
    assert min(beyond) >= 0
    assert statistics.median(beyond) < OWN_SECONDS, f"{statistics.median(beyond) * 1e6:.1f} us"
    print(f"{format}: {statistics.median(beyond) * 1e6:.1f} us, of stages {[f'{s * 1e6:.0f}' for s in reply.seconds]}")
