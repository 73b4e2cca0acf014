"""A port that hands all it gets to another one, later: a network with a delay, between processes of one machine."""

import asyncio
import contextlib
import threading


class Relay:
    """Listens on a port of its own and connects to `address` for each that connects to it.

    Attributes:
        address: host:port.
    """

    def __init__(self, address: str, seconds: float):
        self._to, self._seconds, self._ready = address.split(":"), seconds, threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)

    def __enter__(self):
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    async def _serve(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._over.wait()
        server.close()

    async def _connected(self, reader, writer):
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection(*self._to)
            await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        writer.close()

    async def _pass(self, reader, writer):
        """All bytes in order, each `seconds` after it came."""
        waiting = asyncio.Queue()

        async def take():
            while data := await reader.read(1 << 20):
                waiting.put_nowait((self._loop.time() + self._seconds, data))
            waiting.put_nowait((0, b""))

        taking = asyncio.create_task(take())
        while (item := await waiting.get())[1]:
            await asyncio.sleep(item[0] - self._loop.time())
            writer.write(item[1])
            await writer.drain()
        await taking
        writer.close()
