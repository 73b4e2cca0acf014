"""A request has so many rows at most as the model has memory for, by what it takes for a row."""

import json
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from wire_requests import by_columns, by_rows, infer_json, infer_request

from ctrlab import serving
from ctrlab.serving.processor import Code, Processor, Refused
from ctrlab.serving.warm_up import predict_request

FORMATS = {
    "rows": lambda tensors: (by_rows(tensors), "json"),
    "columns": lambda tensors: (by_columns(tensors), "json"),
    "predict": lambda tensors: (predict_request("ctr", tensors), "predict"),
    "infer": lambda tensors: (infer_request(tensors), "infer"),
    "infer, typed": lambda tensors: (infer_request(tensors, of_raw=False), "infer"),
    "infer_json": lambda tensors: (infer_json(tensors, False)[0], "infer_json"),
    "infer_json, raw": lambda tensors: (infer_json(tensors, True)[0], "infer_json", infer_json(tensors, True)[1]),
}


def rows_of(tensors, rows):
    """The first row of a request, this many times."""
    found = {}
    for name, tensor in tensors.items():
        column, _, part = name.partition("/")
        size = int(tensors[f"{column}/row_splits"][1]) if part else 1
        found[name] = tf.range(rows + 1, dtype=tf.int64) * size if part == "row_splits" else tf.tile(tensor[:size], [rows])
    return found


def refused(processor, *request):
    with pytest.raises(Refused) as problem:
        processor.process(*request)
    assert problem.value.code == Code.INVALID
    return str(problem.value)


def with_lists_of(tensors, length):
    """A request for one row, whose lists have this length."""
    long = {name: tf.repeat(tensors[name][:1], length) for name in tensors if name.endswith("/values")}
    long |= {name: tensor for name, tensor in rows_of(tensors, 1).items() if name not in long}
    return long | {name: tf.constant([0, length], tf.int64) for name in long if name.endswith("/row_splits")}


@pytest.mark.parametrize("format", FORMATS)
def test_a_request_has_at_most_the_rows_that_the_model_has_memory_for(din, format):
    with Processor(din[0], poll_seconds=0, most_model_bytes=300_000) as processor:
        said = refused(processor, *FORMATS[format](rows_of(din[3], 1_000)))
        most = int(re.match(r"A request has at most (\d+) rows, .* received 1000 with \w+[^ ]*: split it", said)[1])
        assert 5 < most < 300
        assert processor.process(*FORMATS[format](rows_of(din[3], most))).data
        assert f"received {most + 1}" in refused(processor, *FORMATS[format](rows_of(din[3], most + 1)))


def test_a_row_with_a_long_list_counts_as_several(din):
    with Processor(din[0], poll_seconds=0, most_model_bytes=300_000) as processor:
        said = refused(processor, by_columns(with_lists_of(din[3], 100_000)), "json")
        assert re.match(r"A request has at most \d+ values, .* received \d{6} with", said), said


def test_lists_are_limited_where_no_request_is_known(din, tmp_path):
    """The version has no warm-up requests, so what a row takes is a guess, and so is what a row's lists have."""
    serving.export_model(din[1], tmp_path / "ctr")
    with Processor(tmp_path / "ctr", poll_seconds=0, most_model_bytes=10_000_000) as processor:
        said = refused(processor, by_columns(with_lists_of(din[3], 100_000)), "json")
        assert re.match(r"A request has at most \d{5} values, .* received \d{6} with", said), said
        assert processor.process(by_columns(with_lists_of(din[3], 10_000)), "json").data


def wide(width):
    given = {"x": keras.Input((), name="x")}
    hidden = keras.layers.Dense(width, activation="relu")(given["x"][:, None])
    return keras.Model(given, keras.layers.Dense(1, activation="sigmoid")(hidden))


def most_rows(folder):
    with Processor(folder, poll_seconds=0, most_model_bytes=10_000_000) as processor:
        said = refused(processor, json.dumps({"inputs": [1.0] * 10_001}).encode(), "json")
    return int(re.search(r"at most (\d+) rows", said)[1])


def test_a_wider_model_takes_fewer_rows_and_its_weights_do_not_count(tmp_path):
    rows = [{"x": np.arange(7.0, dtype=np.float32)}]
    found = {}
    for width in (1_000, 4_000):
        serving.export_model(wide(width), tmp_path / str(width), rows=rows)
        found[width] = most_rows(tmp_path / str(width))
    assert 3 < found[1_000] / found[4_000] < 4.1 and found[4_000] * 4_000 * 4 <= 10_000_000 < 8 * found[4_000] * 4_000 * 4
    serving.export_model(wide(8), tmp_path / "unknown")
    assert most_rows(tmp_path / "unknown") == 10_000_000 // 16_384


ATTACK = """
import resource, sys
from ctrlab.serving.processor import Processor, Refused

def held():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

with Processor(sys.argv[1], poll_seconds=0) as processor:
    resource.setrlimit(resource.RLIMIT_AS, (5_600_000_000, resource.RLIM_INFINITY))
    before, request = held(), b'{"inputs": [' + b"1.0,              " * 999_999 + b"1.0]}"
    for _ in range(5):
        try:
            processor.process(request, "json")
        except Refused as refused:
            print(refused.code.name, refused)
    processor.process(b'{"inputs": [1.0]}', "json")
    assert held() - before < len(request) + (50 << 20)
"""


@pytest.mark.long
def test_a_million_rows_are_refused_and_their_memory_is_returned(tmp_path):
    serving.export_model(wide(1_000), tmp_path / "wide", rows=[{"x": np.arange(7.0, dtype=np.float32)}])
    ran = subprocess.run([sys.executable, "-c", ATTACK, tmp_path / "wide"], capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0 and ran.stdout.count("INVALID A request has at most") == 5, ran.stdout + ran.stderr
