"""A server of one model, in place of `ctrlab serve`, that a test starts in a tenth of a second.

    python stub_instance.py PORT FOLDER
A request for scores is JSON that says what is done: {"sleep": seconds} answers later, {"die": true} ends the process before that.
While FOLDER/drains-PORT is there, the server says that it is not ready. Each request leaves a file in FOLDER.
"""

import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

port, folder = int(sys.argv[1]), Path(sys.argv[2])


class Handler(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1

    def log_message(self, *_):
        pass

    def say(self, status, found):
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("X-Model-Version", "7")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        drains = self.path == "/v2/health/ready" and (folder / f"drains-{port}").exists()
        self.say(503 if drains else 200, {"port": port})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        (folder / f"request-{port}-{time.time_ns()}").write_bytes(body)
        asked = json.loads(body)
        if asked.get("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(asked.get("sleep", 0))
        self.say(200, {"port": port, "pid": os.getpid(), "size": len(body)})


class Server(ThreadingHTTPServer):
    allow_reuse_address = True
    request_queue_size = 100


print(f"HTTP on http://127.0.0.1:{port}", flush=True)
Server(("127.0.0.1", port), Handler).serve_forever()
