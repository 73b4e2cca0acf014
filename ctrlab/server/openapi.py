"""The HTTP interface in OpenAPI's words, for generators of clients and of tests.

Source: https://spec.openapis.org/oas/v3.1.0.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import version

from ctrlab.serving.inputs import COUNTS

WHY = {
    400: "The request is none, or not one of this model's.",
    401: "The token is missing, or another.",
    404: "There is no such model, version or label.",
    408: "The request did not come in time.",
    413: "The request is too large.",
    415: "The body is compressed.",
    429: "Too many requests wait: try again later.",
    500: "The server or the model failed.",
    503: "The model can't answer now.",
}
TEXT = {"anyOf": [{"type": "string"}, {"type": "object", "properties": {"b64": {"type": "string"}}, "required": ["b64"]}]}
VALUES = {
    "string": TEXT,
    "int32": {"type": "integer", "minimum": -(1 << 31), "maximum": (1 << 31) - 1},
    "int64": {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 63) - 1},
    "float32": {"type": "number"},
}
VERSION = {
    "name": "version",
    "in": "path",
    "required": True,
    "schema": {"type": "integer", "minimum": 0, "maximum": (1 << 63) - 1},
}
LABEL = {"name": "label", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,100}$"}}
ASKED = {"": (), "/versions/{version}": (VERSION,), "/labels/{label}": (LABEL,)}
"""The parts of a path that may follow a model's name."""
OPEN = {"security": []}
"""The security entry of requests that need no token."""


def document(inputs: dict[str, dict[str, str]], shared: Collection[str] = ()) -> dict:
    """The interface of a server.

    Args:
        inputs: {model: {input: its type}}, from the processors' `info`.
        shared: the models whose candidates share users.
    """
    models = {"name": "model", "in": "path", "required": True, "schema": {"type": "string", "enum": sorted(inputs)}}
    paths = {
        "/v2": _get("The server"),
        "/v2/health/live": _get("Whether the server runs", kind=None) | OPEN,
        "/v2/health/ready": _get("Whether the server takes requests", kind=None) | OPEN,
        "/metrics": _get("What the server counted, for Prometheus", kind="text/plain"),
        "/dashboard": _get("A page with charts of it", kind="text/html") | OPEN,
        "/openapi.json": _get("This document"),
    }
    for at, asked in ASKED.items():
        paths |= {
            f"/v1/models/{{model}}{at}": _get("The versions that are served, and those that can't be", models, *asked),
            f"/v1/models/{{model}}{at}/metadata": _get("Inputs and outputs, as TensorFlow Serving has them", models, *asked),
            f"/v2/models/{{model}}{at}": _get("Inputs and outputs, as the open inference protocol has them", models, *asked),
            f"/v2/models/{{model}}{at}/ready": _get("Whether the model answers", models, *asked, kind=None),
        }
    described = {path: {"get": operation} for path, operation in paths.items()}
    for model, types in inputs.items():
        values = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
        answer = {"type": "object", "properties": {"predictions": values, "outputs": values}}
        for at, asked in ASKED.items():
            rows = _post(f"The answers of {model} to rows", _predict(types, model in shared), answer, *asked)
            tensors = _post(f"The answers of {model} to tensors", INFER, {"type": "object"}, *asked)
            described |= {f"/v1/models/{model}{at}:predict": {"post": rows}, f"/v2/models/{model}{at}/infer": {"post": tensors}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "ctrlab", "version": version("ctrlab")},
        "paths": described,
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


INFER = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "id": {"type": "string"},
        "inputs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "shape", "datatype", "data"],
                "properties": {
                    "name": {"type": "string"},
                    "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 1},
                    "datatype": {"enum": ["BYTES", "INT32", "INT64", "FP32"]},
                    "data": {"type": "array"},
                },
            },
        },
    },
}
"""The schema of an inference request. Tensors as bytes after the JSON are an extension of the protocol that no schema can
describe.
"""


def _predict(types: dict[str, str], shared: bool) -> dict:
    """The schema of a request by rows or by columns. A column of lists is given as lists, or as its values and row splits. A
    request by columns may contain the number of candidates of each user.
    """
    row, columns, either = {}, {}, []
    counts = {COUNTS.column: {"type": "array", "items": {"type": "integer", "minimum": 0}}} if shared else {}
    for name, kind in types.items():
        if name in counts:
            continue
        column, _, part = name.rpartition("/")
        if part == "values":
            row[column] = {"type": "array", "items": VALUES[kind]}
            columns[name] = row[column]
            columns[f"{column}/row_splits"] = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
            either.append({"oneOf": [{"required": [column]}, {"required": [name, f"{column}/row_splits"]}]})
            for flat in (name, f"{column}/row_splits"):
                either.append({"not": {"required": [column, flat]}})
        elif part != "row_splits":
            row[name] = VALUES[kind]
    columns |= {name: {"type": "array", "items": value} for name, value in row.items()} | counts
    plain = sorted(name for name in row if name in types)
    by_row = {"type": "object", "properties": row, "required": sorted(row), "additionalProperties": False}
    by_column = {"type": "object", "properties": columns, "required": plain, "additionalProperties": False}
    if either:
        by_column["allOf"] = either
    return {"oneOf": [_object({"instances": {"type": "array", "items": by_row}}), _object({"inputs": by_column})]}


def _object(properties: dict) -> dict:
    signature = {"signature_name": {"enum": ["serving_default", ""]}}
    needs = list(properties)
    return {"type": "object", "properties": signature | properties, "required": needs, "additionalProperties": False}


def _answers(schema: dict | None, kind: str | None) -> dict:
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    fine = {"description": "The answer"} | ({"content": {kind: {"schema": schema or {}}}} if kind else {})
    refused = {"content": {"application/json": {"schema": error}}}
    return {"200": fine} | {str(status): {"description": why, **refused} for status, why in WHY.items()}


def _get(says: str, *parameters: dict, kind: str | None = "application/json") -> dict:
    return {"summary": says, "parameters": list(parameters), "responses": _answers(None, kind)}


def _post(says: str, schema: dict, answer: dict, *parameters: dict) -> dict:
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {
        "summary": says,
        "parameters": list(parameters),
        "requestBody": body,
        "responses": _answers(answer, "application/json"),
    }
