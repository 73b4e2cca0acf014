"""The log of what was scored: the examples and answers of each protocol, by the ids that clients know; nothing waits for it."""

import logging
import threading
from types import SimpleNamespace

import grpc
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from serve_command import TOKEN, WITH, Server
from served import probabilities, wait_for
from shared_requests import shared
from wire_requests import by_columns, by_rows, infer_json, infer_request

from ctrlab import models, serving
from ctrlab.data.join import read_parquet
from ctrlab.data.labels import REQUEST, ROW, TIME
from ctrlab.errors import CtrlabError
from ctrlab.model_names import DATA_SETS
from ctrlab.server import request_log
from ctrlab.server.application import WARM_UP
from ctrlab.server.request_log import RequestLog, Scored, bytes_of, to_table
from ctrlab.server.served import ServedModel
from ctrlab.serving import inputs, warm_up


def logged(folder):
    """All rows of a folder, in the order of its files."""
    return [row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def rows_of(tensors):
    """The examples of a request, as the log has them."""
    from wire_requests import by_lists

    columns = by_lists(tensors)
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def same_row(found, expected):
    for name, value in expected.items():
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(value, np.asarray(found[name]).dtype))


def test_each_protocol_s_requests_are_logged_with_their_answers(published, tmp_path):
    folder, tensors, expected = published
    server = Server(folder, "--log", tmp_path / "log", "--log-every", "1h")
    body, header = infer_json(tensors, True)
    sent = {
        "columns": ("/v1/models/ctr:predict", by_columns(tensors), {}),
        "rows": ("/v1/models/ctr:predict", by_rows(tensors), {}),
        "plain": ("/v2/models/ctr/infer", infer_json(tensors, False)[0], {}),
        "binary": ("/v2/models/ctr/infer", body, {"Inference-Header-Content-Length": str(header)}),
    }
    for id, (path, request, more) in sent.items():
        status, headers, _ = server.ask("POST", path, request, WITH | more | {"X-Request-Id": id})
        assert (status, headers["x-request-id"]) == (200, id)
    _, headers, _ = server.ask("POST", "/v1/models/ctr:predict", by_rows(tensors))
    sent[headers["x-request-id"]] = None
    assert server.ask("POST", "/v1/models/ctr:predict", b"{}", WITH | {"X-Request-Id": "refused"})[0] == 400
    assert server.ask("POST", "/v1/models/ctr:predict", by_rows(tensors), WITH | {"X-Request-Id": WARM_UP})[0] == 200
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        for id, method, request in (
            ("predict", "/tensorflow.serving.PredictionService/Predict", warm_up.predict_request("ctr", tensors)),
            ("infer", "/inference.GRPCInferenceService/ModelInfer", infer_request(tensors)),
        ):
            metadata = [("authorization", f"Bearer {TOKEN}"), ("x-request-id", id)]
            _, call = channel.unary_unary(method).with_call(request, metadata=metadata, timeout=60)
            assert ("x-request-id", id) in call.trailing_metadata()
            sent[id] = None
    assert server.stop()[0] == 0
    found = logged(tmp_path / "log" / "ctr")
    assert len(found) == len(sent) * len(expected)
    examples = rows_of(tensors)
    for id in sent:
        of_request = [row for row in found if row[REQUEST] == id]
        assert [row[ROW] for row in of_request] == list(range(len(expected)))
        for row, example, score in zip(of_request, examples, expected):
            same_row(row, example)
            assert (row["_version"], row["_update"]) == (1, 0) and row[TIME].tzinfo
            np.testing.assert_allclose(row["_probabilities"], score, atol=1e-5)


@pytest.fixture
def ctr(published):
    served = ServedModel(published[0] / "ctr", "ctr", poll_seconds=0)
    yield served, by_rows(published[1])
    served.close()


