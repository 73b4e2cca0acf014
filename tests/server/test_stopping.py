"""SIGTERM: who has not seen it yet is served, who is inside is answered, and what is cut off is said."""

import http.client
import json
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
from serve_command import TOKEN, WITH
from wire_requests import by_rows

from ctrlab.serving import warm_up, wire

PREDICT = "/tensorflow.serving.PredictionService/Predict"
HEALTH = "/grpc.health.v1.Health/Check"
SLOW = ("--threads", "1", "--batch-rows", "100000", "--batch-wait", "1s")
"""One request a second."""


def ends(server):
    """(exit code, the rest of what it printed) within two minutes."""
    timer = threading.Timer(120, server.process.kill)
    timer.start()
    said = server.process.stdout.read()
    timer.cancel()
    return server.process.wait(60), said


def ask_of(server, body):
    """The status, or what happened instead."""
    try:
        return server.ask("POST", "/v1/models/ctr:predict", body)[0]
    except OSError as problem:
        return repr(problem)


def call_of(server, request):
    """The code."""
    try:
        server.call(PREDICT, request, timeout=100)
    except grpc.RpcError as problem:
        return problem.code().name
    return "OK"


def wait_inside(server, number):
    """Until at least so many requests are inside, a minute at most."""
    until = time.monotonic() + 60
    while float(re.search(rb"\nctrlab_requests_inside (\S+)", server.ask("GET", "/metrics")[2])[1]) < number:
        assert time.monotonic() < until
        time.sleep(0.02)


def test_what_is_cut_off_is_counted_and_told(begin, published, capfd):
    server = begin(*SLOW, "--drain", "3s")
    body, request = by_rows(published[1]), warm_up.predict_request("ctr", published[1])
    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(ask_of, server, body) for _ in range(10)]
        called = [pool.submit(call_of, server, request) for _ in range(10)]
        wait_inside(server, 15)
        server.process.send_signal(signal.SIGTERM)
        code, said = ends(server)
        got = [each.result(100) for each in (*asked, *called)]
    assert {503, "UNAVAILABLE"} < set(got) <= {503, "UNAVAILABLE", 200, "OK"}
    cut = sum(each in (503, "UNAVAILABLE") for each in got)
    told = capfd.readouterr().err
    assert code == 1 and "every request was answered" not in said
    assert f"{cut} requests were not answered within 3s" in told and "Traceback" not in told


def test_calls_that_were_sent_before_are_answered(begin, published):
    server = begin("--most-waiting", "1000")
    request, ended = warm_up.predict_request("ctr", published[1]), []

    def calls_on_and_on():
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            asks = channel.unary_unary(PREDICT)
            while True:
                sent = time.monotonic()
                try:
                    asks(request, metadata=[("authorization", f"Bearer {TOKEN}")], timeout=60)
                    answered.append(sent)
                except grpc.RpcError as problem:
                    ended.append((sent, problem.code().name))
                    return

    answered = []
    threads = [threading.Thread(target=calls_on_and_on, daemon=True) for _ in range(16)]
    for thread in threads:
        thread.start()
    while len(answered) < 50:
        time.sleep(0.01)
    stopped = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    code, said = ends(server)
    for thread in threads:
        thread.join(60)
    assert len(ended) == len(threads) and [name for sent, name in ended if sent < stopped] == []
    assert {name for _, name in ended} == {"UNAVAILABLE"}
    assert any(sent > stopped for sent in answered) and (code, "every request was answered" in said) == (0, True)


def test_it_says_that_it_is_not_ready_and_serves_on(begin, published):
    server, body, ends_now = begin(), by_rows(published[1]), threading.Event()
    kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def asks():
        kept.request("POST", "/v1/models/ctr:predict", body, WITH)
        answer = kept.getresponse()
        return answer.status, answer.getheader("connection"), bool(answer.read())

    def others():
        while not ends_now.is_set():
            ask_of(server, body)

    assert asks() == (200, None, True)
    thread = threading.Thread(target=others, daemon=True)
    thread.start()
    server.process.send_signal(signal.SIGTERM)
    until = time.monotonic() + 60
    while server.ask("GET", "/v2/health/ready", headers={})[0] != 503:
        assert time.monotonic() < until
    assert asks() == (200, "close", True), "the connection was kept, and is not any more"
    assert server.ask("GET", "/v2/health/live", headers={})[0] == 200
    assert server.call(HEALTH, b"", token="") == wire.number(1, 2)  # NOT_SERVING
    assert server.call("/inference.GRPCInferenceService/ServerReady", b"", token="") == b""
    assert server.call("/inference.GRPCInferenceService/ServerLive", b"", token="") == wire.number(1, 1)
    ends_now.set()
    assert ends(server)[0] == 0
    thread.join(60)


def test_who_was_inside_does_not_keep_the_connection(begin, published):
    server = begin(*SLOW)
    kept = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    kept.request("POST", "/v1/models/ctr:predict", by_rows(published[1]), WITH)
    wait_inside(server, 1)
    server.process.send_signal(signal.SIGTERM)
    answer = kept.getresponse()
    assert (answer.status, answer.getheader("connection")) == (200, "close") and json.loads(answer.read())
    assert ends(server)[0] == 0
