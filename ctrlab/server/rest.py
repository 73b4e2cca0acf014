"""The server over HTTP, an ASGI application: TensorFlow Serving's REST interface, and the open inference protocol's.

    POST /v1/models/ctr:predict                       {"instances": [...]} or {"inputs": {...}}
    GET  /v1/models/ctr, /v1/models/ctr/metadata      versions; inputs and outputs
    POST /v2/models/ctr/infer                         {"inputs": [...]}, with tensors as JSON or as bytes behind it
    GET  /v2/models/ctr, /v2/models/ctr/ready, /v2/health/live, /v2/health/ready
    GET  /metrics, /openapi.json, /dashboard

`/versions/N` or `/labels/stable` may follow a model's name. Every request brings the token, `Authorization: Bearer ...`, but
those for health and the empty page of the dashboard. No path of a request is a file's.

Sources: https://www.tensorflow.org/tfx/serving/api_rest; https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import secrets
from http import HTTPStatus
from importlib import resources
from typing import NamedTuple

from google.protobuf.json_format import MessageToDict
from uvicorn.protocols.http.flow_control import CLOSE_HEADER

from ctrlab.errors import CtrlabError
from ctrlab.server import described, openapi
from ctrlab.server.models import LONGEST_ID, LONGEST_LABEL, STOPS, Late, Models, Overloaded, shown, states
from ctrlab.serving.graph import SIGNATURE
from ctrlab.serving.processor import ALL, Code, Refused

STATUS = {Code.INVALID: 400, Code.NOT_FOUND: 404, Code.UNAVAILABLE: 503, Code.FAILED: 500}
HEADER = b"inference-header-content-length"
REQUEST_ID = b"x-request-id"
"""By which the log knows a request; who sends none gets one with the answer."""
MODEL = r"/models/(?P<model>[^/:]+)(?:/versions/(?P<version>[0-9]{1,19})|/labels/(?P<label>[^/:]+))?"
PAGE = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        b"default-src 'none'; connect-src 'self'; img-src data:; script-src 'unsafe-inline'; style-src 'unsafe-inline'",
    ),
)
"""The page's own code may run, and reach this server alone."""
log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """Of a request."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"),)


class Wrong(CtrlabError):
    """A request that is refused before it reaches a model."""

    def __init__(self, status: int, sentence: str, *headers: tuple[bytes, bytes]):
        super().__init__(sentence)
        self.status, self.headers = status, headers


def of_json(found: object, status: int = 200, *headers: tuple[bytes, bytes]) -> Answer:
    return Answer(json.dumps(found).encode(), status, ((b"content-type", b"application/json"), *headers))


class Rest:
    """The application.

    Args:
        token: that requests bring; "": none is asked for.
        most_bytes: of a request's body.
        body_seconds: in which a body has to come.
    """

    def __init__(self, models: Models, token: str, most_bytes: int = 64 << 20, body_seconds: float = 30.0):
        self.models, self._token, self.most_bytes, self.body_seconds = models, token.encode(), most_bytes, body_seconds
        self.ready = True
        """Whether clients may go on asking here; else each answer ends its connection."""
        self._routes = [
            ("POST", re.compile(rf"/v1{MODEL}:predict"), self._predict),
            ("GET", re.compile(rf"/v1{MODEL}"), self._status),
            ("GET", re.compile(rf"/v1{MODEL}/metadata"), self._metadata),
            ("POST", re.compile(rf"/v2{MODEL}/infer"), self._infer),
            ("GET", re.compile(rf"/v2{MODEL}/ready"), self._model_ready),
            ("GET", re.compile(rf"/v2{MODEL}"), self._model),
            ("GET", re.compile(r"/v2/?"), self._server),
            ("GET", re.compile(r"/v2/health/live"), self._live),
            ("GET", re.compile(r"/v2/health/ready"), self._health),
            ("GET", re.compile(r"/metrics"), self._metrics),
            ("GET", re.compile(r"/openapi\.json"), self._openapi),
            ("GET", re.compile(r"/dashboard"), self._dashboard),
        ]
        self._open = (self._live, self._health, self._dashboard)

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
        except Wrong as wrong:
            self.models.refuse("", HTTPStatus(wrong.status).name.lower(), str(wrong))
            answer = of_json({"error": str(wrong)}, wrong.status, *wrong.headers)
        except Refused as refused:
            answer = of_json({"error": str(refused)}, STATUS[refused.code])
        except Overloaded as refused:
            answer = of_json({"error": str(refused)}, 429)
        except Late as late:
            answer = of_json({"error": str(late)}, 504)
        except asyncio.CancelledError:  # it took longer than a server that stops waits
            answer = of_json({"error": STOPS}, 503)
        except Exception:
            log.exception("A request failed inside the server")
            answer = of_json({"error": "The server failed; its log says how."}, 500)
        headers = [*answer.headers, (b"content-length", str(len(answer.body)).encode())]
        if not self.ready:
            headers.append(CLOSE_HEADER)
        try:
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": answer.body})
        except Exception:  # uvicorn's own words about it are not told
            log.exception("An answer could not be sent")
            raise

    async def _answer(self, scope, receive) -> Answer:
        path, allowed = scope["path"], []
        asked = "GET" if scope["method"] == "HEAD" else scope["method"]  # whose body the connection leaves out
        headers = dict(scope["headers"])
        for method, pattern, handler in self._routes:
            if found := pattern.fullmatch(path):
                if method == asked:
                    if handler not in self._open:
                        self._require_token(headers)
                    return await handler(found.groupdict(), headers, receive)
                allowed.append(method)
        if allowed:
            takes = (b"allow", ", ".join(allowed).encode())
            raise Wrong(405, f"{shown(path)} takes {' and '.join(allowed)}; received {shown(scope['method'])}.", takes)
        raise Wrong(404, f"This server has /v1/models/..., /v2/... and /metrics; received {shown(path)}.")

    def _require_token(self, headers) -> None:
        given = headers.get(b"authorization", b"")
        if self._token and not hmac.compare_digest(given, b"Bearer " + self._token):
            said = "none" if not given else "another"
            sentence = f"A request brings the server's token, in the header Authorization: Bearer ...; received {said}."
            raise Wrong(401, sentence, (b"www-authenticate", b"Bearer"))

    async def _body(self, headers, receive) -> bytes:
        if (coding := headers.get(b"content-encoding", b"identity")) != b"identity":
            said = f"A request's body is sent as it is; received Content-Encoding: {shown(coding.decode('latin-1'))}."
            raise Wrong(415, said, (b"accept-encoding", b"identity"))
        too_large = Wrong(413, f"A request has at most {self.most_bytes} bytes: split it.")
        if headers.get(b"content-length", b"0").isdigit() and int(headers.get(b"content-length", b"0")) > self.most_bytes:
            raise too_large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Wrong(400, "The client left before its request was whole.")
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self.most_bytes:
                        raise too_large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Wrong(408, f"A request's body comes within {self.body_seconds:g} s; this one did not.") from None

    async def _process(self, found, headers, body, format, header=ALL) -> tuple:
        asked, label = _asked(found)
        id = headers.get(REQUEST_ID, b"")[:LONGEST_ID].strip().decode("latin-1") or secrets.token_hex(16)
        reply = await asyncio.wrap_future(self.models.submit(found["model"], body, format, header, asked, label, id=id))
        says = {b"x-model-version": str(reply.version), b"x-model-update": str(reply.update), REQUEST_ID: id}
        return reply, tuple((name, value.encode("latin-1")) for name, value in says.items())

    async def _predict(self, found, headers, receive) -> Answer:
        reply, says = await self._process(found, headers, await self._body(headers, receive), "json")
        return Answer(reply.data, headers=((b"content-type", b"application/json"), *says))

    async def _infer(self, found, headers, receive) -> Answer:
        body, given = await self._body(headers, receive), headers.get(HEADER)
        if given is not None and not (re.fullmatch(b"[0-9]{1,18}", given) and int(given) <= len(body)):
            received = shown(given.decode("latin-1"))
            raise Wrong(400, f"Inference-Header-Content-Length is a number of bytes, {len(body)} at most; received {received}.")
        reply, says = await self._process(found, headers, body, "infer_json", ALL if given is None else int(given))
        kind = b"application/json" if reply.header == ALL else b"application/octet-stream"
        length = () if reply.header == ALL else ((HEADER, str(reply.header).encode()),)
        return Answer(reply.data, headers=((b"content-type", kind), *length, *says))

    def _info(self, found) -> dict:
        return self.models.of(found["model"]).info(*_asked(found))

    async def _status(self, found, headers, receive) -> Answer:
        fine = {"error_code": "OK", "error_message": ""}
        said = []
        for number, why in states(self.models.of(found["model"]), *_asked(found)).items():
            status = {"error_code": "UNKNOWN", "error_message": why} if why else fine
            said.append({"version": str(number), "state": "END" if why else "AVAILABLE", "status": status})
        return of_json({"model_version_status": said})

    async def _metadata(self, found, headers, receive) -> Answer:
        info = self._info(found)
        signature = MessageToDict(
            described.signature(info), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        spec = {"name": found["model"], "signature_name": "", "version": str(info["version"])}
        return of_json({"model_spec": spec, "metadata": {"signature_def": {"signature_def": {SIGNATURE: signature}}}})

    async def _model(self, found, headers, receive) -> Answer:
        info = self._info(found)
        return of_json(described.model(found["model"], list(self.models.of(found["model"]).infos()), info))

    async def _model_ready(self, found, headers, receive) -> Answer:
        self._info(found)
        return Answer(b"", 200 if self.ready else 503)

    async def _server(self, *_) -> Answer:
        return of_json(described.server())

    async def _live(self, *_) -> Answer:
        return Answer(b"")

    async def _health(self, *_) -> Answer:
        return Answer(b"", 200 if self.ready else 503)

    async def _metrics(self, *_) -> Answer:
        page = await asyncio.to_thread(self.models.metrics.page)
        return Answer(page, headers=((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),))

    async def _openapi(self, *_) -> Answer:
        infos = {name: served.info() for name, served in self.models.served.items()}
        shared = [name for name, info in infos.items() if info["per_user"]]
        return of_json(openapi.document({name: info["inputs"] for name, info in infos.items()}, shared))

    async def _dashboard(self, *_) -> Answer:
        page = resources.files("ctrlab.server").joinpath("dashboard.html").read_bytes()
        return Answer(page, headers=PAGE)


def _asked(found: dict[str, str | None]) -> tuple[int | None, str]:
    """The version and the label of a path."""
    return int(found["version"]) if found["version"] else None, (found["label"] or "")[:LONGEST_LABEL]
