"""A client of gRPC that says what no library would: calls whose message never ends. It counts no windows, and answers no ping.

Frames: RFC 9113, 4.1. Headers are literals without Huffman's code (RFC 7541, 6.2.2).
"""

import socket
import struct

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
END_OF_HEADERS, END_OF_STREAM = 4, 1
LARGEST = 16_384
"""Bytes of a frame."""


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def literal(name, value):
    return b"\0" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


class Client:
    """A connection, on which each call is a stream: 1, 3, 5, ..."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.sendall(HELLO + frame(SETTINGS, 0, 0))
        self._next, self._said = 1, b""

    def begin(self, path, *headers, message=b"", packed=False, size=None):
        """Begins a call; of its message of `size` bytes come only the first. Returns the stream's number."""
        stream, self._next = self._next, self._next + 2
        head = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "a", "te": "trailers"}
        head |= {"content-type": "application/grpc"} | ({"grpc-encoding": "gzip"} if packed else {})
        lines = b"".join(literal(*each) for each in (*head.items(), *headers))
        body = struct.pack(">?I", packed, len(message) if size is None else size) + message
        parts = [body[at : at + LARGEST] for at in range(0, len(body), LARGEST)]
        self.socket.sendall(
            frame(HEADERS, END_OF_HEADERS, stream, lines) + b"".join(frame(DATA, 0, stream, part) for part in parts)
        )
        return stream

    def end_of(self, stream):
        """The last headers of a call's answer, as bytes."""
        while True:
            head, body = self._take(9), b""
            kind, flags, number = head[3], head[4], int.from_bytes(head[5:]) & 0x7FFFFFFF
            body = self._take(int.from_bytes(head[:3]))
            if (kind, number) == (HEADERS, stream) and flags & END_OF_STREAM:
                return body

    def _take(self, size):
        while len(self._said) < size:
            part = self.socket.recv(65_536)
            if not part:
                raise EOFError("The server has closed the connection.")
            self._said += part
        taken, self._said = self._said[:size], self._said[size:]
        return taken

    def close(self):
        self.socket.close()
