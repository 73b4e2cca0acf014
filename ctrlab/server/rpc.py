"""The server over gRPC: TensorFlow Serving's PredictionService and ModelService, and the open inference protocol's service.

Messages stay bytes: the processor parses them. The few small ones that it does not know are read and written here by the numbers
of their fields. Sources: tensorflow_serving/apis/{predict,model,get_model_status,get_model_metadata}.proto, and
grpc_predict_v2.proto of https://github.com/kserve/open-inference-protocol.

The token is in a call's headers. Of a caller without it no message is read, and the call ends at once. So each call is a stream
of one message to gRPC, which would read the message of a unary call first.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from typing import NamedTuple

import grpc

from ctrlab.errors import BadData, CtrlabError
from ctrlab.server import described
from ctrlab.server.application import STOPS, Arrivals, has_token, shown
from ctrlab.server.models import LONGEST_LABEL, Late, Models, Overloaded, states
from ctrlab.serving.graph import SIGNATURE
from ctrlab.serving.processor import Code, Format, Refused
from ctrlab.serving.wire import field, fields, number, read_varint, varint

CODES = {
    Code.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Code.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Code.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Code.FAILED: grpc.StatusCode.INTERNAL,
}
REQUEST_ID = "x-request-id"
LONGEST = 1_000
"""The most bytes of a sentence. On the wire a byte that is not ASCII takes three, and beyond 8 KiB gRPC drops some answers."""
LARGEST = 64 << 20
"""The largest message of a call, in bytes, as it is sent and when it is unpacked."""
MESSAGE_SECONDS = 30.0
"""Seconds within which the message of a call must arrive, like the body of a request over HTTP."""
MOST_BYTES = 4_096
"""The largest message that is parsed here, in bytes."""
MOST_FIELDS = 1_000
"""The most fields that are read to find the model that a request addresses."""
AVAILABLE, END = 30, 50  # ModelVersionStatus.State
YES, NO = number(1, 1), b""  # messages whose first field is true, and is not
NOT_SERVING = number(1, 2)  # HealthCheckResponse.ServingStatus; SERVING is 1
log = logging.getLogger(__name__)


class Rpc(grpc.GenericRpcHandler):
    """The gRPC handlers, found by the path of a method.

    Args:
        token: the token that calls must bring in their metadata, `authorization: Bearer ...`; "": none.
    """

    def __init__(self, models: Models, token: str):
        self.models, self._token = models, token.encode()
        self.ready = True
        """Whether clients may send more requests to this server."""
        self.takes = True
        """Whether requests are answered; otherwise they are refused at once."""
        self.inside: set[asyncio.Task] = set()
        """The calls in work, without those whose answers are only to be read."""
        self.unread: set[asyncio.Task] = set()
        """The calls in work, and those whose answers are to be read."""
        self.messages = Arrivals(MESSAGE_SECONDS)
        """The messages that are on their way."""
        open_inference, serving = "/inference.GRPCInferenceService/", "/tensorflow.serving."
        self._methods = {
            f"{serving}PredictionService/Predict": self._predict,
            f"{serving}PredictionService/GetModelMetadata": self._metadata,
            f"{serving}ModelService/GetModelStatus": self._status,
            f"{open_inference}ModelInfer": self._infer,
            f"{open_inference}ModelReady": self._model_ready,
            f"{open_inference}ModelMetadata": self._model,
            f"{open_inference}ServerMetadata": self._server,
            f"{open_inference}ServerLive": self._live,
            f"{open_inference}ServerReady": self._ready,
            "/grpc.health.v1.Health/Check": self._health,
        }
        self._services = {"", *(method.split("/")[1] for method in self._methods)}

    def service(self, handler_call_details):
        method = self._methods.get(handler_call_details.method)
        if method is None:
            return None

        async def answer(_, context) -> bytes:
            task = asyncio.current_task()
            try:
                if not self._reads(method, context):
                    return await method(b"", context)
                self.inside.add(task)
                self.unread.add(task)
                task.add_done_callback(self.unread.discard)  # gRPC's own task, which ends when the answer was sent
                return await method(await self._message(method, context), context)
            except asyncio.CancelledError:
                if self.takes:  # the client has left
                    raise
                code, sentence = grpc.StatusCode.UNAVAILABLE, STOPS
            except Refused as refused:
                code, sentence = CODES[refused.code], str(refused)
            except Overloaded as refused:
                code, sentence = grpc.StatusCode.RESOURCE_EXHAUSTED, str(refused)
            except Late as late:
                code, sentence = grpc.StatusCode.DEADLINE_EXCEEDED, str(late)
            except CtrlabError as bad:
                code = bad.code if isinstance(bad, Wrong) else grpc.StatusCode.INVALID_ARGUMENT
                sentence = str(bad)
                self.models.refuse("", code.name.lower(), sentence)
            except Exception:
                log.exception("A call failed inside the server")
                code, sentence = grpc.StatusCode.INTERNAL, "The server failed; its log says how."
            finally:
                self.inside.discard(task)
            return await context.abort(code, sentence.encode(errors="replace")[:LONGEST].decode(errors="ignore"))

        return grpc.stream_unary_rpc_method_handler(answer)

    def refuse_more(self) -> None:
        """Takes no more calls."""
        self.takes = False
        self.messages.hurry()

    def _reads(self, method: Callable, context) -> bool:
        """Whether the message of a call is read. Health is told without the token, too; it is then that of the whole server.

        Raises:
            Wrong: the caller has no token. Refused: the server stops.
        """
        given = dict(context.invocation_metadata() or ()).get("authorization", "")
        known = not self._token or has_token(str(given).encode(), self._token)
        if method in (self._live, self._ready, self._health):
            return known and self.takes
        if not known:
            sentence = "A call brings the server's token, in its metadata authorization: Bearer ..."
            raise Wrong(grpc.StatusCode.UNAUTHENTICATED, sentence)
        if not self.takes:
            raise Refused(Code.UNAVAILABLE, STOPS)
        return True

    async def _message(self, method: Callable, context) -> bytes:
        """The message of a call.

        Raises:
            Wrong: it does not come. BadData: it is too large. Refused: the server stops.
        """
        try:
            async with self.messages.one():
                request = await context.read()
        except TimeoutError:
            if self.messages.hurried:
                raise Refused(Code.UNAVAILABLE, STOPS) from None
            sentence = f"A call's message comes within {self.messages.seconds:g} s; this one did not."
            raise Wrong(grpc.StatusCode.DEADLINE_EXCEEDED, sentence) from None
        if request is grpc.aio.EOF:
            sentence = f"A call brings a message of at most {LARGEST} bytes, unpacked; this one brought none."
            raise Wrong(grpc.StatusCode.INVALID_ARGUMENT, sentence)
        if method not in (self._predict, self._infer) and len(request) > MOST_BYTES:
            raise BadData(f"A call that brings no rows has at most {MOST_BYTES} bytes; received {len(request)}.")
        return request

    async def _process(self, asked: _Asked, request: bytes, format: Format, context) -> bytes:
        left = context.time_remaining()
        deadline = None if left is None else time.monotonic() + left
        id = str(dict(context.invocation_metadata() or ()).get(REQUEST_ID, ""))
        if not id.isascii():
            said = f"received {shown(ascii(id))}: send another, or none and take the one that comes back."
            raise BadData(f"Metadata of gRPC is ASCII, and so is an id in {REQUEST_ID}; {said}")
        options = {"version": asked.version, "label": asked.label, "deadline": deadline, "id": id}
        reply = await asyncio.wrap_future(self.models.submit(asked.model, request, format, **options))
        if reply.id.isascii():  # else the message has it
            context.set_trailing_metadata(((REQUEST_ID, reply.id),))
        return reply.data

    async def _predict(self, request: bytes, context) -> bytes:
        return await self._process(_asked(request), request, "predict", context)

    async def _infer(self, request: bytes, context) -> bytes:
        return await self._process(_asked_of_open_inference(request), request, "infer", context)

    async def _status(self, request: bytes, context) -> bytes:
        name, version, label = _asked(request)
        said = b""
        for each, state in states(self.models.of(name), version, label).items():
            status = (b"" if state.served else number(1, 2)) + _texts(2, *filter(None, [state.why]))
            said += field(1, number(1, each) + number(2, AVAILABLE if state.served else END) + field(3, status))
        return said

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
        return YES if self.ready else NO

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
            raise Refused(Code.NOT_FOUND, f"This server has no service {shown(service)}.")
        return YES if self.ready else NOT_SERVING

    async def _ready(self, request: bytes, context) -> bytes:
        return YES if self.ready else NO

    async def _live(self, request: bytes, context) -> bytes:
        return YES


class _Asked(NamedTuple):
    """The model, version and label that a call addresses."""

    model: str
    version: int | None
    label: str


def _asked(request: bytes) -> _Asked:
    """Reads the addressed model from a request whose first field is a ModelSpec: name = 1, version = 2 (in a message),
    version_label = 4.
    """
    spec = _leading(_bytes(_leading(request, 1), 1), 1, 2, 4)
    version = _leading(_bytes(spec, 2), 1).get(1, 0) if 2 in spec else None
    return _Asked(_text(spec, 1), version if isinstance(version, int) else None, _text(spec, 4)[:LONGEST_LABEL])


def _asked_of_open_inference(request: bytes) -> _Asked:
    """Reads the addressed model from a request whose first two fields are a model's name and its version."""
    message = _leading(request, 1, 2)
    version = _text(message, 2)
    if version and not re.fullmatch("[0-9]{1,19}", version):
        raise BadData(f"A model's version is a whole number; received {shown(version)}.")
    return _Asked(_text(message, 1), int(version) if version else None, "")


