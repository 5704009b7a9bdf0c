"""Redis over RESP: against the null server, and against a real one where there is one."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from engine_runs import half_right, judge_nearest
from load_outcomes import errors, only

from vectrial._engine import Judge, LoadControl
from vectrial.engine.client import Requests, arrivals, closed, drive, target
from vectrial.engine.null_server import NullServer, null_server
from vectrial.engine.types import LoadRecord, LoadSource
from vectrial.model.errors import UserError
from vectrial.servers.managed_process import free_ports
from vectrial.stores.redis.server import REDIS
from vectrial.testing.server_programs import program

K, QUERIES, DIM, COUNT = 10, 40, 16, 300
RANDOM = np.random.default_rng(3)
VECTORS = RANDOM.standard_normal((QUERIES, DIM)).astype(np.float32)
BOTH = pytest.mark.parametrize("protocol", ["redis", "redis-pipelined"])
IN = {"collection": "things"}


@pytest.fixture(scope="module")
def server() -> Iterator[NullServer]:
    with null_server("resp", k=K) as running:
        yield running


@BOTH
@pytest.mark.parametrize("engine", ["vectorset", "search"])
@pytest.mark.parametrize("resp", ["2", "3"])
def test_searches_are_judged(server: NullServer, protocol: str, engine: str, resp: str) -> None:
    options = {"engine": engine, "resp": resp, "user": "me", "password": "x", "database": "1"}
    outcome = drive(
        target(protocol, server.host, server.port, options=options),
        [
            Requests(
                "search",
                vectors=VECTORS,
                k=K,
                judge=half_right(QUERIES, K),
                options={**IN, "ef": "50"},
            )
        ],
        [closed(8, count=QUERIES * 10)],
        threads=2,
    )
    record = only(outcome)
    seen = record["recorder"].summary()
    assert (seen["count"], seen["errors"]) == (QUERIES * 10, 0)
    assert seen["recall_mean"] == pytest.approx(0.75)


@BOTH
@pytest.mark.parametrize("engine", ["vectorset", "search"])
@pytest.mark.parametrize("operation", ["insert", "upsert", "get", "delete"])
def test_rows_go_in_batches(server: NullServer, protocol: str, engine: str, operation: str) -> None:
    writes = operation in ("insert", "upsert")
    ids = np.arange(QUERIES)
    columns = [{"name": "c", "values": ids, "valid": None}] if writes else []
    request = Requests(
        operation,
        operation,
        vectors=VECTORS if writes else None,
        ids=ids,
        columns=columns,  # type: ignore[arg-type]
        batch=7,
        once=True,
        options=IN,
    )
    to = target(protocol, server.host, server.port, options={"engine": engine})
    record = only(drive(to, [request], [closed(3)]))
    assert errors(record) == {}
    assert (record["issued"], record["rows"]) == (6, QUERIES)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("source", [closed(8, count=COUNT), arrivals(1500, count=COUNT)])
@pytest.mark.parametrize(
    ("fault", "kinds"),
    [
        ("status", {"status:busy"}),
        ("break", {"reset"}),
        ("truncate", {"truncated", "reset"}),
        ("garbage", {"garbage", "reset"}),
        ("never", {"timeout"}),
    ],
)
def test_what_goes_wrong_is_counted(
    protocol: str, source: LoadSource, fault: str, kinds: set[str]
) -> None:
    """Nothing is made up, nothing hangs, and the requests after it are answered."""
    # A busy machine answers late; only where no answer comes is the time short, and shortest where
    # none comes after it either, over the same connection.
    pipelined = protocol == "redis-pipelined"
    timeout_s = 30.0 if fault != "never" else 1.0 if pipelined else 3.0
    with null_server("resp", k=K, faults=[(fault, 50)]) as broken:
        search = Requests("search", vectors=VECTORS, k=K, options=IN)
        outcome = drive(
            target(protocol, broken.host, broken.port),
            [search],
            [source],
            timeout_s=timeout_s,
            duration_s=20,
            drain_s=60,
            connections=8,
        )
    record = only(outcome)
    seen = record["recorder"].summary()
    assert set(errors(record)) <= kinds
    assert (seen["errors"] or 0) >= COUNT // 50
    if fault == "status":
        assert errors(record) == {"status:busy": COUNT // 50}
        assert outcome["reconnects"] == 0, "the connection is none the worse"
    if fault != "never":
        assert (seen["count"] or 0) >= COUNT // 2
    elif not pipelined:
        assert (seen["count"] or 0) > 50, "more than before the first"


def test_a_late_reply_is_not_taken_for_the_next_one() -> None:
    """Over one connection, a request whose time ran out still gets its reply first."""

    def until_many_were_in_time(control: LoadControl) -> None:
        _, _, answered, failed = control.progress()
        if failed and answered > 40:
            control.cancel()

    with null_server("resp", k=K, faults=[("late", 20)], late_s=0.15) as late:
        search = Requests("search", vectors=VECTORS, k=K, options=IN)
        outcome = drive(
            target("redis-pipelined", late.host, late.port),
            [search],
            # A late reply is made up for before the next: some are in time again and again.
            [arrivals(100, kind="constant")],
            timeout_s=0.1,
            duration_s=60,
            progress=until_many_were_in_time,
        )
    record = only(outcome)
    assert set(errors(record)) == {"timeout"}
    assert outcome["reconnects"] == 0
    assert (record["recorder"].summary()["count"] or 0) > 40


@pytest.mark.parametrize(
    ("options", "of", "what"),
    [
        ({"engine": "lucene"}, IN, "vectorset"),
        ({"resp": "4"}, IN, "resp is 2 or 3"),
        ({"user": "me"}, IN, "no password"),
        ({}, {}, "'collection' is missing"),
        ({}, {**IN, "ef": "many"}, "'ef' cannot be 'many'"),
        ({}, {**IN, "quantization": "pq"}, "noquant, q8 or bin"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], of: dict[str, str], what: str) -> None:
    to = target("redis", "127.0.0.1", 1, options=options)
    with pytest.raises(UserError, match=what):
        drive(to, [Requests("search", vectors=VECTORS, options=of)], [closed(1, count=1)])


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a real server with vector sets and a password."""
    binary = program(REDIS)
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    if int(said.split("v=")[1].split(".")[0]) < 8:
        pytest.skip(f"vector sets came with Redis 8; {binary} is {said.strip()}")
    process, port = start(binary, tmp_path_factory.mktemp("redis"))
    try:
        yield port
    finally:
        process.terminate()
        process.wait(60)


