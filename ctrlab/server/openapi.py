"""The HTTP interface in OpenAPI's words, for generators of clients and of tests.

Source: https://spec.openapis.org/oas/v3.1.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from urllib.parse import quote

from ctrlab.server.application import LONGEST_ID
from ctrlab.server.described import DATATYPES
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
TEXT = {"type": ["string", "object"], "properties": {"b64": {"type": "string"}}, "required": ["b64"]}
THERE = {"minLength": 1, "properties": {"b64": {"type": "string", "minLength": 1}}}
"""The rules of a text in a list, which is not empty."""
WHOLE = {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 64) - 1}
"""A number among words stands for its digits."""
VALUES = {"string": TEXT, "bool": {"type": "boolean"}} | {f"float{bits}": {"type": "number"} for bits in (16, 32, 64)}
VALUES |= {
    f"int{bits}": {"type": "integer", "minimum": -(1 << bits - 1), "maximum": (1 << bits - 1) - 1} for bits in (8, 16, 32, 64)
}
VALUES |= {f"uint{bits}": {"type": "integer", "minimum": 0, "maximum": (1 << bits) - 1} for bits in (8, 16, 32, 64)}
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


def document(infos: Mapping[str, dict]) -> dict:
    """The interface of a server.

    Args:
        infos: {model: the `info` of its processor}.
    """
    models = {"name": "model", "in": "path", "required": True, "schema": {"type": "string", "enum": sorted(infos)}}
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
    for model, info in infos.items():
        place = quote(model, safe="")
        for at, asked in ASKED.items():
            rows = _post(f"The answers of {model} to rows", _predict(info), _answer(info), *asked)
            tensors = _post(f"The answers of {model} to tensors", INFER, {"type": "object"}, *asked)
            described |= {f"/v1/models/{place}{at}:predict": {"post": rows}, f"/v2/models/{place}{at}/infer": {"post": tensors}}
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
        "id": {"type": "string", "maxLength": LONGEST_ID},
        "inputs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "shape", "datatype", "data"],
                "properties": {
                    "name": {"type": "string"},
                    "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
                    "datatype": {"enum": sorted(DATATYPES.values())},
                    "data": {"type": "array"},
                },
            },
        },
    },
}
"""The schema of an inference request. Tensors as bytes after the JSON are an extension of the protocol that no schema can
describe. A column with a default may be left out, and null stands for a missing value.
"""


def _predict(info: dict) -> dict:
    """The schema of a request by rows or by columns. A column of lists is given as lists, or as its values and row splits. A
    column with a default may be left out, and its values may be null. A model of one column takes it without its name. A request
    by columns may contain the number of candidates of each user.
    """
    types, shapes, defaults = info.get("inputs", {}), info.get("input_shapes", {}), info.get("defaults", {})
    row, columns, rules, together = {}, {}, [], {}
    for name, kind in types.items():
        column, _, part = name.rpartition("/")
        if part == "row_splits" or (info.get("per_user") and name == COUNTS.column):
            continue
        if part != "values":
            value = _word(name, info) if kind == "string" else VALUES[kind]
            value = _or(value, "boolean") if kind.startswith("float") else value
            row[name] = _optional(name, _with_or_without_1(value, shapes[name][1:]), defaults)
            columns[name] = _optional(name, _lists(row[name], [-1]), defaults, inside=True)
            continue
        entries = _lists(_word(name, info) | THERE if kind == "string" else VALUES[kind], [-1])
        row[column] = _optional(column, entries, defaults)
        columns[column] = _optional(column, _lists(row[column], [-1]), defaults, inside=True)
        splits = f"{column}/row_splits"
        columns |= {name: entries, splits: _lists({"type": "integer", "minimum": 0}, [-1]) | {"minItems": 1}}
        together |= {name: [splits], splits: [name]}
        if column not in defaults:
            rules.append({"anyOf": [{"required": [column]}, {"required": [name]}]})
    others = info.get("ignores_unknown", False)
    needed = sorted(row.keys() - defaults.keys())
    counts = {COUNTS.column: _lists({"type": "integer", "minimum": 0}, [-1])} if info.get("per_user") else {}
    by_row = {"type": "object", "properties": row, "required": needed, "additionalProperties": others}
    by_column = {
        "type": "object",
        "properties": columns | counts,
        "required": [name for name in needed if name in types],
        "additionalProperties": others,
    } | ({"allOf": rules} if rules else {})
    by_column |= {"dependentRequired": together} if together else {}
    if len(row) == 1:
        (name,) = row
        by_row, by_column = {"anyOf": [by_row, row[name]]}, {"anyOf": [by_column, _lists(row[name], [-1])]}
    return {"oneOf": [_object({"instances": {"type": "array", "items": by_row}}), _object({"inputs": by_column})]}


def _answer(info: dict) -> dict:
    """The schema of an answer: by rows "predictions", by columns "outputs". Several outputs have their names."""
    outputs = {
        name: _lists(_or(VALUES[kind], "null"), info["output_shapes"][name][1:]) for name, kind in info.get("outputs", {}).items()
    }
    rows = next(iter(outputs.values())) if len(outputs) == 1 else {"type": "object", "properties": outputs}
    columns = {name: _lists(value, [-1]) for name, value in outputs.items()}
    found = next(iter(columns.values())) if len(columns) == 1 else {"type": "object", "properties": columns}
    return {"type": "object", "properties": {"predictions": _lists(rows, [-1]), "outputs": found}}


def _lists(value: dict, sizes: Sequence[int]) -> dict:
    """The schema of nested lists of these sizes; -1: any."""
    for size in reversed(sizes):
        value = {"type": "array", "items": value} | ({} if size < 0 else {"minItems": size, "maxItems": size})
    return value


def _with_or_without_1(value: dict, sizes: Sequence[int]) -> dict:
    """As `_lists`. As in Keras, a last size of 1 may be left out, or be too much."""
    if sizes and sizes[-1] != 1:
        return _lists(value, sizes)
    return _lists(_or(value, "array") | {"items": value, "minItems": 1, "maxItems": 1}, sizes[:-1])


def _word(name: str, info: dict) -> dict:
    """The schema of a text, which among words may also be a whole number."""
    return WHOLE | _or(TEXT, "integer") if name in info.get("words", ()) else TEXT


def _optional(column: str, value: dict, defaults: Mapping, *, inside: bool = False) -> dict:
    """The schema of a value that may be null, with its default, if the column has one. `inside`: of the column's list."""
    if column not in defaults:
        return value
    return _or(value, "null") | ({} if inside else {"default": defaults[column]})


def _or(value: dict, kind: str) -> dict:
    """The schema of a value that may also be of this type. (No choice of schemas: generators of tests give up on many.)"""
    types = value["type"] if isinstance(value["type"], list) else [value["type"]]
    return value if kind in types else value | {"type": [*types, kind]}


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
