"""A server and its models are described equally over each protocol."""

import json

import grpc
import pytest
from tensorflow.core.protobuf import meta_graph_pb2

from ctrlab.serving import wire

INFERENCE = "/inference.GRPCInferenceService/"


def every(message):
    """{field: all its contents}, where `wire.fields` has the last of each; of fields of fewer than 128 bytes."""
    found = {}
    while message:
        end = 2 + message[1]
        found.setdefault(message[0] >> 3, []).append(message[2:end])
        message = message[end:]
    return found


def test_metadata_over_grpc_is_that_over_http(server):
    over_http = json.loads(server.ask("GET", "/v2")[2])
    found = every(server.call(f"{INFERENCE}ServerMetadata", b""))
    assert [over_http["name"], over_http["version"], *over_http["extensions"]] == [
        text.decode() for key in found for text in found[key]
    ]

    over_http = json.loads(server.ask("GET", "/v2/models/ctr")[2])
    found = every(server.call(f"{INFERENCE}ModelMetadata", wire.field(1, b"ctr")))
    assert (found[1], found[2], found[3]) == ([b"ctr"], [b"1"], [b"ctrlab_processor"])
    for key, tensors in ((4, over_http["inputs"]), (5, over_http["outputs"])):
        expected = [
            [each["name"].encode(), each["datatype"].encode(), b"".join(wire.varint(size % 2**64) for size in each["shape"])]
            for each in tensors
        ]
        assert [[tensor[1][0], tensor[2][0], tensor[3][0]] for tensor in map(every, found[key])] == expected


def test_tensorflow_serving_s_metadata_over_http_is_that_over_grpc(server):
    text = json.loads(server.ask("GET", "/v1/models/ctr/metadata")[2])["metadata"]["signature_def"]["signature_def"][
        "serving_default"
    ]
    call = server.call("/tensorflow.serving.PredictionService/GetModelMetadata", wire.field(1, wire.field(1, b"ctr")))
    packed = wire.fields(wire.fields(wire.fields(wire.fields(call)[2])[2])[2])
    signature = meta_graph_pb2.SignatureDef.FromString(wire.fields(packed[1])[2])
    assert text["method_name"] == signature.method_name
    for over_http, over_grpc in ((text["inputs"], signature.inputs), (text["outputs"], signature.outputs)):
        assert set(over_http) == set(over_grpc)
        for name, tensor in over_grpc.items():
            assert [int(dim["size"]) for dim in over_http[name]["tensor_shape"]["dim"]] == [
                dim.size for dim in tensor.tensor_shape.dim
            ]
            assert over_http[name]["dtype"] in ("DT_STRING", "DT_FLOAT", "DT_INT64", "DT_INT32")


@pytest.mark.parametrize("method", ["ModelReady", "ModelMetadata"])
@pytest.mark.parametrize(
    ("version", "code"),
    [(b"", None), (b"1", None), (b"9", grpc.StatusCode.NOT_FOUND), (b"new", grpc.StatusCode.INVALID_ARGUMENT)],
)
def test_a_version_is_found_or_refused(server, method, version, code):
    request = wire.field(1, b"ctr") + wire.field(2, version)
    if code is None:
        assert server.call(INFERENCE + method, request)
        return
    with pytest.raises(grpc.RpcError) as refused:
        server.call(INFERENCE + method, request)
    assert refused.value.code() == code and version.decode() in refused.value.details()


def test_health_is_of_the_services_that_are_there(server):
    check = "/grpc.health.v1.Health/Check"
    for service in (b"", b"tensorflow.serving.PredictionService", b"inference.GRPCInferenceService"):
        assert server.call(check, wire.field(1, service)) == b"\x08\x01"
    with pytest.raises(grpc.RpcError) as refused:
        server.call(check, wire.field(1, b"other"))
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


def test_http_says_what_may_be_asked(server):
    def refused():
        return [
            server.counted("ctrlab_refused_requests_total", model="", why=why) for why in ("method_not_allowed", "unauthorized")
        ]

    before = refused()
    status, headers, body = server.ask("HEAD", "/v1/models/ctr")
    assert status == 200 and int(headers["content-length"]) > 100 and body == b""
    status, headers, _ = server.ask("PUT", "/v1/models/ctr")
    assert (status, headers["allow"]) == (405, "GET")
    status, headers, _ = server.ask("GET", "/v2", headers={})
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert refused() == [count + 1 for count in before]
