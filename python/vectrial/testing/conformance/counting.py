"""A stand-in for a server that passes everything on and counts what the server says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace

from vectrial.model.store import Address


@dataclass
class Received:
    """Number of bytes received from the server so far, over all ports."""

    count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def count_received(address: Address) -> Iterator[tuple[Address, Received]]:
    """An address that relays to `address` with the same secrets, and the bytes that it received."""
    received = Received()
    with ExitStack() as open_:
        ports = {}
        for name, port in address.ports.items():
            listener = open_.enter_context(socket.create_server(("127.0.0.1", 0)))
            ports[name] = listener.getsockname()[1]
            there = (address.host, port)
            threading.Thread(target=_accept, args=(listener, there, received), daemon=True).start()
        yield replace(address, host="127.0.0.1", ports=ports), received


def _accept(listener: socket.socket, there: tuple[str, int], received: Received) -> None:
    with suppress(OSError):  # the listener is closed: the end
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(there)
            for ends in ((client, server, None), (server, client, received)):
                threading.Thread(target=_pass_on, args=ends, daemon=True).start()


def _pass_on(source: socket.socket, to: socket.socket, received: Received | None) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            if received is not None:
                with received.lock:  # adding is not one step, and connections are threads
                    received.count += len(data)
            to.sendall(data)
    for end in (source, to):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
