"""The description of the HTTP interface knows every way to ask that is answered."""

import json
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator
from wire_requests import by_lists, by_rows

from ctrlab.server.openapi import document


def bodies_of(server):
    """[(whether the description has the body, the server's status)], by a function."""
    paths = json.loads(server.ask("GET", "/openapi.json")[2])["paths"]
    schema = paths["/v1/models/ctr:predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]

    def of(body):
        status = server.ask("POST", "/v1/models/ctr:predict", json.dumps(body).encode())[0]
        return Draft202012Validator(schema).is_valid(body), status

    return of


def test_columns_of_lists_may_be_values_and_splits(server, published):
    of, lists = bodies_of(server), by_lists(published[1])
    flat = {
        name: [v.decode() if isinstance(v, bytes) else v for v in tensor.numpy().tolist()]
        for name, tensor in published[1].items()
    }
    ragged = sorted(name.removesuffix("/values") for name in flat if name.endswith("/values"))
    mixed = {name: value for name, value in flat.items() if not name.startswith(f"{ragged[0]}/")} | {ragged[0]: lists[ragged[0]]}
    for columns in (lists, flat, mixed):
        assert of({"inputs": columns}) == (True, 200)
    half = {name: value for name, value in flat.items() if name != f"{ragged[0]}/row_splits"}
    assert of({"inputs": half}) == (False, 400)
    # That a column is given once is said by the server alone: what draws requests from a description gives up on such rules.
    both = flat | {ragged[0]: lists[ragged[0]]}
    assert of({"inputs": both}) == (True, 400)


def test_lists_have_no_empty_words(server, published):
    of, lists = bodies_of(server), by_lists(published[1])
    name = next(
        name for name, rows in lists.items() if any(isinstance(row, list) and row and isinstance(row[0], str) for row in rows)
    )
    for empty in ("", {"b64": ""}):
        assert of({"inputs": lists | {name: [[*row, empty] for row in lists[name]]}}) == (False, 400)


def test_the_name_of_the_signature_may_be_empty(server, published):
    of, rows = bodies_of(server), json.loads(by_rows(published[1]))
    assert of(rows | {"signature_name": ""}) == of(rows | {"signature_name": "serving_default"}) == (True, 200)
    assert of(rows | {"signature_name": None}) == (False, 400)
    assert of(rows | {"signature_name": "other"}) == (False, 404)


def test_versions_and_labels_have_their_paths():
    paths = document({"ctr": {}, "dlrm": {}})["paths"]
    for at in ("/versions/{version}", "/labels/{label}"):
        for before, after, method in (
            ("/v1/models/{model}", "", "get"),
            ("/v1/models/{model}", "/metadata", "get"),
            ("/v2/models/{model}", "", "get"),
            ("/v2/models/{model}", "/ready", "get"),
            ("/v1/models/ctr", ":predict", "post"),
            ("/v2/models/dlrm", "/infer", "post"),
        ):
            named = {each["name"] for each in paths[before + at + after][method]["parameters"]}
            assert set(before.count("{") * ["model"]) | {at.split("{")[1][:-1]} == named


@pytest.mark.parametrize("name", ["a b", "a%2fb", "a?b", "a#b", "{a}", "模型"])
def test_a_path_has_a_model_s_name_as_addresses_have_it(name):
    paths = document({name: {}})["paths"]
    assert {f"/v1/models/{quote(name)}:predict", f"/v2/models/{quote(name)}/labels/{{label}}/infer"} <= paths.keys()


def test_numbers_of_candidates_are_described_where_users_are_shared():
    types = {"candidates": "int64", "item": "string", "past/row_splits": "int64", "past/values": "string"}
    info = {"inputs": types, "input_shapes": {name: [-1] for name in types}}
    for shared in (False, True):
        post = document({"ctr": info | {"per_user": shared}})["paths"]["/v1/models/ctr:predict"]["post"]
        of = Draft202012Validator(post["requestBody"]["content"]["application/json"]["schema"]).is_valid
        columns, row = {"item": ["a", "b"], "past": [["c"]]}, {"item": "a", "past": []}
        assert of({"inputs": columns | {"candidates": [2]}})
        assert of({"inputs": columns}) == of({"instances": [row]}) == shared
        assert of({"instances": [row | {"candidates": 2}]}) == (not shared)
    assert not of({"inputs": columns | {"candidates": [-1]}})
