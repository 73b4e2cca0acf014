"""The server over gRPC: TensorFlow Serving's PredictionService and ModelService, and the open inference protocol's service.

Messages stay bytes: the processor parses them. The few small ones that it does not know are read and written here by the numbers
of their fields. Sources: tensorflow_serving/apis/{predict,model,get_model_status,get_model_metadata}.proto, and
grpc_predict_v2.proto of https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
import time
from typing import NamedTuple

import grpc

from ctrlab.errors import BadData, CtrlabError
from ctrlab.server import described
from ctrlab.server.models import Late, Models, Overloaded
from ctrlab.serving.graph import SIGNATURE
from ctrlab.serving.processor import Code, Format, Refused
from ctrlab.serving.wire import field, fields, number, varint

CODES = {
    Code.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Code.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Code.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Code.FAILED: grpc.StatusCode.INTERNAL,
}
REQUEST_ID, LONGEST_ID = "x-request-id", 200
AVAILABLE, END = 30, 50  # ModelVersionStatus.State
YES = number(1, 1)  # a message whose first field is true
log = logging.getLogger(__name__)


class Rpc(grpc.GenericRpcHandler):
    """Knows the methods by their paths.

    Args:
        token: that calls bring in their metadata, `authorization: Bearer ...`; "": none is asked for.
    """

    def __init__(self, models: Models, token: str):
        self.models, self._token = models, token
        open_inference, serving = "/inference.GRPCInferenceService/", "/tensorflow.serving."
        self._methods = {
            f"{serving}PredictionService/Predict": self._predict,
            f"{serving}PredictionService/GetModelMetadata": self._metadata,
            f"{serving}ModelService/GetModelStatus": self._status,
            f"{open_inference}ModelInfer": self._infer,
            f"{open_inference}ModelReady": self._model_ready,
            f"{open_inference}ModelMetadata": self._model,
            f"{open_inference}ServerMetadata": self._server,
            f"{open_inference}ServerLive": self._yes,
            f"{open_inference}ServerReady": self._yes,
            "/grpc.health.v1.Health/Check": self._health,
        }
        self._services = {"", *(method.split("/")[1] for method in self._methods)}

    def service(self, handler_call_details):
        method = self._methods.get(handler_call_details.method)
        if method is None:
            return None

        async def answer(request: bytes, context) -> bytes:
            try:
                if method not in (self._yes, self._health):
                    self._require_token(context)
                return await method(request, context)
            except Refused as refused:
                code, sentence = CODES[refused.code], str(refused)
            except Overloaded as refused:
                code, sentence = grpc.StatusCode.RESOURCE_EXHAUSTED, str(refused)
            except Late as late:
                code, sentence = grpc.StatusCode.DEADLINE_EXCEEDED, str(late)
            except CtrlabError as bad:
                code = grpc.StatusCode.UNAUTHENTICATED if isinstance(bad, NoToken) else grpc.StatusCode.INVALID_ARGUMENT
                sentence = str(bad)
                self.models.refuse("", code.name.lower(), sentence)
            except Exception:
                log.exception("A call failed inside the server")
                code, sentence = grpc.StatusCode.INTERNAL, "The server failed; its log says how."
            return await context.abort(code, sentence)

        return grpc.unary_unary_rpc_method_handler(answer)

    def _require_token(self, context) -> None:
        given = dict(context.invocation_metadata() or ()).get("authorization", "")
        if self._token and not hmac.compare_digest(str(given).encode(), f"Bearer {self._token}".encode()):
            raise NoToken("A call brings the server's token, in its metadata authorization: Bearer ...")

    async def _process(self, asked: _Asked, request: bytes, format: Format, context) -> bytes:
        left = context.time_remaining()
        deadline = None if left is None else time.monotonic() + left
        given = str(dict(context.invocation_metadata() or ()).get(REQUEST_ID, ""))[:LONGEST_ID]
        id = given or secrets.token_hex(16)
        options = {"version": asked.version, "label": asked.label, "deadline": deadline, "id": id}
        reply = await asyncio.wrap_future(self.models.submit(asked.model, request, format, **options))
        context.set_trailing_metadata(((REQUEST_ID, id),))
        return reply.data

    async def _predict(self, request: bytes, context) -> bytes:
        return await self._process(_asked(request), request, "predict", context)

    async def _infer(self, request: bytes, context) -> bytes:
        return await self._process(_asked_of_open_inference(request), request, "infer", context)

    async def _status(self, request: bytes, context) -> bytes:
        served = self.models.of(_asked(request).model)
        states = [(version, AVAILABLE, b"") for version in reversed(served.infos())]
        states += [(version, END, number(1, 2) + field(2, why.encode())) for version, why in served.refused().items()]
        return b"".join(field(1, number(1, version) + number(2, state) + field(3, why)) for version, state, why in states)

    async def _metadata(self, request: bytes, context) -> bytes:
        name, version, label = _asked(request)
        info = self.models.of(name).info(version, label)
        signatures = field(1, field(1, SIGNATURE.encode()) + field(2, described.signature(info).SerializeToString()))
        packed = field(1, b"type.googleapis.com/tensorflow.serving.SignatureDefMap") + field(2, signatures)
        spec = field(1, name.encode()) + field(2, number(1, info["version"]))
        return field(1, spec) + field(2, field(1, b"signature_def") + field(2, packed))

    async def _model_ready(self, request: bytes, context) -> bytes:
        name, version, label = _asked_of_open_inference(request)
        self.models.of(name).info(version, label)
        return YES

    async def _model(self, request: bytes, context) -> bytes:
        name, version, label = _asked_of_open_inference(request)
        served = self.models.of(name)
        found = described.model(name, list(served.infos()), served.info(version, label))

        def tensors(key: int, described: list[dict]) -> bytes:
            return b"".join(
                field(key, _texts(1, each["name"]) + _texts(2, each["datatype"]) + field(3, b"".join(map(_int64, each["shape"]))))
                for each in described
            )

        says = _texts(1, name) + _texts(2, *found["versions"]) + _texts(3, found["platform"])
        return says + tensors(4, found["inputs"]) + tensors(5, found["outputs"])

    async def _server(self, request: bytes, context) -> bytes:
        found = described.server()
        return _texts(1, found["name"]) + _texts(2, found["version"]) + _texts(3, *found["extensions"])

    async def _health(self, request: bytes, context) -> bytes:
        service = _text(fields(request), 1)
        if service not in self._services:
            raise Refused(Code.NOT_FOUND, f"This server has no service {service}.")
        return YES  # SERVING is 1

    async def _yes(self, request: bytes, context) -> bytes:
        return YES


class _Asked(NamedTuple):
    """Whom a call is for."""

    model: str
    version: int | None
    label: str


def _asked(request: bytes) -> _Asked:
    """Of a request whose first field is a ModelSpec: name = 1, version = 2 (in a message), version_label = 4."""
    spec = fields(_bytes(fields(request), 1))
    version = fields(_bytes(spec, 2)).get(1, 0) if 2 in spec else None
    return _Asked(_text(spec, 1), version if isinstance(version, int) else None, _text(spec, 4))


def _asked_of_open_inference(request: bytes) -> _Asked:
    """Of a request whose first two fields are a model's name and its version."""
    message = fields(request)
    version = _text(message, 2)
    if version and not re.fullmatch("[0-9]{1,18}", version):
        raise BadData(f"A model's version is a whole number; received {version[:40]}.")
    return _Asked(_text(message, 1), int(version) if version else None, "")


class NoToken(CtrlabError):
    """A call without the token."""


def _bytes(message: dict, number: int) -> bytes:
    found = message.get(number, b"")
    return found if isinstance(found, bytes) else b""


def _text(message: dict, number: int) -> str:
    return _bytes(message, number).decode(errors="replace")


def _texts(number: int, *texts: str) -> bytes:
    return b"".join(field(number, text.encode()) for text in texts)


def _int64(value: int) -> bytes:
    """As the wire has those below 0: of 64 bits."""
    return varint(value % (1 << 64))
