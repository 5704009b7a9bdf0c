"""Fuzz every decoder for a while: `python fuzz/run.py --seconds 10 [TARGET …]`, or `make fuzz`.

Begins with what the null servers answer to real requests, which is recorded first, and keeps what
reaches new code in `fuzz/corpus/`. Ends with 1 where a target panics, hangs or takes memory beyond
reason; the bytes are in `fuzz/artifacts/` then. Without a nightly toolchain, whose compiler alone
can tell which code was reached, nothing is done, and it says so.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np

from vectrial.engine.client import Requests, closed, drive, target
from vectrial.engine.null_server import null_server

HERE = Path(__file__).parent
TARGETS = sorted(path.stem for path in (HERE / "fuzz_targets").glob("*.rs"))
TRIPLE = "x86_64-unknown-linux-gnu"
#: What libFuzzer needs of the compiler: counters on edges, traced comparisons, AddressSanitizer.
FLAGS = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "-Zsanitizer=address",
    "--cfg=fuzzing",
]
#: One input may take so long, and ask for so much memory at once: no answer of a few KiB needs it.
LIMITS = ["-timeout=5", "-malloc_limit_mb=256", "-rss_limit_mb=2048", "-max_len=8192"]
OPERATIONS = ("search", "insert", "upsert", "get", "delete")
#: Of a search's answer.
K = 3
MESSAGES = {
    "milvus": "/milvus.proto.milvus.MilvusService/Search",
    "weaviate": "/weaviate.v1.Weaviate/Search",
    "qdrant": "/qdrant.Points/Query",
}
#: Targets that speak to a connection: null server, protocol, its options, bytes before the answer.
CONNECTIONS = {
    "grpc": ("grpc", "null-grpc", {}, b""),
    "grpc_stream": ("flight", "flight", {}, b""),
    "http": ("http", "elasticsearch", {}, b""),
    "postgres": ("postgres", "postgres", {}, b""),
    "redis": ("resp", "redis", {"engine": "vectorset"}, b"\0"),
    "redis_pipelined": ("resp", "redis-pipelined", {"engine": "search"}, b"\1"),
}


def main() -> int:
    """Record, build, run; the exit code."""
    given = _arguments()
    lacking = _lacking()
    if lacking:
        print(f"SKIPPED: no decoder was fuzzed: {lacking}", file=sys.stderr)
        return 0
    _record()
    built = _build(given.targets)
    failed = [name for name in given.targets if not _run(name, built / name, given.seconds)]
    if failed:
        print(f"FAILED: {', '.join(failed)}; the bytes are in {HERE}/artifacts", file=sys.stderr)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=10, help="for each target")
    given = parser.parse_args()
    if unknown := set(given.targets) - set(TARGETS):
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    given.targets = given.targets or TARGETS
    return given


def _lacking() -> str | None:
    """Why nothing can be fuzzed here, if so."""
    if shutil.which("rustup") is None:
        return "there is no rustup, and so no nightly toolchain"
    listed = subprocess.run(["rustup", "toolchain", "list"], capture_output=True, text=True)
    if "nightly" not in listed.stdout:
        return "there is no nightly toolchain: rustup toolchain install nightly --profile minimal"
    if shutil.which("c++") is None:
        return "there is no C++ compiler, with which libFuzzer is built"
    return None


def _record() -> None:
    """Seeds: what the null servers say to requests of every kind."""
    with null_server("grpc", k=K) as server, _channel(server.port) as channel:
        for name, path in MESSAGES.items():
            call = channel.unary_unary(path, _as_it_is, _as_it_is)
            _keep(name, [b"\0" + call(b"")])
        _keep("protobuf", [channel.unary_unary(MESSAGES["weaviate"], _as_it_is, _as_it_is)(b"")])
    with null_server("flight", k=K) as server, _channel(server.port) as channel:
        service = "/arrow.flight.protocol.FlightService/"
        got = list(channel.unary_stream(service + "DoGet", _as_it_is, _as_it_is)(b""))
        (acted,) = channel.unary_stream(service + "DoAction", _as_it_is, _as_it_is)(b"")
    # In steps of 16 bytes; what a message lacks to that is an empty field that nobody knows.
    _keep("flight", [b"\0" + b"".join(map(_measured, got)), b"\x05" + _measured(acted)])
    stream = acted[acted.index(b"\xff" * 4) :]
    _keep("arrow", [stream])
    with null_server("http", k=K) as server:
        for which, path in enumerate(("_search", "_bulk", "_bulk", "_mget")):
            address = f"http://{server.host}:{server.port}/things/{path}"
            with urllib.request.urlopen(address, timeout=5) as answer:
                _keep("elasticsearch", [bytes([which]) + answer.read()])
    for name, (family, protocol, options, before) in CONNECTIONS.items():
        said = list(_said(family, protocol, options))
        _keep(name, [before + bytes([which, 15]) + said for which, said in enumerate(said)])
        if family == "resp":
            _keep("resp", [b"\0\7" + one for one in said])


def _as_it_is(message: bytes) -> bytes:
    return message


@contextmanager
def _channel(port: int) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel


def _measured(message: bytes) -> bytes:
    short = -len(message) % 16
    if short == 1:
        short += 16
    filling = b"\x7a" + bytes([short - 2]) + bytes(short - 2) if short else b""
    return bytes([(len(message) + short) // 16]) + message + filling


def _said(family: str, protocol: str, options: dict[str, str]) -> Iterator[bytes]:
    """Everything that a null server says on a connection with one request of each operation."""
    ids, vectors = np.arange(3), np.ones((3, 2), dtype=np.float32)
    names = {"collection": "c", "dataset": "c", "table": "c", **options}
    with null_server(family, k=K) as server:
        for operation in OPERATIONS:
            batch = 1 if operation in ("get", "delete") else 3
            asked = Requests(
                operation, operation, vectors=vectors, ids=ids, k=K, batch=batch, options=names
            )
            with _listening(server.port) as (port, heard):
                to = target(protocol, "127.0.0.1", port, options=options)
                drive(to, [asked], [closed(1, count=2)], timeout_s=5)
            yield bytes(heard)


@contextmanager
def _listening(port: int) -> Iterator[tuple[int, bytearray]]:
    """A port that leads to another one, and what is said there in answer."""
    heard = bytearray()
    door = socket.create_server(("127.0.0.1", 0))

    def pass_on(source: socket.socket, to: socket.socket, note: bytearray | None) -> None:
        try:
            while piece := source.recv(1 << 16):
                if note is not None:
                    note += piece
                to.sendall(piece)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # whoever broke off has heard enough

    def lead() -> None:
        ours, _ = door.accept()
        with ours, socket.create_connection(("127.0.0.1", port)) as theirs:
            there = threading.Thread(target=pass_on, args=(ours, theirs, None))
            there.start()
            pass_on(theirs, ours, heard)
            there.join()

    leading = threading.Thread(target=lead)
    leading.start()
    try:
        yield door.getsockname()[1], heard
        leading.join(5)
    finally:
        door.close()


def _keep(name: str, inputs: list[bytes]) -> None:
    folder = HERE / "corpus" / name
    folder.mkdir(parents=True, exist_ok=True)
    for one in inputs:
        (folder / hashlib.sha1(one).hexdigest()).write_bytes(one)


def _build(targets: list[str]) -> Path:
    """The folder with the targets' programs."""
    home = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")) / "fuzz"
    command = ["cargo", "+nightly", "build", "--release", "--quiet", "--target", TRIPLE]
    command += ["--manifest-path", str(HERE / "Cargo.toml"), "--target-dir", str(home)]
    flags = {"CARGO_ENCODED_RUSTFLAGS": "\x1f".join(FLAGS), "PYO3_PYTHON": sys.executable}
    subprocess.run(
        [*command, *(f"--bin={name}" for name in targets)], check=True, env=os.environ | flags
    )
    return home / TRIPLE / "release"


def _run(name: str, program: Path, seconds: float) -> bool:
    """Fuzz one target; whether nothing was found."""
    artifacts = HERE / "artifacts" / name
    artifacts.mkdir(parents=True, exist_ok=True)
    command = [str(program), *LIMITS, f"-max_total_time={max(1, round(seconds))}"]
    command += [f"-artifact_prefix={artifacts}/", "-print_final_stats=1", f"{HERE}/corpus/{name}"]
    # Nothing is leaked for long: each run is a process of seconds.
    settings = os.environ | {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=0"}
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=settings)
    executed = re.search(r"stat::number_of_executed_units: (\d+)", done.stderr)
    covered = re.findall(r"cov: (\d+)", done.stderr) or ["?"]
    tried = f"{int(executed[1]):,}" if executed else "?"
    state = "ok" if done.returncode == 0 else "FAILED"
    took = time.monotonic() - begun
    print(
        f"{name:16} {state:6} {tried:>12} inputs in {took:.0f} s, {covered[-1]} edges", flush=True
    )
    if done.returncode:
        print(done.stderr[-6000:], file=sys.stderr)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
