"""Invalid requests of clients: each gets its code and one sentence, and does not affect the others."""

import contextlib
import json
import socket
import time

import grpc
import pytest
from serve_command import WITH
from wire_requests import infer_json, infer_request

from ctrlab.errors import BadData
from ctrlab.server import rpc
from ctrlab.serving import warm_up, wire
from ctrlab.serving.processor import Code, Refused
from tests.server.test_strangers import calls_to

PREDICT = "/tensorflow.serving.PredictionService/Predict"
STATUS = "/tensorflow.serving.ModelService/GetModelStatus"
HEALTH = "/grpc.health.v1.Health/Check"
INFER = "/inference.GRPCInferenceService/ModelInfer"
TINY = wire.number(3, 1)
"""A field of two bytes that no message has."""


def code_of(server, method, request, **options):
    """(code, sentence)."""
    with pytest.raises(grpc.RpcError) as refused:
        server.call(method, request, **options)
    return refused.value.code().name, refused.value.details()


def spec(name, version=None, label=b""):
    asked = b"" if version is None else wire.field(2, wire.number(1, version))
    return wire.field(1, wire.field(1, name) + asked + (wire.field(4, label) if label else b""))


@pytest.mark.parametrize("length", ["9" * 5000, "0" * 4301, str(2**64), str(2**64 - 1), "-1", "²", ""])
def test_a_header_s_length_is_a_number_of_the_body_s_bytes(server, published, length):
    body, _ = infer_json(published[1], False)
    for each in (length, str(len(body) + 1)):
        said = WITH | {"Inference-Header-Content-Length": each.encode()}
        status, _, answer = server.ask("POST", "/v2/models/ctr/infer", body, said)
        assert status == 400 and f"a number of bytes, {len(body)} at most" in json.loads(answer)["error"]
    said = WITH | {"Inference-Header-Content-Length": str(len(body))}
    assert server.ask("POST", "/v2/models/ctr/infer", body, said)[0] == 200


def test_the_status_of_a_version_or_of_a_label_is_of_that_alone(server):
    for request in (spec(b"ctr", 9), spec(b"ctr", 0), spec(b"ctr", label=b"nolabel")):
        assert code_of(server, STATUS, request)[0] == "NOT_FOUND"
    assert wire.fields(wire.fields(server.call(STATUS, spec(b"ctr", 1)))[1])[1] == 1
    for version in ("0", "9", str(2**63 - 1)):
        status, _, body = server.ask("GET", f"/v1/models/ctr/versions/{version}")
        assert status == 404 and f"request for {version}" in json.loads(body)["error"]
    assert server.ask("GET", "/v1/models/ctr/versions/1")[0] == 200
    ready = "/inference.GRPCInferenceService/ModelReady"
    assert code_of(server, ready, wire.field(1, b"ctr") + wire.field(2, str(2**63 - 1).encode()))[0] == "NOT_FOUND"


@pytest.mark.parametrize("size", [10, 5_000, 17_000, 1_000_000])
def test_a_long_name_is_not_found_as_a_short_one(server, size):
    for method, request in ((PREDICT, spec(b"x" * size)), (INFER, wire.field(1, b"x" * size))):
        code, said = code_of(server, method, request)
        assert code == "NOT_FOUND" and "received a request for xxx" in said and len(said) < 300
    code, said = code_of(server, PREDICT, spec(b"ctr", label=b"y" * size))
    assert code == "NOT_FOUND" and "yyy" in said and len(said) < 300
    if size < 17_000:
        status, _, body = server.ask("POST", f"/v1/models/{'x' * size}:predict", b"{}")
        assert status == 404 and len(body) < 300
        service = wire.field(1, b"x" * min(size, 4_000))
        assert code_of(server, HEALTH, service)[0] == "NOT_FOUND"
        assert server.call(HEALTH, service, token="") == wire.number(1, 1), "nothing of it is read, and the server is well"


@pytest.mark.parametrize("method", [HEALTH, STATUS, "/inference.GRPCInferenceService/ModelMetadata"])
def test_a_small_call_is_small(server, method):
    code, said = code_of(server, method, TINY * 10_000)
    assert code == "INVALID_ARGUMENT" and "at most 4096 bytes; received 20000" in said