def _leading(message: bytes, *wanted: int) -> dict[int, bytes | int]:
    """The first occurrences of these fields in a message. Reading stops when all are found, because a message may be as large as
    a request.

    Raises:
        BadData: the message ends too early or is invalid, or the fields are not among its first `MOST_FIELDS`.
    """
    at, found = 0, {}
    for _ in range(MOST_FIELDS):
        if at >= len(message) or len(found) == len(wanted):
            return found
        begin, size = at, 0
        tag, at = read_varint(message, at)
        kind = tag & 7
        if kind in (0, 2):
            size, at = read_varint(message, at)
        at += {1: 8, 2: size, 5: 4}.get(kind, 0)
        if tag >> 3 in wanted or at > len(message) or kind not in (0, 1, 2, 5):
            found = fields(message[begin:at]) | found  # or it says what is wrong
    raise BadData(f"A request says whom it is for in its first {MOST_FIELDS} fields; this one does not.")


class Wrong(CtrlabError):
    """A call that is refused before it reaches a model."""

    def __init__(self, code: grpc.StatusCode, sentence: str):
        super().__init__(sentence)
        self.code = code


def _bytes(message: dict, number: int) -> bytes:
    found = message.get(number, b"")
    return found if isinstance(found, bytes) else b""


def _text(message: dict, number: int) -> str:
    return _bytes(message, number).decode(errors="replace")


def _texts(number: int, *texts: str) -> bytes:
    return b"".join(field(number, text.encode()) for text in texts)


def _int64(value: int) -> bytes:
    """Decodes a signed number: on the wire, numbers below 0 are written as unsigned numbers of 64 bits."""
    return varint(value % (1 << 64))
