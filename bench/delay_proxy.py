"""A TCP proxy that makes a server slower by a share of its own time, for `verdicts.py`.

    python bench/delay_proxy.py --to 127.0.0.1:6379 --slower 0.1

Prints the port it listens on, on loopback. Every answer is held back until the server's time for
it, from the request's last byte to the answer's first, has grown by the share. With 0 it only
passes on, so that what the proxy itself costs is in both sides of a comparison. For protocols in
which a connection carries one request at a time.
"""

from __future__ import annotations

import argparse
import selectors
import socket
import threading
import time

_CHUNK = 1 << 16
#: A sleep may end so much late; the rest of a delay is spent in a loop.
_SLEEP_LATE_S = 0.0002


def serve(to: tuple[str, int], slower: float, listener: socket.socket) -> None:
    """Pass on every connection, in a thread each, for ever."""
    while True:
        client, _ = listener.accept()
        server = socket.create_connection(to)
        threading.Thread(target=pass_on, args=(client, server, slower), daemon=True).start()


def pass_on(client: socket.socket, server: socket.socket, slower: float) -> None:
    """Bytes of one connection, both ways, until one end closes."""
    with client, server, selectors.DefaultSelector() as ready:
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ready.register(end, selectors.EVENT_READ)
        asked: float | None = None
        while True:
            for key, _ in ready.select():
                try:
                    data = key.fileobj.recv(_CHUNK)  # type: ignore[union-attr]
                except ConnectionResetError:
                    return
                if not data:
                    return
                if key.fileobj is client:
                    server.sendall(data)
                    asked = time.perf_counter()
                else:
                    if asked is not None:
                        now = time.perf_counter()
                        wait_until(now + (now - asked) * slower)
                        asked = None
                    client.sendall(data)


def wait_until(due: float) -> None:
    """Return at `due` (`time.perf_counter`), to some microseconds."""
    left = due - time.perf_counter()
    if left > 2 * _SLEEP_LATE_S:
        time.sleep(left - _SLEEP_LATE_S)
    while time.perf_counter() < due:
        pass


def main() -> None:
    """Listen, say where, and serve until killed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", required=True, metavar="HOST:PORT")
    parser.add_argument("--slower", type=float, default=0.0, help="share of the server's time")
    given = parser.parse_args()
    host, _, port = given.to.rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        serve((host, int(port)), given.slower, listener)


if __name__ == "__main__":
    main()
