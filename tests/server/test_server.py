"""The server as its clients see it: the same answers over each protocol, tokens, refusals, and an end that loses no request."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import tensorflow as tf
from serve_command import TOKEN, WITH, Server
from served import TOLERANCE
from tensorflow.core.protobuf import meta_graph_pb2
from wire_requests import answer_of, answer_of_infer, by_columns, by_rows, infer_json, infer_request

from ctrlab.server.metrics import STAGES_SEEN
from ctrlab.serving import warm_up, wire
from ctrlab.serving.processor import ALL
from tests import forked


def test_each_protocol_gets_the_model_s_answer(server, published):
    _, tensors, expected = published

    def same(found):
        np.testing.assert_allclose(np.reshape(found, expected.shape), expected, rtol=0, atol=TOLERANCE)

    for path in ("/v1/models/ctr:predict", "/v1/models/ctr/versions/1:predict"):
        for body, key in ((by_columns(tensors), "outputs"), (by_rows(tensors), "predictions")):
            status, headers, answer = server.ask("POST", path, body)
            assert (status, headers["x-model-version"], headers["x-model-update"]) == (200, "1", "0")
            same(json.loads(answer)[key])
    status, headers, answer = server.ask("POST", "/v2/models/ctr/infer", infer_json(tensors, False)[0])
    assert (status, headers["content-type"]) == (200, "application/json")
    same(json.loads(answer)["outputs"][0]["data"])
    body, header = infer_json(tensors, True)
    assert header != ALL
    said = WITH | {"Inference-Header-Content-Length": str(header)}
    status, headers, answer = server.ask("POST", "/v2/models/ctr/infer", body, said)
    assert (status, headers["content-type"]) == (200, "application/octet-stream")
    same(np.frombuffer(answer[int(headers["inference-header-content-length"]) :], np.float32))
    same(answer_of(server.call("/tensorflow.serving.PredictionService/Predict", warm_up.predict_request("ctr", tensors)))[0])
    same(answer_of_infer(server.call("/inference.GRPCInferenceService/ModelInfer", infer_request(tensors))))


def test_who_brings_no_token_gets_no_answer(server, published):
    request = warm_up.predict_request("ctr", published[1])
    for headers in ({}, {"Authorization": "Bearer another"}, {"Authorization": TOKEN}):
        for method, path in (("POST", "/v1/models/ctr:predict"), ("GET", "/metrics"), ("GET", "/v1/models/ctr")):
            status, _, body = server.ask(method, path, b"{}" if method == "POST" else None, headers)
            assert status == 401 and "token" in json.loads(body)["error"]
        for path in ("/v2/health/live", "/v2/health/ready"):
            assert server.ask("GET", path, headers=headers)[0] == 200
    with pytest.raises(grpc.RpcError) as refused:
        server.call("/tensorflow.serving.PredictionService/Predict", request, token="another")
    assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
    assert server.call("/inference.GRPCInferenceService/ServerReady", b"", token="") == b"\x08\x01"
    assert server.call("/grpc.health.v1.Health/Check", b"", token="") == b"\x08\x01"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("POST", "/v1/models/other:predict", b"{}", 404, "models ctr, dlrm; received a request for other"),
        ("POST", "/v1/models/ctr/versions/9:predict", None, 404, "request for 9"),
        ("GET", "/v1/models/ctr/versions/9", None, 404, "request for 9"),
        ("GET", "/v1/models/../../etc/passwd", None, 404, "received"),
        ("GET", "/", None, 404, "received /"),
        ("GET", "/v1/models/ctr:predict", None, 405, "takes POST; received GET"),
        ("DELETE", "/v1/models/ctr", None, 405, "takes GET"),
        ("POST", "/v1/models/ctr:predict", b"{", 400, "is JSON; this is none"),
        ("POST", "/v1/models/ctr:predict", b"", 400, "is JSON; this is none"),
        ("POST", "/v2/models/ctr/infer", b"[]", 400, "received a list"),
    ],
)
def test_odd_requests_are_refused_in_a_sentence(server, published, method, path, body, status, sentence):
    body = by_columns(published[1]) if method == "POST" and body is None else body
    found, headers, answer = server.ask(method, path, body)
    assert (found, headers["content-type"]) == (status, "application/json")
    said = json.loads(answer)["error"]
    assert re.search(sentence, said) and "\n" not in said


def test_a_body_that_says_to_be_too_large_is_not_read(server):
    status, _, body = server.ask("POST", "/v1/models/ctr:predict", b"x", WITH | {"Content-Length": str(1 << 40)})
    assert status == 413 and "split it" in json.loads(body)["error"]
    status, headers, body = server.ask("POST", "/v1/models/ctr:predict", b"x", WITH | {"Content-Encoding": "gzip"})
    assert (status, headers["accept-encoding"]) == (415, "identity") and "received Content-Encoding: gzip" in json.loads(body)[
        "error"
    ]
    assert server.ask("POST", "/v1/models/ctr:predict", b"{}", WITH | {"Content-Encoding": "Identity"})[0] == 400
    status, _, body = server.ask("POST", "/v2/models/ctr/infer", b"{}", WITH | {"Inference-Header-Content-Length": "-1"})
    assert status == 400


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"\xff", grpc.StatusCode.INVALID_ARGUMENT),
        (b"", grpc.StatusCode.NOT_FOUND),
        (wire.field(1, wire.field(1, b"other")), grpc.StatusCode.NOT_FOUND),
        (wire.field(1, wire.field(1, b"ctr")), grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
def test_odd_calls_are_refused_with_their_code(server, request_, code):
    with pytest.raises(grpc.RpcError) as refused:
        server.call("/tensorflow.serving.PredictionService/Predict", request_)
    assert refused.value.code() == code and refused.value.details()
    with pytest.raises(grpc.RpcError) as refused:
        server.call("/tensorflow.serving.PredictionService/Classify", request_)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_models_are_described(server, published):
    status = json.loads(server.ask("GET", "/v1/models/ctr")[2])["model_version_status"]
    assert [(each["version"], each["state"]) for each in status] == [("1", "AVAILABLE")]
    signature = json.loads(server.ask("GET", "/v1/models/ctr/metadata")[2])["metadata"]["signature_def"]["signature_def"]
    assert set(signature["serving_default"]["inputs"]) == set(published[1])
    assert signature["serving_default"]["inputs"]["item"]["dtype"] == "DT_STRING"
    found = json.loads(server.ask("GET", "/v2/models/ctr")[2])
    assert {each["name"] for each in found["inputs"]} == set(published[1]) and found["versions"] == ["1"]
    assert server.ask("GET", "/v2/models/ctr/ready")[0] == 200
    assert "binary_tensor_data" in json.loads(server.ask("GET", "/v2")[2])["extensions"]
    call = server.call("/tensorflow.serving.ModelService/GetModelStatus", wire.field(1, wire.field(1, b"ctr")))
    assert wire.fields(wire.fields(call)[1]) == {1: 1, 2: 30, 3: b""}
    call = server.call("/tensorflow.serving.PredictionService/GetModelMetadata", wire.field(1, wire.field(1, b"ctr")))
    packed = wire.fields(wire.fields(wire.fields(call)[2])[2])
    entry = wire.fields(wire.fields(packed[2])[1])
    signature = meta_graph_pb2.SignatureDef.FromString(entry[2])
    assert entry[1] == b"serving_default" and set(signature.inputs) == set(published[1])
    assert signature.outputs["probabilities"].dtype == tf.float32.as_datatype_enum


def test_metrics_count_answers_and_refusals(server, published):
    of_ctr, refusals = {"model": "ctr", "version": "1"}, {"model": "dlrm", "why": "invalid"}

    def counts():
        stages = [server.counted("ctrlab_stage_seconds_count", stage=stage, **of_ctr) for stage in STAGES_SEEN]
        answered = [*stages, server.counted("ctrlab_request_seconds_count", **of_ctr)]
        return answered, server.counted("ctrlab_refused_requests_total", **refusals)

    answered, refused = counts()
    assert server.ask("POST", "/v1/models/dlrm:predict", b"{}")[0] == 400
    assert server.ask("POST", "/v1/models/ctr:predict", by_rows(published[1]))[0] == 200
    assert counts() == ([count + 1 for count in answered], refused + 1)
    assert server.counted("ctrlab_requests_inside") == 0
    assert server.counted("ctrlab_version", model="ctr") == 1
    assert server.counted("ctrlab_weights_age_seconds", **of_ctr) > 0


def test_no_request_inside_is_lost_when_it_stops(published):
    folder, tensors, _ = published
    server = Server(folder, "--threads", "1")
    rows = json.loads(by_rows(tensors))["instances"] * 100
    body = json.dumps({"instances": rows}).encode()
    asked = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=60) for _ in range(12)]
    for connection in asked:
        connection.request("POST", "/v1/models/ctr:predict", body, WITH)
    while b'ctrlab_request_seconds_count{model="ctr",version="1"}' not in server.ask("GET", "/metrics")[2]:
        pass  # until the first of them is answered
    with ThreadPoolExecutor(len(asked)) as pool:
        waiting = pool.map(lambda connection: connection.getresponse(), asked)
        code, said = server.stop()
        assert [answer.status for answer in waiting] == [200] * len(asked)
    assert code == 0 and "every request was answered" in said


def test_what_can_not_be_served_is_one_sentence(server, published, tmp_path):
    def refuses(sentence, *options):
        command = [sys.executable, "-m", "ctrlab", "serve", *map(str, options)]
        ran = forked.run(command, capture_output=True, text=True, timeout=100, env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"})
        assert ran.returncode == 1 and re.search(sentence, ran.stderr) and "Traceback" not in ran.stderr, ran.stderr

    refuses("is neither: write one by ctrlab export", tmp_path)
    refuses("can't be had", published[0], "--port", server.port, "--grpc-port", 0)
    refuses("can't be had", published[0], "--port", 0, "--grpc-port", server.grpc_port)
    refuses("nohost.invalid is none that it can have", published[0], "--port", 0, "--grpc-port", 0, "--host", "nohost.invalid")
    refuses("--batch-wait is at most 1s; received 45s", published[0], "--batch-wait", "45s")


def test_an_address_of_the_sixth_version(published):
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError as problem:
        pytest.skip(f"::1 is no address here: {problem}")
    command = [sys.executable, "-m", "ctrlab", "serve", published[0], "--port", "0", "--grpc-port", "0", "--host", "::1"]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    with forked.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        timer = threading.Timer(100, server.kill)
        timer.start()
        found = next(
            filter(None, (re.search(r"HTTP on (http://\[::1\]:\d+), gRPC on (\[::1\]:\d+)", line) for line in server.stdout))
        )
        with urllib.request.urlopen(f"{found[1]}/v2/health/live", timeout=60) as answer:
            assert answer.status == 200
        with grpc.insecure_channel(found[2]) as channel:
            assert channel.unary_unary("/inference.GRPCInferenceService/ServerLive")(b"", timeout=60) == b"\x08\x01"
        server.terminate()
        assert server.wait(100) == 0
        timer.cancel()


def test_more_calls_at_once_than_a_connection_has_wait_and_are_answered(server, published):
    """gRPC may refuse those that have waited, because it still counts calls that were answered."""
    request, given = warm_up.predict_request("ctr", published[1]), [("authorization", f"Bearer {TOKEN}")]
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        asks = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        called = [asks.future(request, metadata=given, timeout=60) for _ in range(500)]
        assert {call.code() for call in called} == {grpc.StatusCode.OK}
