"""An exported model that answers requests, in this process: libctrlab_processor.so (native/processor) from Python.

    with Processor("models/ctr") as processor:
        processor.process(b'{"instances": [{"item": "B01", "history_items": ["B02"]}]}', "json").data

Requests and answers are bytes as on the wire. Python never parses them, and does not hold its global lock during a call. The
library needs no Python: a server in another language calls it through native/processor/processor_c.h.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from ctrlab import _native
from ctrlab.errors import CtrlabError, NativeLibraryError, choose

if TYPE_CHECKING:
    import pyarrow as pa

LIBRARY = Path(__file__).parents[1] / "libctrlab_processor.so"
BEHIND = LIBRARY.with_name("_ctrlab_processor.so")
"""The library that `LIBRARY` opens in its first call."""
VERSION = 4
"""The version of the C interface: CTRLAB_PROCESSOR_VERSION."""
FORMATS = {"predict": 0, "json": 1, "infer": 2, "infer_json": 3}
"""{name: format}, the values of `ctrlab_processor_format`."""
STAGES = ("parse", "run", "write")
"""The stages of a request: parsing it; running the model, including the wait for its batch; writing the answer."""
ALL = -1
"""The value of `header` for a message that is JSON throughout, or not JSON at all."""

Format = Literal["predict", "json", "infer", "infer_json"]


class Code(enum.IntEnum):
    """The result codes of a call, the values of `ctrlab_processor_answer`."""

    OK = 0
    INVALID = 1
    NOT_FOUND = 2
    UNAVAILABLE = 3
    FAILED = 4


class Refused(CtrlabError):
    """The processor refused a call; the message is one sentence, and `code` says whose fault it is."""

    def __init__(self, code: int, sentence: str):
        super().__init__(sentence)
        self.code = Code(code)


class Reply(NamedTuple):
    """An answer.

    Attributes:
        data: the answer's bytes.
        version, update: those of the model that answered; update 0 is the version as it was exported.
        header: the number of bytes that are JSON, if tensors follow them; otherwise `ALL`.
        seconds: duration of each of `STAGES`; 0 for a stage that did not run.
        id: the request's id, of a server that knows it.
    """

    data: bytes
    version: int
    update: int
    header: int
    seconds: tuple[float, ...] = (0.0,) * len(STAGES)
    id: str = ""


class _Sized(ctypes.Structure):
    """A C structure that contains its own size, so that a library of another version can recognise its fields."""

    _fields_ = (("struct_size", ctypes.c_size_t),)

    def __init__(self, **fields):
        super().__init__(ctypes.sizeof(self), **fields)


class _Request(_Sized):
    _fields_ = (
        ("format", ctypes.c_int32),
        ("data", ctypes.c_char_p),
        ("size", ctypes.c_size_t),
        ("header", ctypes.c_int64),
    )


class _Response(_Sized):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("version", ctypes.c_int64),
        ("update", ctypes.c_int64),
        ("header", ctypes.c_int64),
        ("parse_nanos", ctypes.c_int64),
        ("run_nanos", ctypes.c_int64),
        ("write_nanos", ctypes.c_int64),
        ("owner", ctypes.c_void_p),
    )


@functools.cache
def _library() -> ctypes.CDLL:
    _native.library()  # TensorFlow and the ops, or the sentence why not
    for each in (LIBRARY, BEHIND):
        _native.check_whole(each)
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise NativeLibraryError(f"{LIBRARY} can't be loaded: {error}; {_native.CURE}.") from None
    if (version := library.ctrlab_processor_version()) != VERSION:
        raise NativeLibraryError(f"{LIBRARY} has interface {version}, and this package knows {VERSION}; {_native.CURE}.")
    request, reply = ctypes.POINTER(_Request), ctypes.POINTER(_Response)
    for name, between in {"process": [request, reply], "parse": [request, reply], "info": [reply], "release": []}.items():
        arguments = [ctypes.c_uint64, *between, ctypes.c_char_p, ctypes.c_size_t]
        getattr(library, f"ctrlab_processor_{name}").argtypes = arguments
    return library


def _given(request: bytes, format: Format, header: int):
    number = FORMATS[choose("format", format, FORMATS)]
    if not isinstance(request, bytes):
        raise CtrlabError(f"A request is bytes, as they come over the wire; received {type(request).__name__}.")
    if not ALL <= header < 1 << 63:
        raise CtrlabError(f"The header of a request is a number of bytes, or {ALL} for none; received {header}.")
    return ctypes.byref(_Request(format=number, data=request, size=len(request), header=header))


def _call(function, *arguments) -> None:
    problem = ctypes.create_string_buffer(4096)
    code = function(*arguments, problem, ctypes.c_size_t(len(problem)))
    if code != Code.OK:
        raise Refused(code, problem.value.decode(errors="replace"))


class Processor:
    """Serves the newest version in a model's folder, and follows the folder by itself. Thread-safe.

    A newer version takes the place of the one that serves if it can be loaded. A version whose files change is another version:
    it is loaded again. If the version that serves is deleted, the newest of the others takes its place; if there is none, it
    serves on.

    Args:
        folder: the model's folder; its versions are folders in it.
        configuration: the fields that native/processor/processor_c.h describes: name, version, intra_op_threads, group,
            poll_seconds, most_request_bytes, most_model_bytes, batch_rows, batch_wait_micros, ignore_unknown, most_slowdown.
    Raises:
        Refused: no version can be loaded, or a field is invalid. NativeLibraryError: there is no library.
    """

    def __init__(self, folder: Path | str, **configuration):
        self._library = _library()
        handle = ctypes.c_uint64()
        given, path = json.dumps(configuration).encode(), os.fsencode(folder)
        if b"\0" in path:
            raise CtrlabError(f"A folder's path has no zero in it; received {folder!r}.")
        _call(self._library.ctrlab_processor_initialize, path, given, ctypes.byref(handle))
        self._handle = handle.value

    def process(self, request: bytes, format: Format, header: int = ALL) -> Reply:
        """Answers one request.

        Args:
            format: "predict" for TensorFlow Serving's PredictRequest, "json" for its REST body, "infer" for the open inference
                protocol's ModelInferRequest, "infer_json" for its REST body.
            header: the number of bytes of an "infer_json" body that are JSON, if tensors follow them.
        Raises:
            Refused: the request can't be answered; or the processor is closed. UnknownName: there is no such format.
        """
        return self._reply(self._library.ctrlab_processor_process, _given(request, format, header))

    def parse(self, request: bytes, format: Format, header: int = ALL) -> dict[str, pa.Array]:
        """Parses a request for the current version: {input: its values}, with text as binary, and with the defaults in place of
        what is missing. Values of an input with a size that may be any lie one after the other. Arguments and errors are as in
        `process`.
        """
        import numpy as np  # a process that only answers needs neither
        import pyarrow as pa

        info = self.info()
        reply = self._reply(self._library.ctrlab_processor_parse, _given(request, format, header))
        if self.info()["loads"] != info["loads"]:  # another version has come between the calls
            return self.parse(request, format, header)
        data, at, found = pa.py_buffer(reply.data), 0, {}

        def take(size: int) -> pa.Buffer:
            nonlocal at
            taken, at = data.slice(at, size), at + -(-size // 8) * 8
            return taken

        for name, kind in info["inputs"].items():
            count = int.from_bytes(take(8), "little")
            if kind == "string":
                offsets = take(4 * (count + 1))
                text = take(int.from_bytes(offsets[4 * count :], "little"))
                found[name] = pa.Array.from_buffers(pa.binary(), count, [None, offsets, text])
            else:
                found[name] = pa.array(np.frombuffer(take(count * np.dtype(kind).itemsize), kind))
            sizes = info["input_shapes"][name][1:]
            for size in () if -1 in sizes else reversed(sizes):
                found[name] = pa.FixedSizeListArray.from_arrays(found[name], size)
        return found

    def info(self) -> dict:
        """Describes the served model: name, version, update, step of the training; inputs and outputs with their types, and
        `input_shapes` and `output_shapes`, with -1 for any size; `defaults`, {column: its default} of those that a request may
        leave out; `per_user`, the columns that candidates share, if they do; `words`, the inputs whose texts are ids, as
        `ctrlab.schema.words` has them; `ignores_unknown`, and `ignored`, the first 100 columns of requests that were left out.

        Also `loads`: the number of versions loaded so far; `gone`: whether this version is no longer in the folder;
        `read_micros`: when the weights were read from the model, microseconds since 1970; `longest_pause_micros`: the
        longest time for which an update delayed requests; `stopped`: why no more updates are taken, or ""; `refused`: {version:
        why it is not served}; `members` of its group: their threads, requests inside and answered.
        """
        return json.loads(self._reply(self._library.ctrlab_processor_info).data)

    def close(self) -> None:
        """Closes the processor. Calls that run in other threads end normally. Closing twice does nothing."""
        handle, self._handle = self._handle, 0
        if handle:
            _call(self._library.ctrlab_processor_release, handle)

    def __enter__(self) -> Processor:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _reply(self, function, *arguments) -> Reply:
        response = _Response()
        _call(function, self._handle, *arguments, ctypes.byref(response))
        try:
            seconds = tuple(getattr(response, f"{stage}_nanos") / 1e9 for stage in STAGES)
            data = ctypes.string_at(response.data, response.size)
            return Reply(data, response.version, response.update, response.header, seconds)
        finally:
            self._library.ctrlab_processor_free(ctypes.byref(response))
