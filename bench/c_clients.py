"""What a request costs the native engine beside the load generators that are written in C: wrk
(HTTP), redis-benchmark (RESP), pgbench (PostgreSQL's protocol) and h2load (gRPC's frames over
HTTP/2).

Each drives the same null server with as many requests in flight, over as many connections, and with
as many bytes of a request; wrk, redis-benchmark and h2load send the very bytes, always the same,
where the engine walks over a thousand queries, judges every answer and records it. Microseconds of
the client's own processor time (user and system) for a request. Client and server have a core each.

Debian's packages: wrk redis-tools postgresql-contrib nghttp2-client.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import harness
from native_load import REPEATS, SERVER_CORE, K, closed_loop, requests, start
from vectrial.engine.client import Requests, closed, drive, target
from vectrial.engine.null_server import NullServer, null_server

DIM = 100
IN_FLIGHT = (8, 32)
#: Requests of a run of the generators that count instead of timing: around a second.
COUNT = 100_000
SECONDS = 1

#: From a server, its one request and the number in flight to the command and what it reads.
Generator = Callable[[NullServer, bytes, int, Path], list[bytes]]


def sent_bytes(protocol: str, server: NullServer, search: Requests) -> bytes:
    """What the engine sends for one search, from the opening of the connection on."""
    seen = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as between:

        def forward() -> None:
            client, _ = between.accept()
            with client, socket.create_connection((server.host, server.port)) as onward:
                threading.Thread(target=pour, args=(onward, client), daemon=True).start()
                while block := client.recv(1 << 16):
                    seen.extend(block)
                    onward.sendall(block)

        thread = threading.Thread(target=forward, daemon=True)
        thread.start()
        to = target(protocol, "127.0.0.1", between.getsockname()[1])
        drive(to, [search], [closed(1, count=1)])
        thread.join(5)
    return bytes(seen)


def pour(source: socket.socket, to: socket.socket) -> None:
    """Forward until either side ends."""
    try:
        while block := source.recv(1 << 16):
            to.sendall(block)
    except OSError:
        return


def wrk(server: NullServer, sent: bytes, in_flight: int, folder: Path) -> list[bytes]:
    """wrk, with one request made beforehand."""
    head, _, body = sent.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    method, path, _ = first.split(b" ")
    headers = [tuple(line.split(b": ", 1)) for line in lines]
    script = b"wrk.method = %s\nwrk.body = %s\n" % (quoted(method), quoted(body))
    for name, value in headers:
        if name.lower() not in (b"host", b"content-length"):
            script += b"wrk.headers[%s] = %s\n" % (quoted(name), quoted(value))
    (folder / "wrk.lua").write_bytes(script)
    url = b"http://%s:%d%s" % (server.host.encode(), server.port, path)
    connections, time = str(in_flight).encode(), str(SECONDS).encode()
    script_path = os.fsencode(folder / "wrk.lua")
    return [b"wrk", b"-t1", b"-c", connections, b"-d", time, b"-s", script_path, url]


def quoted(text: bytes) -> bytes:
    """A string of Lua's."""
    return b'"' + b"".join(b"\\%03d" % byte for byte in text) + b'"'


def redis_benchmark(server: NullServer, sent: bytes, in_flight: int, _: Path) -> list[bytes]:
    """redis-benchmark, with a command of its own."""
    command = sent[sent.rindex(b"VSIM") :]
    words, rest = [b"VSIM"], command[len(b"VSIM\r\n") :]
    while rest:
        size, _, rest = rest[1:].partition(b"\r\n")
        words.append(rest[: int(size)])
        rest = rest[int(size) + 2 :]
    # An argument of a program ends at a zero byte: none is in it, and as many bytes are.
    words = [word.replace(b"\0", b"\1") for word in words]
    host, port = server.host.encode(), str(server.port).encode()
    count, clients = str(COUNT).encode(), str(in_flight).encode()
    return [b"redis-benchmark", b"-h", host, b"-p", port, b"-n", count, b"-c", clients, *words]


