"""The stock server: a SavedModel of stock ops behind uvicorn, as a competent team writes it. It knows nothing of this package.

uvicorn with uvloop and httptools, orjson, requests by columns, and a process a core, each with one thread of TensorFlow's:
threads of one process would wait for Python's lock while another request is parsed. `tf.constant` of a list is the fastest way
from words to a tensor; NumPy's arrays take twice as long.

    python stock_server.py VERSION_FOLDER PORT
"""

from __future__ import annotations

import sys

import orjson
import tensorflow as tf
import uvicorn

JSON = [(b"content-type", b"application/json")]


class App:
    """An ASGI application with one route, whatever the path."""

    def __init__(self, folder: str):
        self.loaded = tf.saved_model.load(folder)  # a signature does not keep it
        self.answers = self.loaded.signatures["serving_default"]
        self.types = {name: spec.dtype for name, spec in self.answers.structured_input_signature[1].items()}

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            return
        parts, more = [], True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        columns = orjson.loads(b"".join(parts))["inputs"]
        tensors = {name: tf.constant(columns[name], kind) for name, kind in self.types.items()}
        found = self.answers(**tensors)["probabilities"].numpy()
        body = orjson.dumps({"outputs": found}, option=orjson.OPT_SERIALIZE_NUMPY)
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [*JSON, length]})
        await send({"type": "http.response.body", "body": body})


def main(folder: str, port: str) -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    quick = {"loop": "uvloop", "http": "httptools", "log_level": "error", "access_log": False}
    uvicorn.run(App(folder), host="127.0.0.1", port=int(port), timeout_keep_alive=75, **quick)  # longer than a balancer's


if __name__ == "__main__":
    main(*sys.argv[1:])
