"""A request's id comes back as it was sent, is in the log as it came back, and finds its click; what can't be one is refused."""

import csv
import json
import re
import socket
import struct
import unicodedata
from collections import Counter
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serve_command import TOKEN, Server
from wire_requests import by_rows, fields, infer_json, infer_request, message

from ctrlab.data.join import join
from ctrlab.data.labels import REQUEST, ROW, TIME
from ctrlab.serving import warm_up
from tests.server.test_request_log import logged

RULE = "A request's id is UTF-8 text of at most 200 characters, without control characters or spaces around it; received "
PREDICT = "/tensorflow.serving.PredictionService/Predict"
INFER = "/inference.GRPCInferenceService/ModelInfer"
LONG = "a" * 199
GOOD = ["a", "é", "e\u0301", "☃ 𝄞", "Å…\u200bx", '"7", \\', ', "outputs": [', "007", "null", LONG + "b", LONG + "c", "☃" * 200]
ODD = [LONG + "bc", "☃" * 201, "a" * 5_000, "a\x01", "a\x7fb", "\x85"]
IDS = st.one_of(st.sampled_from(GOOD + ODD), st.text(max_size=8), st.text("ab ☃é", min_size=198, max_size=202))


def can_be_one(id):
    return len(id) <= 200 and id == id.strip(" ") and all(unicodedata.category(each) != "Cc" for each in id)


def one(tensors):
    """The first row of a request."""
    ends = {name: int(splits[1]) for name, splits in tensors.items() if name.endswith("/row_splits")}
    return {
        name: t[:2] if name in ends else t[: ends.get(name.replace("/values", "/row_splits"), 1)] for name, t in tensors.items()
    }


class Odd(Exception):
    """The sentence of a refusal."""


class Client:
    """Asks for one row. Each way in which an id may come returns the id that came back, or raises Odd."""

    def __init__(self, server, tensors):
        self.port, self.channel = server.port, grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
        self.rows, self.message = by_rows(tensors), warm_up.predict_request("ctr", tensors)
        self.infer, self.infer_json = infer_request(tensors), json.loads(infer_json(tensors, False)[0])

    def _http(self, path, body, id=b""):
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Content-Length: {len(body)}\r\nX-Request-Id: "
        with socket.create_connection(("127.0.0.1", self.port), 60) as connection:
            connection.sendall(head.encode() + id + b"\r\n\r\n" + body)
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 400"):
            raise Odd(json.loads(body)["error"])
        return re.search(rb"\r\nx-request-id: (.*?)\r\n", head + b"\r\n")[1].decode(), json.loads(body)

    def by_header(self, id):
        return self._http("/v1/models/ctr:predict", self.rows, id.encode(errors="surrogateescape"))[0]

    def by_message(self, id):
        found, answer = self._http("/v2/models/ctr/infer", json.dumps(self.infer_json | {"id": id}).encode())
        assert found == answer.get("id", found)
        return found

    def _grpc(self, method, request, *metadata):
        asks = self.channel.unary_unary(method)
        try:
            answer, call = asks.with_call(request, metadata=[("authorization", f"Bearer {TOKEN}"), *metadata], timeout=60)
        except grpc.RpcError as refused:
            assert refused.code() == grpc.StatusCode.INVALID_ARGUMENT
            raise Odd(refused.details()) from None
        return dict(call.trailing_metadata()).get("x-request-id"), answer

    def by_metadata(self, id):
        return self._grpc(PREDICT, self.message, ("x-request-id", id))[0]

    def by_message_of_grpc(self, id):
        beside, answer = self._grpc(INFER, self.infer + message(3, id.encode()))
        found = fields(answer).get(3, b"").decode() or beside
        assert beside == (found if found.isascii() else None)  # metadata has no other letters
        return found


def test_an_id_of_any_text_comes_back_and_is_in_the_log_and_finds_its_click(published, tmp_path):
    server = Server(published[0], "--log", tmp_path / "log", "--log-every", "1h")
    client, sent = Client(server, one(published[1])), Counter()
    ways = [client.by_header, client.by_message, client.by_metadata, client.by_message_of_grpc]

    def ask(way, id):
        if way == client.by_metadata and not (id.isascii() and id.isprintable()):
            return  # no client of gRPC sends it
        if way == client.by_header:
            id = re.sub("[\r\n\t\v\f\0]", "", id).strip(" ")  # HTTP itself has no others
        if can_be_one(id):
            found = way(id)
            assert found == id or (not id and re.fullmatch("[0-9a-f]{32}", found))
            sent[found] += 1
        else:
            with pytest.raises(Odd, match=f"^{RULE}{len(id)} characters, '"):
                way(id)

    for way in ways:
        for id in GOOD + ODD:
            ask(way, id)
    assert sent["é"] == 3 and sent[LONG + "b"] == sent[LONG + "c"] == 4

    @settings(max_examples=30, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(ways), IDS)
    def any_text(way, id):
        ask(way, id)

    any_text()
    client.channel.close()
    assert server.stop()[0] == 0
    assert Counter(row[REQUEST] for row in logged(tmp_path / "log" / "ctr")) == sent
    (tmp_path / "labels").mkdir()
    now = datetime.now(UTC)
    with open(tmp_path / "labels" / "1.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[REQUEST, ROW, TIME, "click"], *([id, 0, now.isoformat(), 1] for id in sent)])
    hour = timedelta(hours=1)
    joined = join(tmp_path / "log" / "ctr", tmp_path / "labels", tmp_path / "out", hour, now=lambda: now + 2 * hour)
    assert joined.rows == joined.labelled == joined.positive["click"] == len(sent)
    assert joined.again == sent.total() - len(sent)


def test_bytes_that_are_no_text_are_no_id(server, published):
    with pytest.raises(Odd, match=rf"^{RULE}2 characters, 'a\\udcff'"):
        Client(server, one(published[1])).by_header("a\udcff")


def frame(kind, flags, content, stream=1):
    """A frame of HTTP/2."""
    return struct.pack(">I", len(content))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + content


@pytest.mark.parametrize("id", ["é".encode(), b"\xff"])
def test_metadata_beyond_ascii_is_refused(server, published, id):
    """gRPC's own clients send none; whoever does otherwise can't get it back."""
    headers = {":method": "POST", ":scheme": "http", ":path": PREDICT, ":authority": "a", "content-type": "application/grpc"}
    headers |= {"te": "trailers", "authorization": f"Bearer {TOKEN}", "x-request-id": id}
    pairs = [[each.encode() if isinstance(each, str) else each for each in pair] for pair in headers.items()]
    block = b"".join(b"\0" + b"".join(bytes([len(each)]) + each for each in pair) for pair in pairs)
    message = Client(server, one(published[1])).message
    with socket.create_connection(("127.0.0.1", server.grpc_port), 60) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, b"", 0) + frame(1, 4, block))
        connection.sendall(frame(0, 1, b"\0" + struct.pack(">I", len(message)) + message))
        answer = b""
        while b"comes back." not in answer:
            more = connection.recv(4096)
            assert more, answer
            answer += more
    assert b"Metadata of gRPC is ASCII, and so is an id in x-request-id; received" in answer
