"""Whether a machine and its network are fit to measure on."""

from __future__ import annotations

import socket
import statistics
import threading
import time

_PING_BYTES, _PINGS, _PING_S = 64, 200, 5.0
#: A gap between two readings of the clock that is longer than this is somebody else's.
_NOISE_NS, _GAP_NS = 500_000_000, 100_000


def echo(address: str) -> int:
    """Listen on an address and send back what the first connection sends. Returns the port."""
    server = socket.create_server((address, 0))

    def serve() -> None:
        with server, server.accept()[0] as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while block := connection.recv(_PING_BYTES):
                connection.sendall(block)

    threading.Thread(target=serve, daemon=True).start()
    return int(server.getsockname()[1])


def ping_us(address: str, port: int) -> float:
    """Median round-trip time of a message to another machine's `echo`, in microseconds.

    Raises:
        OSError: nothing answers there.
    """
    times = []
    with socket.create_connection((address, port), timeout=_PING_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(_PINGS):
            sent = time.perf_counter_ns()
            connection.sendall(b"x" * _PING_BYTES)
            got = 0
            while got < _PING_BYTES:
                got += len(connection.recv(_PING_BYTES)) or _PING_BYTES
            times.append((time.perf_counter_ns() - sent) / 1e3)
    return statistics.median(times)


def interrupted_share() -> float:
    """Share of half a second in which a busy loop did not run because something else used its
    processor."""
    begun = last = time.perf_counter_ns()
    interrupted = 0
    while last - begun < _NOISE_NS:
        now = time.perf_counter_ns()
        if now - last > _GAP_NS:
            interrupted += now - last
        last = now
    return interrupted / (last - begun)
