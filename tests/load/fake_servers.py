"""Servers of one behaviour each, in a thread with a loop of its own."""

import asyncio
import contextlib
import json
import threading

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@contextlib.contextmanager
def serving(handle):
    """The port of a server; `handle(reader, writer)` is a coroutine for each connection."""
    loop, started, found = asyncio.new_event_loop(), threading.Event(), {}

    async def quiet(reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await handle(reader, writer)
        writer.close()

    async def main():
        server = await asyncio.start_server(quiet, "127.0.0.1", 0)
        found["port"], found["stop"] = server.sockets[0].getsockname()[1], asyncio.Event()
        found["server"] = server
        started.set()
        await found["stop"].wait()

    def run():
        loop.run_until_complete(main())
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait(10)
    try:
        yield found["port"]
    finally:
        loop.call_soon_threadsafe(found["stop"].set)
        thread.join(10)


async def request(reader):
    """Reads one request; its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    return await reader.readexactly(sum(lengths))


def answering(answer=OK, seconds=0.0, at_once=None):
    """A handler that answers each request so; `at_once` limits how many it works on."""
    gate = asyncio.Semaphore(at_once) if at_once else contextlib.nullcontext()

    async def handle(reader, writer):
        while True:
            await request(reader)
            if at_once:
                async with gate:
                    await asyncio.sleep(seconds)
            elif seconds:
                await asyncio.sleep(seconds)
            writer.write(answer)

    return handle


def said(body, status=200):
    """The bytes of an answer."""
    return b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)


def scores(body):
    """A model's answer to a request by columns."""
    rows = len(json.loads(body)["inputs"]["item"])
    return said(json.dumps({"outputs": [[0.5]] * rows}).encode())


def a_model(answer=lambda number, body: scores(body)):
    """A handler of a model that takes users and items; `answer(number, body)` is what each request for scores gets."""
    inputs = said(json.dumps({"inputs": [{"name": name, "datatype": "BYTES"} for name in ("user", "item")]}).encode())
    count = []

    async def handle(reader, writer):
        while True:
            body = await request(reader)
            if body:
                count.append(1)
            writer.write(answer(len(count) - 1, body) if body else inputs)

    return handle
