"""A program that says whether a server reacts on a port, whatever its protocol.

    python -I -S reaction.py HOST PORT…

exits with 0 when one of the ports reacts, else with 1. Imports nothing of Vectrial's, so that it
costs next to nothing beside a measurement.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterable

#: Seconds that a server may take until it reacts to what it is sent.
REACTS_S = 5.0
#: Seconds that the rest of its answer may take, and how much of it is read at once.
_REST_S, _ANSWER_BYTES = 0.5, 65_536
#: Bytes that every protocol answers, or hangs up on.
_GREETING = b"GET / HTTP/1.0\r\n\r\n"


def is_any_reacting(host: str, ports: Iterable[int]) -> bool:
    """True if the server on one of the ports answers or hangs up. For a stopped process the kernel
    still accepts connections, but nothing answers."""
    return any(_is_reacting(host, port) for port in ports)


def _is_reacting(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), REACTS_S) as connection:
            connection.sendall(_GREETING)
            connection.recv(_ANSWER_BYTES)
            # A server that is cut off in its answer may log an error.
            with contextlib.suppress(OSError):
                connection.settimeout(_REST_S)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(_ANSWER_BYTES):
                    pass
    except ConnectionResetError:
        return True
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(0 if is_any_reacting(sys.argv[1], map(int, sys.argv[2:])) else 1)