def start(binary: str | Path, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A server and its port: another one where somebody took the first in the meantime."""
    log = folder / "log"
    for _ in range(3):
        (port,) = free_ports(1)
        command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
        command += ["--save", "", "--requirepass", "secret"]
        with log.open("wb") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said)
        until = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < until:
            if "Ready to accept connections" in log.read_text():
                return process, port
            time.sleep(0.05)
        process.kill()
        process.wait()
    pytest.fail(f"redis-server did not start: {log.read_text()}")


@pytest.mark.server("redis")
@BOTH
@pytest.mark.parametrize("resp", ["2", "3"])
def test_a_real_redis_finds_what_was_written(redis: int, protocol: str, resp: str) -> None:
    rows, key = 500, {"collection": f"{protocol}-{resp}"}
    vectors = RANDOM.standard_normal((rows, DIM)).astype(np.float32)
    group = np.arange(rows) % 5
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    near = -(asked @ unit.T)

    def judge(keep: np.ndarray) -> Judge:  # type: ignore[type-arg]
        return judge_nearest(np.where(keep, near, 9), np.arange(rows), K)

    options = {"password": "secret", "resp": resp, "prefix": "row:"}
    to = target(protocol, "127.0.0.1", redis, options=options)
    column = {"name": "group", "values": group, "valid": None}
    build = {**key, "quantization": "noquant", "ef_construction": "200", "m": "16"}
    ids = np.arange(rows)
    insert = Requests(
        "insert", "insert", vectors=vectors, ids=ids, columns=[column],  # type: ignore[list-item]
        batch=50, once=True, options=build,
    )  # fmt: skip
    record = only(drive(to, [insert], [closed(2)]))
    assert errors(record) == {}
    assert record["rows"] == rows

    def search(name: str, filters: list[bytes], truth: Judge, **more: str) -> float:
        asks = Requests(
            name, vectors=VECTORS, k=K, filters=filters, judge=truth, options={**key, **more}
        )
        record = only(drive(to, [asks], [closed(4, count=2 * QUERIES)]))
        assert errors(record) == {}
        return float(record["recorder"].summary()["recall_mean"] or 0)

    every = np.ones(rows, bool)
    assert search("exact", [], judge(every), exact="true") == 1
    assert search("graph", [], judge(every), ef="500") >= 0.99
    some = search("some", [b".group == 3"], judge(group == 3), ef="500", filter_ef="5000")
    assert some >= 0.99

    def rows_of(operation: str, ids: np.ndarray) -> LoadRecord:  # type: ignore[type-arg]
        asks = Requests(operation, operation, ids=ids, batch=10, once=True, options=key)
        return only(drive(to, [asks], [closed(2)]))

    assert errors(rows_of("get", ids[:100])) == {}
    assert errors(rows_of("delete", ids[:10])) == {}
    gone = rows_of("get", ids[:20])
    assert errors(gone) == {"incomplete": 1}
    assert "10 of 10 rows" in gone["recorder"].errors()[0][2][0]
    assert search("left", [], judge(ids >= 10), exact="true") == 1
    wrong = Requests("short", vectors=VECTORS[:, :3], k=K, options=key)
    assert errors(only(drive(to, [wrong], [closed(1, count=3)]))) == {"status:err": 3}


@pytest.mark.server("redis")
@BOTH
def test_a_wrong_password_is_a_failure_of_its_own(redis: int, protocol: str) -> None:
    to = target(protocol, "127.0.0.1", redis, options={"password": "guess"})
    search = Requests("search", vectors=VECTORS, options=IN)
    record = only(drive(to, [search], [closed(1, count=3)]))
    assert errors(record) == {"status:wrongpass": 3}
