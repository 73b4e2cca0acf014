"""The server over HTTP, an ASGI application: TensorFlow Serving's REST interface, and the open inference protocol's.

    POST /v1/models/ctr:predict                       {"instances": [...]} or {"inputs": {...}}
    GET  /v1/models/ctr, /v1/models/ctr/metadata      versions; inputs and outputs
    POST /v2/models/ctr/infer                         {"inputs": [...]}, with tensors as JSON or as bytes behind it
    GET  /v2/models/ctr, /v2/models/ctr/ready, /v2/health/live, /v2/health/ready
    GET  /metrics, /openapi.json, /dashboard

`/versions/N` or `/labels/stable` may follow a model's name. Every request must bring the token, `Authorization: Bearer ...`,
except those for health and the empty page of the dashboard. No path of a request refers to a file.

Sources: https://www.tensorflow.org/tfx/serving/api_rest; https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

import asyncio
import re
from importlib import resources

from google.protobuf.json_format import MessageToDict

from ctrlab.server import described, openapi
from ctrlab.server.application import REQUEST_ID, Answer, Application, Wrong, of_json, shown
from ctrlab.server.models import LONGEST_LABEL, Late, Models, Overloaded, states
from ctrlab.serving.graph import SIGNATURE
from ctrlab.serving.processor import ALL, Code, Refused

STATUS = {Code.INVALID: 400, Code.NOT_FOUND: 404, Code.UNAVAILABLE: 503, Code.FAILED: 500}
HEADER = b"inference-header-content-length"
MODEL = r"/models/(?P<model>[^/:]+)(?:/versions/(?P<version>[0-9]{1,19})|/labels/(?P<label>[^/:]+))?"
PAGE = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        b"default-src 'none'; connect-src 'self'; img-src data:; script-src 'unsafe-inline'; style-src 'unsafe-inline'",
    ),
)
"""Headers of the dashboard's page: only its own code may run, and it may reach only this server."""


class Rest(Application):
    """The application; `options` are those of `Application`."""

    serves = "/v1/models/..., /v2/... and /metrics"

    def __init__(self, models: Models, token: str, **options):
        super().__init__(token, models.refuse, **options)
        self.models = models
        self.routes += [
            ("POST", re.compile(rf"/v1{MODEL}:predict"), self._predict),
            ("GET", re.compile(rf"/v1{MODEL}"), self._status),
            ("GET", re.compile(rf"/v1{MODEL}/metadata"), self._metadata),
            ("POST", re.compile(rf"/v2{MODEL}/infer"), self._infer),
            ("GET", re.compile(rf"/v2{MODEL}/ready"), self._model_ready),
            ("GET", re.compile(rf"/v2{MODEL}"), self._model),
            ("GET", re.compile(r"/v2/?"), self._server),
            ("GET", re.compile(r"/metrics"), self._metrics),
            ("GET", re.compile(r"/openapi\.json"), self._openapi),
            ("GET", re.compile(r"/dashboard"), self._dashboard),
        ]
        self.open += (self._dashboard,)

    def status_of(self, problem: Exception) -> int | None:
        if isinstance(problem, Refused):
            return STATUS[problem.code]
        return 429 if isinstance(problem, Overloaded) else 504 if isinstance(problem, Late) else None

    async def _process(self, found, headers, body, format, header=ALL) -> tuple:
        asked, label = _asked(found)
        id = headers.get(REQUEST_ID, b"").decode(errors="surrogateescape")
        reply = await asyncio.wrap_future(self.models.submit(found["model"], body, format, header, asked, label, id=id))
        says = {b"x-model-version": str(reply.version), b"x-model-update": str(reply.update), REQUEST_ID: reply.id}
        return reply, tuple((name, value.encode()) for name, value in says.items())

    async def _predict(self, found, headers, receive) -> Answer:
        reply, says = await self._process(found, headers, await self.body(headers, receive), "json")
        return Answer(reply.data, headers=((b"content-type", b"application/json"), *says))

    async def _infer(self, found, headers, receive) -> Answer:
        body, given = await self.body(headers, receive), headers.get(HEADER)
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
        said = []
        for number, state in states(self.models.of(found["model"]), *_asked(found)).items():
            status = {"error_code": "OK" if state.served else "UNKNOWN", "error_message": state.why}
            said.append({"version": str(number), "state": "AVAILABLE" if state.served else "END", "status": status})
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

    async def _metrics(self, *_) -> Answer:
        page = await asyncio.to_thread(self.models.metrics.page)
        return Answer(page, headers=((b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),))

    async def _openapi(self, *_) -> Answer:
        return of_json(openapi.document({name: served.info() for name, served in list(self.models.served.items())}))

    async def _dashboard(self, *_) -> Answer:
        page = resources.files("ctrlab.server").joinpath("dashboard.html").read_bytes()
        return Answer(page, headers=PAGE)


def _asked(found: dict[str, str | None]) -> tuple[int | None, str]:
    """The version and the label in a path."""
    return int(found["version"]) if found["version"] else None, (found["label"] or "")[:LONGEST_LABEL]
