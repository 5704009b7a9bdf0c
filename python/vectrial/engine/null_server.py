"""The null server as a separate process: it answers at once, so that what is measured is the
client. `python -m vectrial.engine.null_server --family grpc` prints its address and serves until it
is stopped, or until the process that started it ends.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vectrial._engine import serve_null
from vectrial.engine.pem import der
from vectrial.model.errors import StoreError
from vectrial.util.child_environment import for_measuring
from vectrial.util.children import python
from vectrial.util.process import die_with_parent

_STOP_S = 5.0
_FAMILIES = "grpc, flight, http, resp or postgres; or close, silent, noise, which speak no protocol"
_FAULTS = "status, reset, break, truncate, garbage, late, never, twice"


@dataclass(frozen=True)
class NullServer:
    """A running null server: its address and process."""

    host: str
    port: int
    pid: int


@contextmanager
def null_server(
    family: str = "grpc",
    *,
    k: int = 10,
    port: int = 0,
    cores: Sequence[int] = (),
    replies: Mapping[str, bytes] | None = None,
    faults: Sequence[tuple[str, int]] = (),
    late_s: float = 0.1,
    stall_s: tuple[float, float] | None = None,
    identity: tuple[Path, Path] | None = None,
    room: int = 0,
) -> Iterator[NullServer]:
    """Start a null server on the loopback interface; stop it at the end.

    Args:
        family: "grpc", "flight", "http", "resp" or "postgres"; or "close", "silent", "noise", which
            speak no protocol at all.
        k: rows of a search's answer: ids 0, 1, …, k - 1.
        port: 0 for any free one.
        cores: cores that it may run on; empty: any.
        replies: messages or bodies that answer requests of other protocols or indexes, by path;
            over RESP, replies as they are sent, by command in capitals.
        faults: kinds of faults, each with its interval in requests: ("status", 100), …. status: an
            error of the protocol. reset: the request is torn down. break: the connection is closed.
            truncate: the answer ends early. garbage: its bytes make no sense. late: it comes
            `late_s` late. never: it does not come. twice: it names rows twice.
        stall_s: (every, for): the whole server stands still.
        identity: PEM files of certificate chain and PKCS #8 key, with which it speaks TLS.
        room: requests that may be in flight on one gRPC connection; 0: any number.

    Raises:
        StoreError: it did not start.
    """
    command = [*python("vectrial.engine.null_server"), "--family", family]
    command += ["--k", str(k), "--port", str(port), "--parent", str(os.getpid())]
    command += ["--late", str(late_s), "--room", str(room)]
    for path, message in (replies or {}).items():
        command += ["--reply", f"{path}={message.hex()}"]
    for fault, every in faults:
        command += ["--fault", f"{fault}:{every}"]
    if stall_s is not None:
        command += ["--stall", ":".join(map(str, stall_s))]
    if cores:
        command += ["--cores", ",".join(map(str, cores))]
    if identity is not None:
        command += ["--identity", *map(str, identity)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=for_measuring(), text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise StoreError("the null server did not start; standard error says why")
        host, _, bound = address.rpartition(":")
        yield NullServer(host, int(bound), process.pid)
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
        prog="python -m vectrial.engine.null_server",
        description="A server that answers every request at once, to measure clients against.",
    )
    parser.add_argument("--family", default="grpc", help=f"what it speaks: {_FAMILIES}")
    parser.add_argument("--host", default="127.0.0.1", help="IP address to listen on")
    parser.add_argument("--port", type=int, default=0, help="port; 0: any free one")
    parser.add_argument("--k", type=int, default=10, help="rows of a search's answer")
    parser.add_argument("--cores", type=_cores, default=[], help="cores it may run on, as 0,1")
    parser.add_argument(
        "--reply",
        type=_reply,
        metavar="PATH=HEX",
        help="the message that answers requests of a path of another protocol",
        action="append",
        default=[],
    )
    parser.add_argument(
        "--fault",
        type=_fault,
        metavar="NAME:EVERY",
        help=f"what goes wrong with every so many requests: {_FAULTS}",
        action="append",
        default=[],
    )
    parser.add_argument("--late", type=float, default=0.1, help="seconds that a late answer takes")
    parser.add_argument(
        "--stall", type=_stall, metavar="EVERY:FOR", help="stand still so often, so long: seconds"
    )
    parser.add_argument(
        "--identity",
        nargs=2,
        type=Path,
        metavar=("CHAIN", "KEY"),
        help="speak TLS: PEM files of the certificates and the PKCS #8 key",
    )
    parser.add_argument("--room", type=int, default=0, help="requests in flight on a connection")
    parser.add_argument("--parent", type=int, default=0, help="stop when this process has ended")
    return parser.parse_args()


def _cores(text: str) -> list[int]:
    return [int(core) for core in text.split(",")]


def _reply(text: str) -> tuple[str, bytes]:
    path, _, message = text.partition("=")
    return path, bytes.fromhex(message)


def _fault(text: str) -> tuple[str, int]:
    name, _, every = text.partition(":")
    return name, int(every)


def _stall(text: str) -> tuple[float, float]:
    every, _, length = text.partition(":")
    return float(every), float(length)


def main() -> None:
    """Serve until a signal ends the process."""
    given = _arguments()
    # Serving never returns to the interpreter, where Python's own handlers would run.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if given.parent:
        die_with_parent(given.parent)
    if given.cores:
        os.sched_setaffinity(0, given.cores)

    identity = None
    if given.identity:
        chain, key = given.identity
        identity = der(chain, "CERTIFICATE"), der(key, "PRIVATE KEY")[0]

    def ready(port: int) -> None:
        print(f"{given.host}:{port}", flush=True)

    serve_null(
        {
            "family": given.family,
            "host": given.host,
            "port": given.port,
            "k": given.k,
            "replies": dict(given.reply),
            "faults": given.fault,
            "late_s": given.late,
            "stall_s": given.stall,
            "identity": identity,
            "room": given.room,
        },
        ready,
    )


if __name__ == "__main__":
    main()
