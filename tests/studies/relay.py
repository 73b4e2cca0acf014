"""A port that hands all it gets to another one, later: a network with a delay, between processes of one machine."""

import contextlib
import queue
import socket
import threading
import time


class Relay:
    """Listens on a port of its own and connects to `address` for each that connects to it.

    A thread sleeps as long as it is told and some 0.1 ms; an event loop's timers would round up to whole milliseconds.

    Attributes:
        address: host:port.
    """

    def __init__(self, address: str, seconds: float):
        host, port = address.split(":")
        self._to, self._seconds = (host, int(port)), seconds
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._ends = [self._server]

    def __enter__(self):
        _thread(self._serve)
        return self

    def __exit__(self, *_):
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for it
            end.close()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._server.accept()
                self._ends.append(here)
                try:
                    there = socket.create_connection(self._to)
                except OSError:
                    here.close()
                    continue
                self._ends.append(there)
                for one, other in ((here, there), (there, here)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    waiting = queue.SimpleQueue()
                    _thread(self._take, one, waiting)
                    _thread(self._give, one, waiting, other)

    def _take(self, one, waiting):
        data = b"."
        while data:
            try:
                data = one.recv(1 << 20)
            except OSError:
                data = b""
            waiting.put((time.monotonic() + self._seconds, data))

    @staticmethod
    def _give(one, waiting, other):
        """All bytes in order, and the end of them, each when it is due."""
        with contextlib.suppress(OSError):
            data = b"."
            while data:
                due, data = waiting.get()
                time.sleep(max(0.0, due - time.monotonic()))
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
            return
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)  # for the other end is gone


def _thread(target, *arguments):
    threading.Thread(target=target, args=arguments, daemon=True).start()
