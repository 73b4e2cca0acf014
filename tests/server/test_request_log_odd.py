"""Requests of any mix make one file of the log for each set of columns, and none is lost."""

import json

import keras
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_requests import by_columns, infer_json, infer_request

from ctrlab import serving
from ctrlab.data.labels import REQUEST, ROW
from ctrlab.server.request_log import RequestLog
from ctrlab.server.served import ServedModel
from ctrlab.serving import warm_up
from ctrlab.serving.processor import ALL, Refused


@pytest.fixture
def serve():
    """`serve(folder)` -> the model in it."""
    opened = []

    def of(folder, **options):
        opened.append(ServedModel(folder, folder.name, poll_seconds=0, **options))
        return opened[-1]

    yield of
    for served in opened:
        served.close()


def logged(served, folder, requests):
    """The tables in the log of these requests, (body, format, header, version), and {id: number of rows} of those with an answer.
    Only JSON has rows.
    """
    log, rows = RequestLog(folder, seconds=3600), {}
    for number, (body, form, header, version) in enumerate(requests):
        with served.use(version) as processor:
            try:
                reply = processor.process(body, form, header)
            except Refused:
                continue
        rows[f"id {number}"] = len(next(iter(json.loads(reply.data).values()))) if form == "json" else 0
        log.add(served, f"id {number}", body, form, header, reply)
    log.close()
    assert log.left_out == 0
    return [pq.read_table(path) for path in sorted(folder.glob("*/*.parquet"))], rows


def asked(*bodies, form="json"):
    return [(json.dumps(body).encode(), form, ALL, None) for body in bodies]


def whole(tables, rows):
    """Whether the tables have each row of each request, in their order."""
    found = [(row[REQUEST], row[ROW]) for table in tables for row in table.select([REQUEST, ROW]).to_pylist()]
    return sorted(found) == sorted((id, row) for id, count in rows.items() for row in range(count))


def test_requests_without_rows_make_no_files(published, serve, tmp_path):
    """Over each protocol, one after each that has rows."""
    served, tensors = serve(published[0] / "ctr"), published[1]
    none = {name: tensor[:1] if name.endswith("/row_splits") else tensor[:0] for name, tensor in tensors.items()}
    body, header = infer_json(none, True)
    empty = [
        *asked({"instances": []}),
        (by_columns(none), "json", ALL, None),
        (warm_up.predict_request("ctr", none), "predict", ALL, None),
        (infer_request(none), "infer", ALL, None),
        (body, "infer_json", header, None),
    ]
    some = (by_columns(tensors), "json", ALL, None)
    tables, rows = logged(served, tmp_path, [each for odd in empty for each in (some, odd)] + [some])
    assert len(rows) == 2 * len(empty) + 1 and sorted({*rows.values()}) == [0, 20]
    assert len(tables) == 1 and whole(tables, rows)
    assert logged(served, tmp_path / "none", empty)[0] == []


NUMBERS = st.one_of(st.none(), st.integers(-5, 5), st.floats(-5, 5), st.booleans())
WORDS = st.one_of(st.none(), st.text("aé☃", max_size=2), st.integers(0, 9))
LISTS = st.one_of(st.none(), st.lists(st.sampled_from("aé☃"), max_size=3))


def requests_to(info):
    """Requests of any mix: columns with and without values, numbers of each kind, words beside numbers, lists without entries."""
    columns = {}
    for name, kind in info["inputs"].items():
        column, _, part = name.rpartition("/")
        if part != "row_splits":
            columns |= {column: LISTS} if column else {name: WORDS if kind == "string" else NUMBERS}
    rows = st.lists(st.fixed_dictionaries({}, optional=columns), max_size=3)
    by_column = st.integers(0, 3).flatmap(
        lambda size: st.fixed_dictionaries(
            {}, optional={name: st.lists(value, min_size=size, max_size=size) for name, value in columns.items()}
        )
    )
    return st.one_of(st.fixed_dictionaries({"instances": rows}), st.fixed_dictionaries({"inputs": by_column}))


@pytest.mark.parametrize("name", ["ctr", "dlrm"])
def test_requests_of_any_mix_are_in_one_file(published, serve, tmp_path_factory, name):
    served = serve(published[0] / name)
    answered = 0

    @settings(max_examples=10, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(requests_to(served.newest.info()), min_size=3, max_size=15))
    def one_file(bodies):
        nonlocal answered
        tables, rows = logged(served, tmp_path_factory.mktemp("log"), asked(*bodies))
        assert len(tables) == any(rows.values()) and whole(tables, rows)
        answered += sum(map(bool, rows.values()))

    one_file()
    assert answered > 10


def sums(*shapes):
    """A model of inputs of these shapes."""
    given = [keras.Input(shape, name=f"x{k}") for k, shape in enumerate(shapes)]
    layer = keras.layers.Lambda(lambda all: sum(tf.reduce_sum(each, range(1, each.shape.rank)) for each in all), output_shape=())
    return keras.Model({each.name: each for each in given}, layer(given))


def test_versions_with_other_columns_that_answer_by_turns_have_a_file_each(serve, tmp_path):
    for shapes in ([(1,)], [(1,), (2,)]):
        serving.export_model(sums(*shapes), tmp_path / "own")
    bodies = {1: {"instances": [{"x0": [1.0]}]}, 2: {"instances": [{"x0": [1.0], "x1": [2.0, 3.0]}]}}
    requests = [(json.dumps(bodies[version]).encode(), "json", ALL, version) for version in [1, 2] * 10]
    tables, rows = logged(serve(tmp_path / "own", keep=2), tmp_path / "log", requests)
    assert len(rows) == 20 and len(tables) == 2 and whole(tables, rows)
    assert [{*table["_version"].to_pylist()} for table in sorted(tables, key=lambda table: table.num_columns)] == [{1}, {2}]


def test_an_input_of_any_size_is_a_list_of_its_values(serve, tmp_path):
    serving.export_model(sums((None,), (2, None), (2,)), tmp_path / "own")
    row = {"x2": [7.0, 8.0]}
    bodies = [{"instances": [row | {"x0": [1.0] * n, "x1": [[2.0] * n, [3.0] * n]}] * 2} for n in (1, 3, 2)]
    tables, rows = logged(serve(tmp_path / "own"), tmp_path / "log", asked(*bodies))
    assert len(tables) == 1 and whole(tables, rows)
    for found, n in zip(tables[0].to_pylist(), (1, 1, 3, 3, 2, 2)):
        assert (found["x0"], found["x1"], found["x2"]) == ([1.0] * n, [2.0] * n + [3.0] * n, [7.0, 8.0])
