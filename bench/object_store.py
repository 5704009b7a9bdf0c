"""Transfers to and from MinIO on loopback: the client of `index_pipeline` beside others.

One object of 1 GB is put and got, from memory and into memory, by `Objects` (obstore, with the
parts and the concurrency of the experiment), PyArrow's S3 file system, MinIO's own Python client,
curl (one signed URL, one stream) and s5cmd (Go, parts in parallel, which reads and writes a file in
memory). All use the same server and the same bucket in turn. Needs Go for MinIO and s5cmd, curl,
4 GB of memory, and 4 GB of disk; s5cmd is left out where it cannot be built.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from minio import Minio
from pyarrow import fs

import harness
from vectrial.model.objects import ObjectsAccess, ObjectsKind, ObjectsRequest, ObjectTransport
from vectrial.servers.objects import ObjectServer
from vectrial_reproduce.segments.objects import Objects

SIZE = 1_000_000_000
REPEATS = 7
#: Seconds after which a machine that wrote 40 GB is at rest.
SETTLE_S = 5
_S5CMD = "github.com/peak/s5cmd/v2@v2.3.0"
Transfer = Callable[[], Any]


def timed(work: Transfer) -> Callable[[], float]:
    """Seconds of one call."""

    def measure() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return measure


def ours(access: ObjectsAccess, data: bytes) -> tuple[Transfer, Transfer]:
    """`Objects`, as the experiment makes it."""
    objects = Objects(access)

    def get() -> None:
        if len(objects.get("ours")) != SIZE:
            raise SystemExit("short")

    return lambda: objects.put("ours", data), get


def pyarrow(access: ObjectsAccess, data: bytes) -> tuple[Transfer, Transfer]:
    """PyArrow's S3 file system."""
    host = access.endpoint.removeprefix("http://")
    store = fs.S3FileSystem(
        access_key=access.user, secret_key=access.password, endpoint_override=host,
        scheme="http", region=access.region,
    )  # fmt: skip
    path = f"{access.bucket}/pyarrow"

    def put() -> None:
        with store.open_output_stream(path) as stream:
            stream.write(pa.py_buffer(data))

    def get() -> None:
        with store.open_input_file(path) as file:
            if file.read_buffer(SIZE).size != SIZE:
                raise SystemExit("short")

    return put, get


def minio_client(access: ObjectsAccess) -> Minio:
    """MinIO's own client."""
    host = access.endpoint.removeprefix("http://")
    return Minio(host, access.user, access.password, secure=False, region=access.region)


def minio(access: ObjectsAccess, file: Path) -> tuple[Transfer, Transfer]:
    """MinIO's own client, parts in parallel."""
    client = minio_client(access)

    def put() -> None:
        with file.open("rb") as stream:
            client.put_object(
                access.bucket, "minio", stream, SIZE, part_size=16 << 20, num_parallel_uploads=4
            )

    def get() -> None:
        with client.get_object(access.bucket, "minio") as answer:
            if sum(len(chunk) for chunk in answer.stream(4 << 20)) != SIZE:
                raise SystemExit("short")

    return put, get


def curl(access: ObjectsAccess, file: Path) -> tuple[Transfer, Transfer]:
    """One stream to a signed URL."""
    client, hour = minio_client(access), timedelta(hours=1)
    to = client.presigned_put_object(access.bucket, "curl", hour)
    of = client.presigned_get_object(access.bucket, "curl", hour)

    def run(*arguments: str) -> None:
        subprocess.run(["curl", "-sfS", *arguments], check=True, stdout=subprocess.DEVNULL)

    return lambda: run("-T", str(file), to), lambda: run("-o", "/dev/null", of)


def s5cmd(access: ObjectsAccess, file: Path, folder: Path) -> tuple[Transfer, Transfer] | None:
    """Parts in parallel, by a program in Go; None where it cannot be built."""
    with suppress(OSError, subprocess.SubprocessError):
        env = {**os.environ, "GOBIN": str(folder)}
        subprocess.run(["go", "install", _S5CMD], env=env, check=True, capture_output=True)
    if not (folder / "s5cmd").exists():
        print("s5cmd cannot be built here: left out", file=sys.stderr)
        return None
    env = {"AWS_ACCESS_KEY_ID": access.user, "AWS_SECRET_ACCESS_KEY": access.password}
    remote, back = f"s3://{access.bucket}/s5cmd", file.with_name("back")

    def copy(*names: str) -> None:
        argv = [str(folder / "s5cmd"), "--endpoint-url", access.endpoint, "cp", "-c", "8", *names]
        subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL)

    return lambda: copy(str(file), remote), lambda: copy(remote, str(back))


def main() -> int:
    """Measure in turns."""
    bench = harness.start(__doc__)
    data = np.random.default_rng(1).bytes(SIZE)
    memory = Path(tempfile.mkdtemp(dir="/dev/shm"))
    disk = Path(tempfile.mkdtemp(dir=Path.cwd()))
    file = memory / "object"
    file.write_bytes(data)
    request = ObjectsRequest(ObjectsKind.MINIO, ObjectTransport.LOOPBACK)
    server = ObjectServer(
        request, "bench", disk / "server", None, (), disk / "minio.log",
        lambda line: print(line, file=sys.stderr),
    )  # fmt: skip
    try:
        access = server.start()
        clients = {
            "obstore (ours)": ours(access, data),
            "PyArrow": pyarrow(access, data),
            "minio (Python)": minio(access, file),
            "curl": curl(access, file),
        }
        if (other := s5cmd(access, file, memory)) is not None:
            clients["s5cmd"] = other
        for which, what in enumerate(("PUT", "GET")):
            os.sync()  # what a PUT left to be written would slow a GET
            time.sleep(SETTLE_S)
            calls = [timed(pair[which]) for pair in clients.values()]
            found = dict(zip(clients, harness.interleave(calls, REPEATS), strict=True))
            own, rest = found.pop("obstore (ours)"), found
            fastest = min(rest, key=lambda name: float(np.median(rest[name])))
            goal = 1 / 0.7
            for name, seconds in rest.items():
                bench.add(
                    harness.compare(
                        f"{what} of 1 GB, MinIO on loopback", "s", own, seconds,
                        baseline=f"{name}, the fastest" if name == fastest else name,
                        goal=goal if name == fastest else None,
                    )
                )  # fmt: skip
    finally:
        server.stop()
        shutil.rmtree(memory, ignore_errors=True)
        shutil.rmtree(disk, ignore_errors=True)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
