"""The null server as a process of its own: it answers at once, so that what is measured is the
client. `python -m vectrial.load.null_server --family grpc` prints its address and serves until it
is stopped, or until whoever started it is gone.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from vectrial._engine import serve_null
from vectrial.errors import StoreError

PR_SET_PDEATHSIG = 1
_STOP_S = 5.0


@dataclass(frozen=True)
class NullServer:
    """A null server that is running: where, and as which process."""

    host: str
    port: int
    pid: int


@contextmanager
def null_server(
    family: str = "grpc",
    *,
    k: int = 10,
    cores: Sequence[int] = (),
    replies: Mapping[str, bytes] | None = None,
    options: Sequence[str] = (),
) -> Iterator[NullServer]:
    """Start a null server on a free port of the loopback interface; stop it at the end.

    Args:
        family: "grpc".
        k: rows of a search's answer: ids 0, 1, …, k - 1.
        cores: those it may run on; empty: any.
        replies: messages that answer other protocols' requests, by path.
        options: further arguments of the command line.
    """
    command = [sys.executable, "-m", "vectrial.load.null_server", "--family", family]
    command += ["--k", str(k), "--parent", str(os.getpid()), *options]
    for path, message in (replies or {}).items():
        command += ["--reply", f"{path}={message.hex()}"]
    if cores:
        command += ["--cores", ",".join(map(str, cores))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise StoreError("the null server did not start; standard error says why")
        host, _, port = address.rpartition(":")
        yield NullServer(host, int(port), process.pid)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m vectrial.load.null_server",
        description="A server that answers every request at once, to measure clients against.",
    )
    parser.add_argument("--family", default="grpc", help="wire protocol family: grpc")
    parser.add_argument("--host", default="127.0.0.1", help="IP address to listen on")
    parser.add_argument("--port", type=int, default=0, help="port; 0: any free one")
    parser.add_argument("--k", type=int, default=10, help="rows of a search's answer")
    parser.add_argument("--cores", default="", help="cores it may run on, as 0,1")
    parser.add_argument(
        "--reply",
        action="append",
        default=[],
        metavar="PATH=HEX",
        help="the message that answers requests of a path of another protocol",
    )
    parser.add_argument("--parent", type=int, default=0, help="stop when this process has ended")
    return parser.parse_args()


def main() -> None:
    """Serve until a signal ends the process."""
    given = _arguments()
    # Serving never returns to the interpreter, where Python's own handlers would run.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if given.parent:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != given.parent:
            sys.exit(1)
    if given.cores:
        os.sched_setaffinity(0, {int(core) for core in given.cores.split(",")})
    replies = {}
    for reply in given.reply:
        path, _, message = reply.partition("=")
        replies[path] = bytes.fromhex(message)

    def ready(port: int) -> None:
        print(f"{given.host}:{port}", flush=True)

    serve_null(given.family, given.host, given.port, ready, k=given.k, replies=replies)


if __name__ == "__main__":
    main()
