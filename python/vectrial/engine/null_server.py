"""The null server as a separate process: it answers at once, so that the client is measured.

    python -m vectrial.engine.null_server '{"family": "grpc", "port": 6334}'

prints its address and serves until it is stopped. The settings are those of `main`; replies may
follow.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vectrial._engine import serve_null
from vectrial.engine.pem import der
from vectrial.model.errors import StoreError
from vectrial.util.child_environment import for_measuring
from vectrial.util.children import python
from vectrial.util.process import die_with_parent

_STOP_S = 5.0


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
    settings = {
        "family": family,
        "k": k,
        "port": port,
        "cores": list(cores),
        "faults": list(faults),
        "late_s": late_s,
        "stall_s": stall_s,
        "identity": identity and [os.fspath(file) for file in identity],
        "room": room,
        "parent": os.getpid(),
    }
    command = [*python("vectrial.engine.null_server"), json.dumps(settings)]
    command += [f"{path}={message.hex()}" for path, message in (replies or {}).items()]
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


def main(
    *replies: str,
    family: str = "grpc",
    host: str = "127.0.0.1",
    port: int = 0,
    k: int = 10,
    cores: Sequence[int] = (),
    faults: Sequence[Sequence[Any]] = (),
    late_s: float = 0.1,
    stall_s: Sequence[float] | None = None,
    identity: Sequence[str] | None = None,
    room: int = 0,
    parent: int = 0,
) -> None:
    """Serve until a signal ends the process; see `null_server`. Replies are `PATH=HEX`.

    parent: serve no longer than this process lives.
    """
    # Serving never returns to the interpreter, where Python's own handlers would run.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if parent:
        die_with_parent(parent)
    if cores:
        os.sched_setaffinity(0, cores)
    tls = None
    if identity is not None:
        chain, key = map(Path, identity)
        tls = der(chain, "CERTIFICATE"), der(key, "PRIVATE KEY")[0]
    by_path = (reply.partition("=") for reply in replies)
    serve_null(
        {
            "family": family,
            "host": host,
            "port": port,
            "k": k,
            "replies": {path: bytes.fromhex(message) for path, _, message in by_path},
            "faults": [(fault, every) for fault, every in faults],
            "late_s": late_s,
            "stall_s": None if stall_s is None else (stall_s[0], stall_s[1]),
            "identity": tls,
            "room": room,
        },
        lambda bound: print(f"{host}:{bound}", flush=True),
    )


if __name__ == "__main__":
    main(*sys.argv[2:], **json.loads(sys.argv[1]))
