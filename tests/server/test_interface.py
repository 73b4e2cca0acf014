"""The HTTP interface against its own description: requests drawn from it, right and wrong, and answers as it says."""

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from serve_command import WITH
from wire_requests import by_lists

from ctrlab.server.openapi import document

UNEQUAL = schemathesis.checks.positive_data_acceptance
"""A schema can't say that columns have one length."""


@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
def test_answers_are_as_described(server, mode):
    described = schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/openapi.json", headers=WITH)
    seen = set()
    for found in described.get_all_operations():
        operation = found.ok()
        if mode == schemathesis.GenerationMode.NEGATIVE and not (operation.body or operation.path_parameters):
            continue  # there is nothing to be wrong

        asked = "/versions/" in operation.path or "/labels/" in operation.path  # the same handler

        @settings(
            max_examples=4 if asked else 25,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(operation.as_strategy(generation_mode=mode))
        def answers_as_described(case):
            case.call_and_validate(headers=WITH, excluded_checks=[UNEQUAL])

        answers_as_described()
        seen.add(operation.path)
    assert {"/v1/models/{model}", "/v2/models/{model}/ready", "/v1/models/dlrm:predict", "/v2/models/ctr/infer"} <= seen


def test_a_right_request_is_one_by_the_description(server, published):
    found = json.loads(server.ask("GET", "/openapi.json", headers=WITH)[2])
    bodies = found["paths"]["/v1/models/ctr:predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    answers = found["paths"]["/v1/models/ctr:predict"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    columns = by_lists(published[1])
    rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
    for body in ({"inputs": columns}, {"instances": rows}):
        assert Draft202012Validator(bodies).is_valid(body)
        status, _, answer = server.ask("POST", "/v1/models/ctr:predict", json.dumps(body).encode())
        assert status == 200 and Draft202012Validator(answers).is_valid(json.loads(answer))
    less = [{name: value for name, value in row.items() if name != "item"} for row in rows]  # its default stands for it
    for body in (
        {"instances": less},
        {"instances": [row | {"item": None} for row in rows]},
        {"instances": [row | {"item": 1} for row in rows]},  # a whole number is a word
        {"inputs": columns | {"item": None}},
    ):
        assert Draft202012Validator(bodies).is_valid(body)
        assert server.ask("POST", "/v1/models/ctr:predict", json.dumps(body).encode())[0] == 200
    odd = [row | {"item": 1.5} for row in rows]
    for body in ({"inputs": columns, "instances": rows}, {"instances": odd}, {}, [], {"inputs": columns | {"more": [1]}}):
        assert not Draft202012Validator(bodies).is_valid(body)
        assert server.ask("POST", "/v1/models/ctr:predict", json.dumps(body).encode())[0] == 400


def test_the_description_is_of_each_model_and_asks_for_the_token(server):
    assert server.ask("GET", "/openapi.json", headers={})[0] == 401
    assert {"/v1/models/ctr:predict", "/v2/models/dlrm/infer"} < set(document({"ctr": {}, "dlrm": {}})["paths"])
