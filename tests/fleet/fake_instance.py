"""A server of one model that behaves as it is told: started as an instance of a fleet, in a tenth of a second.

    python fake_instance.py FOLDER NUMBER
FOLDER/behaviour.json has {"*" or start's number, from 1: {option: value}}; each start takes the next number. Options:

    start        seconds before it listens                  dies         at once, with this sentence
    cold         it answers no request of a model (503)     other_token  it takes another token
    answer       seconds that an answer takes               hangs        it answers nothing once FOLDER/hang is there
    half         it ends after half an answer to the request with this body
"""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

INPUTS = [
    {"name": "item", "datatype": "BYTES", "shape": [-1]},
    {"name": "history/values", "datatype": "INT64", "shape": [-1]},
    {"name": "history/row_splits", "datatype": "INT64", "shape": [-1]},
]
folder = Path(sys.argv[1])


def number():
    """Of this start: whoever makes the file has the number."""
    for count in range(1, 1000):
        try:
            os.close(os.open(folder / f"start-{count}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        return count


me = number()
options = json.loads((folder / "behaviour.json").read_text()) if (folder / "behaviour.json").exists() else {}
does = options.get("*", {}) | options.get(str(me), {})
token = "another" if does.get("other_token") else os.environ.get("CTRLAB_TOKEN", "")
ready = True
inside = threading.Semaphore(1000)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, found, **headers):
        body = json.dumps(found).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        while does.get("hangs") and (folder / "hang").exists():
            time.sleep(0.05)
        if self.path.startswith("/v2/health"):
            self.say(200 if ready else 503, {})
        elif token and self.headers["Authorization"] != f"Bearer {token}":
            self.say(401, {"error": "no token"})
        elif self.path == "/openapi.json":
            self.say(200, {"paths": {"/v2/models/{model}": {}, "/v2/models/ctr/infer": {}}})
        else:
            self.say(200, {"name": "ctr", "inputs": INPUTS})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        while does.get("hangs") and (folder / "hang").exists():
            time.sleep(0.05)
        first = self.headers["X-Request-Id"] == "warm-up"
        if does.get("cold"):
            self.say(503, {"error": "cold"})
        elif does.get("half") and body.decode() == does["half"]:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 500)
            self.wfile.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            time.sleep(0 if first else does.get("answer", 0))
            (folder / f"answered-{me}").touch()
            if first:
                (folder / "warm.json").write_bytes(body)
            self.say(200, {"start": me, "body": body.decode(), "cpus": sorted(os.sched_getaffinity(0))}, x_model_version="7")


def stop(*_):
    global ready
    ready = False
    threading.Thread(target=server.shutdown).start()


if "dies" in does:
    sys.exit(f"\x1b[31m{does['dies']}\x1b[0m")
time.sleep(does.get("start", 0))
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = False
signal.signal(signal.SIGTERM, stop)
print(json.dumps({"message": f"start {me}"}), file=sys.stderr, flush=True)
print(f"HTTP on \x1b[4;94mhttp://127.0.0.1:\x1b[0m\x1b[1m{server.server_port}\x1b[0m, gRPC on 127.0.0.1:1", flush=True)
server.serve_forever()
os._exit(0)