def test_a_user_that_candidates_share_is_logged_with_each(small_batches, tmp_path, monkeypatch):
    """The rows that whole requests would have: training needs no other form. Those that would take too much are left out."""
    schema, batches = small_batches(DATA_SETS["din"])
    model, features = models.build("din", schema, optimizations="all"), batches[0][0]
    folder = serving.export_model(model, tmp_path / "ctr", share_users=True)
    columns = serving.read_manifest(folder).inputs
    once, spread = shared(features, columns, [3, 0, 2])
    tensors, expected = inputs.to_tensors(once, columns, model), probabilities(model, spread)
    whole = {name: each for name, each in inputs.to_tensors(spread, columns, model).items() if name != "candidates"}
    served, log = ServedModel(tmp_path / "ctr", "ctr", poll_seconds=0), RequestLog(tmp_path / "log", seconds=3600)
    for request, form in (
        (by_columns(tensors), "json"),
        (warm_up.predict_request("ctr", tensors), "predict"),
        (by_rows(whole), "json"),
    ):
        log.add(served, "id", request, form, -1, served.newest.process(request, form))
    log.close()
    monkeypatch.setattr(request_log, "USERS_BYTES", 200)
    request = by_columns(tensors)
    with pytest.raises(CtrlabError, match=r"user's values with each candidate, in at most 200 bytes .* these take \d+: ask for"):
        to_table(Scored(served, "id", request, "json", -1, served.newest.process(request, "json"), 0))
    served.close()
    assert log.left_out == 0
    found = logged(tmp_path / "log" / "ctr")
    assert [row[ROW] for row in found] == [*range(5)] * 3
    for row, example, score in zip(found, rows_of(whole) * 3, [*expected] * 3):
        same_row(row, example)
        assert row.keys() - example.keys() == {REQUEST, ROW, TIME, "_version", "_update", "_probabilities"}
        np.testing.assert_allclose(row["_probabilities"], score, atol=1e-5)


def test_the_bytes_of_a_user_s_values_are_counted_by_value():
    lists = pa.array([["a", "bcd"], [], ["☃" * 100]])
    assert bytes_of(pa.array(["a", "bcd", ""])).tolist() == [5, 7, 4]
    assert bytes_of(lists).tolist() == [4 + 5 + 7, 4, 4 + 304] and bytes_of(lists[:0]).tolist() == []
    assert bytes_of(pa.array([1, 2])).tolist() == [8, 8]
    assert sum(bytes_of(lists)) <= lists.nbytes <= sum(bytes_of(lists)) + 8


def test_a_share_is_logged_and_the_same_each_time(ctr, tmp_path):
    served, request = ctr
    reply = served.newest.process(request, "json")
    ids = [f"request {n}" for n in range(400)]
    for name in ("a", "b"):
        log = RequestLog(tmp_path / name, sample=0.25, seconds=3600)
        for id in ids:
            log.add(served, id, request, "json", -1, reply)
        log.close()
        assert log.left_out == 0
    a, b = ({row[REQUEST] for row in logged(tmp_path / name / "ctr")} for name in "ab")
    assert a == b and 60 < len(a) < 140


@pytest.mark.parametrize("limit", ["WAITING", "WAITING_BYTES"])
def test_nobody_waits_for_the_log(ctr, tmp_path, monkeypatch, caplog, limit):
    """Neither do many requests, nor few large ones, wait for it without a limit."""
    served, request = ctr
    reply, goes_on = served.newest.process(request, "json"), threading.Event()
    monkeypatch.setattr(request_log, "to_table", lambda scored: (goes_on.wait(), to_table(scored))[1])
    monkeypatch.setattr(request_log, limit, 5 * (len(request) + len(reply.data) if limit == "WAITING_BYTES" else 1))
    log = RequestLog(tmp_path, seconds=3600)
    for n in range(49):
        log.add(served, str(n), request, "json", -1, reply)  # would hang here
    goes_on.set()
    wait_for(log._waiting.empty)
    log.add(served, "49", request, "json", -1, reply)
    log.close()
    found = {row[REQUEST] for row in logged(tmp_path / "ctr")}
    assert 6 <= len(found) <= 7 and "49" in found and log.left_out == 50 - len(found)
    assert f"{log.left_out} requests are not in the log: they came faster than it is written" in caplog.text