def test_a_large_call_without_a_token_stops_nobody(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options=[("grpc.max_send_message_length", -1)]) as channel:
        asked = [channel.unary_unary(HEALTH).future(TINY * (15 << 20), timeout=100) for _ in range(2)]
        slowest = 0.0
        while not all(each.done() for each in asked):
            begun = time.monotonic()
            assert server.ask("GET", "/v2/health/live", headers={})[0] == 200
            slowest = max(slowest, time.monotonic() - begun)
    assert slowest < 6, "one of them took 12 s to be read"


def test_whom_a_request_is_for_is_read_from_its_first_fields(published):
    rest = warm_up.predict_request("ctr", published[1])
    assert rpc._asked(rest) == ("ctr", None, "") and rpc._asked(spec(b"ctr", 7, b"stable") + rest) == ("ctr", 7, "stable")
    assert rpc._asked(TINY * 5 + spec(b"ctr", 7)) == ("ctr", 7, "")
    assert rpc._asked(spec(b"ctr") + TINY * (10 << 20)).model == "ctr"
    assert rpc._asked_of_open_inference(infer_request(published[1])).model == "ctr"
    late = TINY * 5 + wire.field(2, b"3") + TINY + wire.field(1, b"ctr")
    assert rpc._asked_of_open_inference(late) == ("ctr", 3, "")
    begun = time.monotonic()
    for odd in (TINY * (20 << 20), wire.field(1, TINY * (20 << 20))):
        with pytest.raises(BadData, match="1000 fields"):
            rpc._asked(odd)
        with pytest.raises(BadData, match="1000 fields"):
            rpc._asked_of_open_inference(wire.field(1, b"ctr") + odd if odd[0] == TINY[0] else TINY * 2000)
    assert time.monotonic() - begun < 10


def test_odd_requests_fill_no_log(server, server_log):
    def told():
        return server.counted("ctrlab_refused_requests_total", model="", why="bad_request"), len(
            server_log.read_text().splitlines()
        )

    refused, lines = told()
    for _ in range(150):
        server.ask("GET", "/v2/health/live", headers={"Connection": "Upgrade", "Upgrade": "h2c"})
        assert server.ask("GET", "/v2/health/live", headers={"Bad name": "x"})[0] == 400
        assert server.ask("GET", "/v1/models/ctr", headers={})[0] == 401
    now = told()
    assert now[0] == refused + 150 and now[1] < lines + 100


@pytest.mark.long
def test_two_thousand_who_ask_for_a_page_and_never_read_stop_nobody(server):
    deaf = []
    for _ in range(2_000):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", server.port))
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.send(b"GET /dashboard HTTP/1.1\r\nHost: a\r\n\r\n" * 300)
        deaf.append(connection)
    begun = time.monotonic()
    while time.monotonic() < begun + 45:
        assert server.ask("GET", "/v2/health/ready", headers={})[0] == 200 and server.ask("GET", "/v1/models/ctr")[0] == 200
        time.sleep(0.5)
    assert server.ask("GET", "/dashboard", headers={})[0] == 200
    for connection in deaf:
        connection.close()


@pytest.mark.parametrize("letter", ["a", "é", "模", "🙂", "\udcff"])
def test_a_long_sentence_in_any_letters_comes_with_its_code(monkeypatch, letter):
    """gRPC drops some of the answers with more than 8 KiB of metadata, at random."""

    def refuses(*_):
        raise Refused(Code.NOT_FOUND, "Models: " + letter * 3_000)

    def ask(port):
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for _ in range(20):
                with pytest.raises(grpc.RpcError) as refused:
                    channel.unary_unary(STATUS)(b"", timeout=20)
                said = refused.value.details()
                assert refused.value.code() == grpc.StatusCode.NOT_FOUND and len(said.encode()) in range(990, 1_001)
                assert said.startswith("Models: ") and len({*said[8:]}) == 1

    monkeypatch.setattr(rpc.Rpc, "_reads", refuses)
    calls_to(ask)
