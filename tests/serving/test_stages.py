"""The times of a reply's stages add up to the time of the call."""

import functools
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


FORMATS = ["predict", "json", "rows", "infer", "infer_json"]


def call_of(format, tensors):
    """The arguments of `process`."""
    return {
        "predict": lambda: (warm_up.predict_request("ctr", tensors), "predict"),
        "json": lambda: (by_columns(tensors), "json"),
        "rows": lambda: (by_rows(tensors), "json"),
        "infer": lambda: (infer_request(tensors), "infer"),
        "infer_json": lambda: (infer_json(tensors, True)[0], "infer_json", infer_json(tensors, True)[1]),
    }[format]()


def beyond_stages(processor, *request):
    """(seconds of a call that are in none of its stages, its reply)."""
    begun = time.perf_counter()
    reply = processor.process(*request)
    return time.perf_counter() - begun - sum(reply.seconds), reply


@pytest.mark.parametrize("format", FORMATS)
def test_the_stages_are_parts_of_a_call(processor, din, format):
    for _ in range(30):
        beyond, reply = beyond_stages(processor, *call_of(format, din[3]))
        assert len(reply.seconds) == len(STAGES) and min(reply.seconds) > 0 and beyond >= 0


@pytest.mark.long  # a clock decides
@pytest.mark.parametrize("format", FORMATS)
def test_a_call_takes_little_more_than_its_stages(processor, din, format):
    ask = functools.partial(beyond_stages, processor, *call_of(format, din[3]))
    beyond = statistics.median(ask()[0] for _ in range(300))
    print(f"{format}: {beyond * 1e6:.1f} us")
    assert beyond < OWN_SECONDS