def test_what_can_t_be_written_is_counted_and_said(ctr, tmp_path, caplog):
    served, request = ctr
    reply = served.newest.process(request, "json")
    log = RequestLog(tmp_path / "log", seconds=3600)
    (tmp_path / "log" / "ctr").write_text("no folder")
    with caplog.at_level(logging.WARNING):
        log.add(served, "a", request, "json", -1, reply)
        log.add(served, "b", b"[]", "json", -1, reply)
        log.close()
    assert log.left_out == 2
    assert "1 requests of ctr are not in the log" in caplog.text and "Request b is not in the log" in caplog.text


def test_files_appear_whole_and_in_time(ctr, tmp_path):
    served, request = ctr
    reply = served.newest.process(request, "json")
    log = RequestLog(tmp_path, seconds=0.2)
    seen = set()
    for n in range(300):
        log.add(served, str(n), request, "json", -1, reply)
        for path in (tmp_path / "ctr").glob("*.parquet"):
            seen |= set(read_parquet(path)[REQUEST].to_pylist())
        threading.Event().wait(0.005)
    assert seen
    log.close()
    found = [row[REQUEST] for row in logged(tmp_path / "ctr")]
    assert len(list((tmp_path / "ctr").iterdir())) > 2 and [*dict.fromkeys(found)] == [str(n) for n in range(300)]


class Counted:
    """Stands in for a table, and counts how often its size is read."""

    schema, num_rows = "the same", 1

    def __init__(self):
        self.asked = 0

    @property
    def nbytes(self):
        self.asked += 1
        return 100


def test_a_request_costs_the_same_however_many_are_held(ctr, tmp_path, monkeypatch):
    tables, merged, files = [], [], []

    def merge(parts):
        merged.append(len(parts))
        return SimpleNamespace(combine_chunks=Counted)

    monkeypatch.setattr(request_log, "to_table", lambda scored: (tables.append(Counted()), tables[-1])[1])
    monkeypatch.setattr(request_log.pa, "concat_tables", merge)
    monkeypatch.setattr(request_log.pq, "write_table", lambda table, file, **options: files.append(len(tables)))
    monkeypatch.setattr(request_log, "MOST_BYTES", 200_000)
    monkeypatch.setattr(request_log, "WAITING", 3000)
    log = RequestLog(tmp_path, seconds=3600)
    for n in range(3000):
        log.add(ctr[0], str(n), b"", "json", -1, SimpleNamespace(data=b""))
    log.close()
    assert log.left_out == 0 and files == [2001, 3000]
    assert max(table.asked for table in tables) == 1 and sum(merged) < 2 * len(tables)


@pytest.mark.parametrize("problem", [MemoryError(), ValueError("\n")])
def test_a_problem_without_words_leaves_out_one_request_or_file(ctr, tmp_path, monkeypatch, caplog, problem):
    served, request = ctr
    reply, broken = served.newest.process(request, "json"), [problem]

    def fails_once(function):
        def call(*arguments, **options):
            if broken:
                raise broken.pop()
            return function(*arguments, **options)

        return call

    for place, name in ((request_log, "to_table"), (request_log.pq, "write_table")):
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setattr(place, name, fails_once(getattr(place, name)))
            broken[:] = [problem]
            log = RequestLog(tmp_path / name, seconds=3600)
            log.add(served, "a", request, "json", -1, reply)
            log.close()
            assert log.left_out == 1 and "in the log: " in caplog.text
            log = RequestLog(tmp_path / name, seconds=3600)
            log.add(served, "b", request, "json", -1, reply)
            log.close()
            assert {row[REQUEST] for row in logged(tmp_path / name / "ctr")} == {"b"}


@pytest.mark.parametrize("options", [{"sample": 0}, {"sample": 1.5}, {"seconds": 0}])
def test_odd_numbers_are_refused(tmp_path, options):
    with pytest.raises(CtrlabError, match="share of the requests"):
        RequestLog(tmp_path, **options)
    (tmp_path / "file").write_text("")
    with pytest.raises(CtrlabError, match="can't take a log"):
        RequestLog(tmp_path / "file" / "log")
