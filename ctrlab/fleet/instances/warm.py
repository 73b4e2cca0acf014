"""The first requests to an instance, before any client's: it takes traffic once it has answered one request per model.

An instance has run its models' own warm-up requests before it listens. The requests here show that the port, the token and the
threads work as well. So a row of zeros and empty texts is enough, and an answer that refuses the row (400) counts.
"""

from __future__ import annotations

import asyncio
import json
import re
from urllib.parse import quote

from ctrlab.errors import CtrlabError
from ctrlab.fleet.instances.upstream import Reply, Upstream
from ctrlab.load.requests import COUNTS
from ctrlab.server.application import REQUEST_ID, WARM_UP

AGAIN_SECONDS = 0.2
EMPTY = {"BYTES": "", "FP32": 0.0}


class NoAccess(CtrlabError):
    """The instance takes a different token from the fleet's."""


async def warm_up(upstream: Upstream, token: str) -> None:
    """Waits until the instance has answered one request per model.

    Raises:
        NoAccess: the token is refused, so waiting does not help. Broken: the instance has ended.
    """
    for model in await _models(upstream, token):
        place = f"/v2/models/{quote(model, safe='')}"
        inputs = json.loads((await _answer(upstream, token, "GET", place)).body)["inputs"]
        request = json.dumps({"inputs": [one_row(each["name"], each["datatype"]) for each in inputs]}).encode()
        await _answer(upstream, token, "POST", f"{place}/infer", request)


async def _models(upstream: Upstream, token: str) -> list[str]:
    paths = json.loads((await _answer(upstream, token, "GET", "/openapi.json")).body)["paths"]
    return [found[1] for path in paths if (found := re.fullmatch(r"/v2/models/([^/{]+)/infer", path))]


async def _answer(upstream: Upstream, token: str, method: str, path: str, body: bytes = b"") -> Reply:
    headers = [(b"authorization", f"Bearer {token}".encode()), (REQUEST_ID, WARM_UP.encode())]
    while True:
        reply = await upstream.ask(method, path, headers if token else headers[1:], body)
        if reply.status == 401:
            raise NoAccess(f"An instance takes the fleet's token; that on port {upstream.port} takes another.")
        if reply.status in (200, 400):
            return reply
        await asyncio.sleep(AGAIN_SECONDS)


def one_row(name: str, datatype: str) -> dict:
    """A tensor with one example, whose ragged inputs have one element each."""
    column, _, part = name.partition("/")
    data = [0, 1] if part == "row_splits" else [1] if column == COUNTS else [EMPTY.get(datatype, 0)]
    return {"name": name, "datatype": datatype, "shape": [len(data)], "data": data}