def pgbench(server: NullServer, sent: bytes, in_flight: int, folder: Path) -> list[bytes]:
    """pgbench with a prepared statement; the vector is a text of as many bytes."""
    begins = sent.index(b'SELECT "id"')
    sql = sent[begins : sent.index(b"\0", begins)]
    (folder / "search.sql").write_bytes(sql.replace(b"$1", b":v") + b"\n")
    vector = b"v=" + b"x" * (4 * DIM + 4)
    clients, time = str(in_flight).encode(), str(SECONDS).encode()
    return [
        b"pgbench", b"-n", b"-M", b"prepared", b"-h", server.host.encode(),
        b"-p", str(server.port).encode(), b"-U", b"bench", b"-c", clients, b"-T", time,
        b"-D", vector, b"-f", os.fsencode(folder / "search.sql"), b"bench",
    ]  # fmt: skip


def h2load(server: NullServer, sent: bytes, in_flight: int, folder: Path) -> list[bytes]:
    """h2load over one connection, as the engine's."""
    (folder / "message").write_bytes(data_frames(sent))
    url = b"http://%s:%d/vectrial.Null/Search" % (server.host.encode(), server.port)
    count, streams = str(COUNT).encode(), str(in_flight).encode()
    return [
        b"h2load", b"-n", count, b"-c", b"1", b"-m", streams, b"-d",
        os.fsencode(folder / "message"), b"-H", b"content-type: application/grpc",
        b"-H", b"te: trailers", url,
    ]  # fmt: skip


def data_frames(sent: bytes) -> bytes:
    """The content of the DATA frames among what a client of HTTP/2 sends (RFC 9113, 4.1)."""
    at, content = sent.index(b"SM\r\n\r\n") + 6, b""
    while at + 9 <= len(sent):
        size, kind = int.from_bytes(sent[at : at + 3], "big"), sent[at + 3]
        if kind == 0:
            content += sent[at + 9 : at + 9 + size]
        at += 9 + size
    return content


def cpu_us(command: Sequence[bytes], done: re.Pattern[str]) -> float:
    """Processor time of a command for each request that it says it has done, in µs."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read().decode(errors="replace")
    found = done.search(said)
    if process.returncode or found is None or re.search(r"Non-2xx|[1-9]\d* failed", said):
        raise SystemExit(f"{command[0].decode()} failed: {said[-2000:]}")
    return (used.ru_utime + used.ru_stime) * 1e6 / int(found.group(1).replace(",", ""))


def ours_us(protocol: str, server: NullServer, search: Requests, in_flight: int) -> float:
    """Processor time of the engine for each request, in µs."""
    return closed_loop(protocol, server, search, in_flight)[0]


#: Protocol, null server, generator, what it says it has done, options of a search, goal.
CASES: tuple[tuple[str, str, Generator, str, dict[str, str], float], ...] = (
    ("elasticsearch", "http", wrk, r"(\d+) requests in", {"num_candidates": "64"}, 1.2),
    ("redis", "resp", redis_benchmark, r"(\d+) requests completed", {"ef": "64"}, 1.2),
    ("postgres", "postgres", pgbench, r"actually processed: (\d+)", {}, 1.2),
    ("null-grpc", "grpc", h2load, r"(\d+) succeeded", {}, 1.5),
)


def main() -> int:
    """Measure, print, and append to the file that was asked for."""
    bench = start(__doc__)
    for protocol, family, generator, done, options, goal in CASES:
        name = generator.__name__.replace("_", "-")
        if shutil.which(name) is None:
            print(f"skipped: there is no {name} here; --help names the packages", file=sys.stderr)
            continue
        search = requests(DIM, collection="bench", table="bench", **options)
        with (
            null_server(family, k=K, cores=[SERVER_CORE]) as server,
            tempfile.TemporaryDirectory() as folder,
        ):
            sent = sent_bytes(protocol, server, search)
            for in_flight in IN_FLIGHT:
                command = generator(server, sent, in_flight, Path(folder))
                ours, theirs = harness.interleave(
                    [
                        partial(ours_us, protocol, server, search, in_flight),
                        partial(cpu_us, command, re.compile(done)),
                    ],
                    REPEATS,
                )
                title = f"{protocol} {DIM}-d, {in_flight} in flight, client cpu per request"
                bench.add(harness.compare(title, "us", ours, theirs, baseline=name, goal=goal))
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
