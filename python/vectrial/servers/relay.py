"""A program that relays connections from given sockets to ports of the network that it runs in.

    python -I relay.py '{"listens": {SOCKET: PORT, …}}'

listens: descriptors of listening sockets, and the ports on 127.0.0.1 that their connections go to.
It ends with its standard input. A connection that fails is reset.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import sys
from collections.abc import Mapping

_CHUNK = 1 << 18
_RESET = struct.pack("ii", 1, 0)


async def main(listens: Mapping[str, int]) -> None:
    """Carry until standard input ends."""
    loop = asyncio.get_running_loop()
    tasks = [
        loop.create_task(_accept(socket.socket(fileno=int(number)), port))
        for number, port in listens.items()
    ]
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    for task in tasks:
        task.cancel()


async def _accept(listening: socket.socket, port: int) -> None:
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    running: set[asyncio.Task[None]] = set()
    while True:
        one, _ = await loop.sock_accept(listening)
        task = loop.create_task(_carry(one, port))
        running.add(task)
        task.add_done_callback(running.discard)


async def _carry(outer: socket.socket, port: int) -> None:
    loop = asyncio.get_running_loop()
    inner = socket.socket()
    with outer, inner:
        for one in (outer, inner):
            one.setblocking(False)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await loop.sock_connect(inner, ("127.0.0.1", port))
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(outer, inner))
                both.create_task(_pump(inner, outer))
        except* OSError:
            for one in (outer, inner):
                with contextlib.suppress(OSError):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


async def _pump(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while chunk := await loop.sock_recv(source, _CHUNK):
        await loop.sock_sendall(target, chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
