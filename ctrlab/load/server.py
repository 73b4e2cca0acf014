"""Requests to a server before a load begins: its address, the model's inputs, and sample answers."""

from __future__ import annotations

import json
from urllib.parse import quote, urlsplit

from ctrlab.errors import CtrlabError
from ctrlab.load.client import Target, post
from ctrlab.load.connection import Connection
from ctrlab.load.requests import Body


def target(url: str) -> Target:
    """The address of a URL such as http://127.0.0.1:8501.

    Raises:
        CtrlabError: it is not a URL, or its scheme is not http.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        (parts.hostname or "").encode("idna")  # as the system's look-up encodes it
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query or parts.username:
        raise CtrlabError(f"A load goes to an address such as http://127.0.0.1:8501, with no path; received {url[:100]}.")
    return Target(parts.hostname, port or 80)


def inputs_of(where: Target, model: str, token: str = "") -> dict[str, str]:
    """{input: datatype} of a model.

    Raises:
        CtrlabError: nothing listens, the token is invalid or not the server's, there is no such model, or the server does not
            serve models.
    """
    if not (token.isascii() and token.isprintable()):
        raise CtrlabError("A token is printable ASCII; CTRLAB_TOKEN's has other characters: set it to the server's.")
    with Connection(where) as connection:
        found = connection.ask("GET", f"/v2/models/{quote(model, safe='')}", token=token)
    if found.status == 401:
        raise CtrlabError(f"The server at {where} asks for its token: set CTRLAB_TOKEN to it.")
    try:
        told = json.loads(found.body)
        if found.status == 200:
            return {each["name"]: each["datatype"] for each in told["inputs"]}
        said = str(told["error"])
    except (ValueError, KeyError, TypeError):
        said = f"it answers {found.status} to a request for the model's inputs, and no JSON of the open inference protocol"
    raise CtrlabError(f"The server at {where} has no model {model}: {said.rstrip('.')}.")


def posted(model: str, body: Body, token: str = "") -> bytes:
    """A request for a model's scores."""
    name = quote(model, safe="")
    if body.header is None:
        return post(f"/v1/models/{name}:predict", body.data, token)
    headers = {"Inference_Header_Content_Length": str(body.header), "Content_Type": "application/octet-stream"}
    return post(f"/v2/models/{name}/infer", body.data, token, **headers)


def odd(body: Body, answer: bytes) -> str:
    """Why an answer can't be a request's scores; "" if it may be. The check is that the answer has outputs, and that their size
    is enough for one score each: commas in JSON, or four bytes. The scores are not parsed, so that a generator can check every
    answer.
    """
    room = len(answer) // 4 if body.header is not None else answer.count(b",") + 1
    if room >= body.rows and b'"outputs"' in answer:
        return ""
    return f"{body.rows} scores were asked for; received {answer[:200].decode(errors='replace') or 'nothing'}"


def answer(where: Target, request: bytes) -> tuple[int, bytes]:
    """The status and body of the answer to a request made by `posted`, on a separate connection.

    Raises:
        CtrlabError: nothing listens.
    """
    with Connection(where) as connection:
        found = connection.answer(request)
    return found.status, found.body
