"""Ports at which nobody answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def silent_ports(count: int) -> Iterator[list[int]]:
    """Ports on which nothing listens. They are bound, so that no other process can listen there."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        yield [int(one.getsockname()[1]) for one in sockets]
