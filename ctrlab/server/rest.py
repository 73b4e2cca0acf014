"""The server over HTTP, an ASGI application: TensorFlow Serving's REST interface, and the open inference protocol's.

    POST /v1/models/ctr:predict                       {"instances": [...]} or {"inputs": {...}}
    GET  /v1/models/ctr, /v1/models/ctr/metadata      versions; inputs and outputs
    POST /v2/models/ctr/infer                         {"inputs": [...]}, with tensors as JSON or as bytes behind it
    GET  /v2/models/ctr, /v2/models/ctr/ready, /v2/health/live, /v2/health/ready
    GET  /metrics

`/versions/N` or `/labels/stable` may follow a model's name. Every request but those for health brings the token:
`Authorization: Bearer ...`. No path of a request is a file's.

Sources: https://www.tensorflow.org/tfx/serving/api_rest; https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import secrets
from importlib.metadata import version
from typing import NamedTuple

from ctrlab.errors import CtrlabError
from ctrlab.server.models import Late, Models, Overloaded
from ctrlab.serving.graph import OUTPUT, SIGNATURE
from ctrlab.serving.processor import ALL, Code, Refused

STATUS = {Code.INVALID: 400, Code.NOT_FOUND: 404, Code.UNAVAILABLE: 503, Code.FAILED: 500}
HEADER = b"inference-header-content-length"
REQUEST_ID = b"x-request-id"
"""By which the log knows a request; who sends none gets one with the answer."""
LONGEST_ID = 200
TYPES = {
    "string": ("DT_STRING", "BYTES"),
    "int32": ("DT_INT32", "INT32"),
    "int64": ("DT_INT64", "INT64"),
    "float32": ("DT_FLOAT", "FP32"),
}
MODEL = r"/models/(?P<model>[^/:]+)(?:/versions/(?P<version>[0-9]{1,18})|/labels/(?P<label>[^/:]+))?"
log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """Of a request."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"),)


class Wrong(CtrlabError):
    """A request that is refused before it reaches a model."""

    def __init__(self, status: int, sentence: str):
        super().__init__(sentence)
        self.status = status


