"""The Flight protocol of the native engine against a real Arrow Flight server, and the null one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.flight as fl
import pytest
from engine_runs import judge_nearest

from vectrial._engine import Judge
from vectrial.engine.client import Requests, closed, drive, target
from vectrial.engine.null_server import null_server
from vectrial.engine.types import LoadColumn, LoadOutcome, LoadRecord
from vectrial.model.errors import UserError

K, ROWS, QUERIES, DIM = 10, 500, 30, 8
RANDOM = np.random.default_rng(5)
VECTORS = RANDOM.normal(size=(ROWS, DIM)).astype(np.float32)
ASKED = RANDOM.normal(size=(QUERIES, DIM)).astype(np.float32)
IDS = np.arange(ROWS, dtype=np.int64) + 1000
COUNT = np.arange(ROWS, dtype=np.int64) % 5
PAGES = 3
COMPARE = {"==": pc.equal, "eq": pc.equal, "<": pc.less, ">=": pc.greater_equal}


def column(name: str, values: Any, valid: Any = None) -> LoadColumn:
    return {"name": name, "values": values, "valid": valid}


COLUMNS = [
    column("count", COUNT),
    column("weight", RANDOM.normal(size=ROWS)),
    column("even", COUNT % 2 == 0, valid=COUNT != 3),
    column("label", [f"row {i} ü" for i in range(ROWS)]),
]


class Server(fl.FlightServerBase):  # type: ignore[misc]
    """Longbow's tickets and actions on tables in memory, searched exactly."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.lock = threading.Lock()
        self.tables: dict[str, list[pa.Table]] = {}
        self.deleted: dict[str, set[int]] = {}
        self.headers: list[str] = []

    def table(self, name: str, filters: list[dict[str, Any]]) -> pa.Table:
        with self.lock:
            if name not in self.tables:
                raise fl.FlightServerError(f"no dataset '{name}'")
            table = pa.concat_tables(self.tables[name])
            gone = self.deleted.get(name, set())
        table = table.filter(pc.invert(pc.is_in(table["id"], pa.array(sorted(gone), pa.int64()))))
        for one in filters:
            table = table.filter(COMPARE[one["operator"]](table[one["field"]], one["value"]))
        return table

    def search(self, asked: dict[str, Any]) -> pa.Table:
        if asked.get("ef") == 13:
            raise fl.FlightUnavailableError("not today")
        table = self.table(asked["dataset"], asked.get("filters", []))
        flat = table["vector"].combine_chunks().flatten().to_numpy()
        vectors = flat.reshape(-1, DIM)
        distances = np.linalg.norm(vectors - np.array(asked["vector"], np.float32), axis=1)
        order = np.argsort(distances)[: asked["k"]]
        ids = table["id"].to_numpy()[order].astype(np.uint64)
        texts = [f"hit {i}" for i in range(len(order))]
        return pa.table({"text": texts, "id": ids, "score": (1 / (1 + distances[order]))})

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        if descriptor.path == [b"refused"]:
            raise fl.FlightUnauthorizedError("not for you")
        table = reader.read_all()
        with self.lock:
            self.tables.setdefault(descriptor.path[0].decode(), []).append(table)

    def do_get(self, context: Any, ticket: Any) -> Any:
        asked = json.loads(ticket.ticket)
        if "search" in asked:
            found = self.search(asked["search"])
        else:
            found = self.table(asked["name"], asked.get("filters", []))
        return fl.RecordBatchStream(found.to_reader(max_chunksize=max(1, len(found) // PAGES)))

    def do_action(self, context: Any, action: Any) -> Iterator[fl.Result]:
        asked = json.loads(action.body.to_pybytes())
        match action.type:
            case "delete":
                with self.lock:
                    self.deleted.setdefault(asked["dataset"], set()).add(int(asked["id"]))
                yield fl.Result(b"deleted")
            case "VectorSearch":
                found = self.search(asked)
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, found.schema) as writer:
                    writer.write_table(found)
                yield fl.Result(sink.getvalue())
            case other:
                raise NotImplementedError(other)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture(scope="module")
def loaded(server: Server) -> str:
    """The name of a dataset that the engine has written."""
    request = write("rows")
    outcome = run(server, request)
    record = only(outcome)
    assert (record["recorder"].summary()["count"], record["rows"]) == (5, ROWS)
    return "rows"


def write(dataset: str, batch: int = 100) -> Requests:
    options = {"dataset": dataset, "metric": "euclidean"}
    return Requests(
        "insert", "insert", VECTORS, IDS, COLUMNS, batch=batch, options=options, once=True
    )


def run(server: Server, request: Requests, count: int | None = None) -> LoadOutcome:
    return drive(target("flight", "127.0.0.1", server.port), [request], [closed(3, count=count)])


def only(outcome: LoadOutcome) -> LoadRecord:
    (record,) = outcome["classes"]
    assert record["recorder"].errors() == []
    return record


def judge(kept: np.ndarray[Any, np.dtype[np.bool_]]) -> Judge:
    """Exact answers among the rows that are kept."""
    distances = np.linalg.norm(VECTORS[None] - ASKED[:, None], axis=2)
    distances[:, ~kept] = np.inf
    return judge_nearest(distances, IDS, K)


def test_what_is_put_is_what_was_given(server: Server, loaded: str) -> None:
    table = pa.concat_tables(server.tables[loaded]).combine_chunks().sort_by("id")
    table.validate(full=True)
    assert table["id"].to_numpy().tolist() == IDS.tolist()
    assert table.schema.field("vector").type.list_size == DIM
    vectors = table["vector"].chunk(0).flatten().to_numpy()
    np.testing.assert_array_equal(vectors.reshape(-1, DIM), VECTORS)
    for given in COLUMNS:
        valid = given["valid"]
        wanted = [
            value if valid is None or valid[row] else None
            for row, value in enumerate(np.array(given["values"]).tolist())
        ]
        assert table[given["name"]].to_pylist() == wanted
    assert table.schema.metadata == {b"longbow.metric": b"euclidean"}


@pytest.mark.parametrize("how", ["ticket", "action"])
@pytest.mark.parametrize("below", [None, 2])
def test_searches_find_the_nearest(
    server: Server, loaded: str, how: str, below: int | None
) -> None:
    kept = np.full(ROWS, True) if below is None else np.less(COUNT, below)
    filters = [] if below is None else [{"field": "count", "operator": "<", "value": below}]
    request = Requests(
        "search",
        vectors=ASKED,
        k=K,
        filters=[json.dumps(filters).encode()] if filters else [],
        options={"dataset": loaded, "search": how, "params": '{"include_vectors": false}'},
        judge=judge(kept),
    )
    seen = only(run(server, request, QUERIES))["recorder"].summary()
    assert (seen["count"], seen["recall_mean"]) == (QUERIES, 1.0)
    assert (seen["incomplete_results"], seen["duplicate_answers"]) == (0, 0)


def test_rows_are_read_and_deleted_by_id(server: Server) -> None:
    run(server, write("changing"))
    some = IDS[5:15]
    options = {"dataset": "changing"}
    got = only(run(server, Requests("get", "get", ids=some, options=options, once=True)))
    assert got["rows"] == 10
    deleted = only(run(server, Requests("delete", "delete", ids=some, options=options, once=True)))
    assert deleted["rows"] == 10
    assert server.deleted["changing"] == set(some.tolist())
    with pytest.raises(UserError, match="batch"):
        run(server, Requests("delete", "delete", ids=some, batch=5, options=options, once=True))


def test_payloads_are_tickets_actions_and_streams(server: Server, loaded: str) -> None:
    table = pa.concat_tables(server.tables[loaded])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=200)
    stream = sink.getvalue().to_pybytes()
    for payload, options in [
        (stream, {"call": "put", "dataset": "copied"}),
        (json.dumps({"name": "copied"}).encode(), {"call": "get"}),
        (b'{"dataset": "copied", "id": "1000"}', {"call": "action", "action": "delete"}),
    ]:
        only(run(server, Requests("p", "payload", payloads=[payload], options=options, once=True)))
    assert server.tables["copied"][0].equals(table)
    assert server.deleted["copied"] == {1000}
    put = {"call": "put", "dataset": "copied"}
    cut = Requests("p", "payload", payloads=[stream[:-200]], options=put, once=True)
    with pytest.raises(UserError, match="cannot be put"):
        run(server, cut)


def test_what_is_long_goes_both_ways_whole(server: Server) -> None:
    rows, dim = 20_000, 64
    vectors = RANDOM.normal(size=(rows, dim)).astype(np.float32)
    ids = np.arange(rows, dtype=np.int64)
    options = {"dataset": "long"}
    put = Requests("insert", "insert", vectors, ids, batch=rows, options=options, once=True)
    assert only(run(server, put))["rows"] == rows
    (table,) = server.tables["long"]
    flat = table["vector"].combine_chunks().flatten().to_numpy()
    np.testing.assert_array_equal(flat.reshape(-1, dim), vectors)
    scan = Requests("scan", "payload", payloads=[b'{"name": "long"}'])
    assert only(run(server, scan, 6))["recorder"].summary()["count"] == 6
    options = {"dataset": "refused"}
    refused = Requests("insert", "insert", vectors, ids, batch=rows, options=options)
    outcome = run(server, refused, 3)
    ((kind, count, messages),) = outcome["classes"][0]["recorder"].errors()
    assert (kind, count, outcome["reconnects"]) == ("status:permission_denied", 3, 0)
    assert "not for you" in messages[0]


def test_what_the_server_refuses_is_counted_by_status(server: Server, loaded: str) -> None:
    for options, kind, text in [
        ({"dataset": loaded, "params": '{"ef": 13}'}, "status:unavailable", "not today"),
        ({"dataset": "nowhere"}, "status:unknown", "no dataset"),
        ({"dataset": loaded, "search": "action", "params": '{"ef": 13}'}, "status:", "not today"),
    ]:
        outcome = run(server, Requests("search", vectors=ASKED, k=K, options=options), 7)
        ((seen, count, messages),) = outcome["classes"][0]["recorder"].errors()
        assert seen.startswith(kind)
        assert (count, outcome["reconnects"]) == (7, 0)
        assert text in messages[0]


def test_the_null_server_takes_every_call() -> None:
    options = {"dataset": "any"}
    requests = [
        Requests("search", vectors=ASKED, k=K, options=options),
        Requests("insert", "insert", VECTORS, IDS, COLUMNS, batch=50, options=options),
        Requests("get", "get", ids=IDS, options=options),
        Requests("delete", "delete", ids=IDS, options=options),
    ]
    with null_server("flight", k=K) as null:
        to = target("flight", null.host, null.port)
        source = closed(8, mix=[(which, 1.0) for which in range(4)], count=400)
        outcome = drive(to, requests, [source], threads=2)
    assert [record["recorder"].errors() for record in outcome["classes"]] == [[]] * 4
    assert sum(record["issued"] for record in outcome["classes"]) == 400


def test_a_connection_that_breaks_is_one_failure() -> None:
    """A stream that is reset before the end is seen would be one, and the call after it another."""
    request = Requests("search", vectors=ASKED, k=K, options={"dataset": "any"})
    with null_server("flight", k=K, faults=[("break", 3)]) as null:
        outcome = drive(target("flight", null.host, null.port), [request], [closed(1, count=900)])
    (record,) = outcome["classes"]
    assert [(seen, count) for seen, count, _ in record["recorder"].errors()] == [("reset", 300)]
