"""`ctrlab serve` as a process that begins with TensorFlow imported, and how clients reach it."""

import http.client
import os
import re
import signal
import subprocess
import sys

import grpc

from tests import forked

TOKEN = "a-token"
WITH = {"Authorization": f"Bearer {TOKEN}"}


class Server:
    """`ctrlab serve` on ports of its own; what it says of its work goes to the file `errors`, or to this process's stderr."""

    def __init__(self, folder, *options, errors=None):
        command = [sys.executable, "-m", "ctrlab", "serve", folder, "--port", "0", "--grpc-port", "0", *options]
        environment = os.environ | {"CTRLAB_TOKEN": TOKEN, "TF_CPP_MIN_LOG_LEVEL": "3"}
        self.process = forked.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.said = []
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r"HTTP on http://127.0.0.1:(\d+), gRPC on 127.0.0.1:(\d+)", line):
                self.port, self.grpc_port = int(found[1]), int(found[2])
                break
        else:
            raise AssertionError(self.said)

    def counted(self, name, **labels):
        """The count under this name on the page of metrics; 0.0 if it has none yet."""
        ends = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        page = self.ask("GET", "/metrics")[2].decode()
        found = re.search(rf"^{re.escape(f'{name}{{{ends}}}' if labels else name)} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def ask(self, method, path, body=None, headers=WITH):
        """(status, headers, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return found

    def call(self, method, request, token=TOKEN, **options):
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            asks = channel.unary_unary(method)
            return asks(request, metadata=[("authorization", f"Bearer {token}")], timeout=options.get("timeout", 60))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        rest = self.process.stdout.read()
        return self.process.wait(60), rest