def of_json(found: object, status: int = 200) -> Answer:
    return Answer(json.dumps(found).encode(), status)


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
        ]

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
        except Wrong as wrong:
            answer = of_json({"error": str(wrong)}, wrong.status)
        except Refused as refused:
            answer = of_json({"error": str(refused)}, STATUS[refused.code])
        except Overloaded as refused:
            answer = of_json({"error": str(refused)}, 429)
        except Late as late:
            answer = of_json({"error": str(late)}, 504)
        except Exception:
            log.exception("A request failed inside the server")
            answer = of_json({"error": "The server failed; its log says how."}, 500)
        headers = [*answer.headers, (b"content-length", str(len(answer.body)).encode())]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope, receive) -> Answer:
        path, allowed = scope["path"], []
        headers = dict(scope["headers"])
        for method, pattern, handler in self._routes:
            if found := pattern.fullmatch(path):
                if method == scope["method"]:
                    if handler not in (self._live, self._health):
                        self._require_token(headers)
                    return await handler(found.groupdict(), headers, receive)
                allowed.append(method)
        if allowed:
            raise Wrong(405, f"{path} takes {' and '.join(allowed)}; received {scope['method']}.")
        raise Wrong(404, f"This server has /v1/models/..., /v2/... and /metrics; received {path[:200]}.")

    def _require_token(self, headers) -> None:
        given = headers.get(b"authorization", b"")
        if self._token and not hmac.compare_digest(given, b"Bearer " + self._token):
            said = "none" if not given else "another"
            raise Wrong(401, f"A request brings the server's token, in the header Authorization: Bearer ...; received {said}.")

    async def _body(self, headers, receive) -> bytes:
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
        id = headers.get(REQUEST_ID, b"")[:LONGEST_ID].decode("latin-1") or secrets.token_hex(16)
        reply = await asyncio.wrap_future(self.models.submit(found["model"], body, format, header, asked, label, id=id))
        says = {b"x-model-version": str(reply.version), b"x-model-update": str(reply.update), REQUEST_ID: id}
        return reply, tuple((name, value.encode("latin-1")) for name, value in says.items())

    async def _predict(self, found, headers, receive) -> Answer:
        reply, says = await self._process(found, headers, await self._body(headers, receive), "json")
        return Answer(reply.data, headers=((b"content-type", b"application/json"), *says))

    async def _infer(self, found, headers, receive) -> Answer:
        body, given = await self._body(headers, receive), headers.get(HEADER)
        if given is not None and not given.isdigit():
            raise Wrong(400, f"Inference-Header-Content-Length is a number of bytes; received {given[:40].decode('latin-1')}.")
        reply, says = await self._process(found, headers, body, "infer_json", ALL if given is None else int(given))
        kind = b"application/json" if reply.header == ALL else b"application/octet-stream"
        length = () if reply.header == ALL else ((HEADER, str(reply.header).encode()),)
        return Answer(reply.data, headers=((b"content-type", kind), *length, *says))

    def _info(self, found) -> dict:
        version, label = _asked(found)
        with self.models.of(found["model"]).use(version, label) as processor:
            info = processor.info()
        if version is not None and version != info["version"]:
            said = f"Version {info['version']} of {found['model']} is served; received a request for {version}."
            raise Refused(Code.NOT_FOUND, said)
        return info

    async def _status(self, found, headers, receive) -> Answer:
        served, asked = self.models.of(found["model"]), self._info(found)["version"] if any(_asked(found)) else None
        fine = {"error_code": "OK", "error_message": ""}
        available = [version for version in served.infos() if asked in (None, version)]
        states = [{"version": str(number), "state": "AVAILABLE", "status": fine} for number in reversed(available)]
        for number, why in served.refused().items() if asked is None else ():
            failed = {"error_code": "UNKNOWN", "error_message": why}
            states.append({"version": str(number), "state": "END", "status": failed})
        return of_json({"model_version_status": states})

    async def _metadata(self, found, headers, receive) -> Answer:
        info = self._info(found)

        def described(types: dict, dims: list[str]) -> dict:
            shape = {"dim": [{"size": size, "name": ""} for size in dims], "unknown_rank": False}
            return {name: {"dtype": TYPES[kind][0], "tensor_shape": shape, "name": name} for name, kind in types.items()}

        signature = {
            "inputs": described(info["inputs"], ["-1"]),
            "outputs": described(info["outputs"], ["-1", "-1"]),
            "method_name": "tensorflow/serving/predict",
        }
        spec = {"name": found["model"], "signature_name": "", "version": str(info["version"])}
        return of_json({"model_spec": spec, "metadata": {"signature_def": {"signature_def": {SIGNATURE: signature}}}})

    async def _model(self, found, headers, receive) -> Answer:
        info = self._info(found)
        inputs = [{"name": name, "datatype": TYPES[kind][1], "shape": [-1]} for name, kind in info["inputs"].items()]
        outputs = [{"name": OUTPUT, "datatype": "FP32", "shape": [-1, -1]}]
        versions = [str(number) for number in self.models.of(found["model"]).infos()]
        rest = {"versions": versions, "platform": "ctrlab_processor", "inputs": inputs, "outputs": outputs}
        return of_json({"name": found["model"]} | rest)

    async def _model_ready(self, found, headers, receive) -> Answer:
        self._info(found)
        return Answer(b"", 200 if self.ready else 503)

    async def _server(self, *_) -> Answer:
        return of_json({"name": "ctrlab", "version": version("ctrlab"), "extensions": ["binary_tensor_data"]})

    async def _live(self, *_) -> Answer:
        return Answer(b"")

    async def _health(self, *_) -> Answer:
        return Answer(b"", 200 if self.ready else 503)

    async def _metrics(self, *_) -> Answer:
        page = await asyncio.to_thread(self.models.metrics.page)
        return Answer(page, headers=((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),))


def _asked(found: dict[str, str | None]) -> tuple[int | None, str]:
    """The version and the label of a path."""
    return int(found["version"]) if found["version"] else None, found["label"] or ""
