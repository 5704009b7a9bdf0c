"""The Flight store and its reference server: both lanes ask the same, the wire and the client know
the same rows, what was flushed survives a crash, and Longbow's own requests are answered."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import flight
from readiness import ready

from vectrial.engine.client import Requests, closed, drive
from vectrial.engine.types import LoadColumn
from vectrial.model.capabilities import Index, NoParams, Params, Returning
from vectrial.model.errors import UserError
from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, evaluate
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Address
from vectrial.servers.base import AccessRefused, Server
from vectrial.servers.provide import make_server, prepare
from vectrial.stores.common.arrow import batch_of
from vectrial_reproduce.stores.flight.filters import from_members, to_members
from vectrial_reproduce.stores.flight.longbow import LongbowStore
from vectrial_reproduce.stores.flight.reference.server import Reference
from vectrial_reproduce.stores.flight.server import FLIGHT
from vectrial_reproduce.stores.flight.store import (
    FlightHnswBuild,
    FlightHnswSearch,
    FlightStore,
    connect,
)

pytestmark = pytest.mark.server("flight")

ROWS, DIM, K = 1_000, 16, 10
FIELDS = (
    Field("number", FieldType.INT),
    Field("price", FieldType.FLOAT),
    Field("colour", FieldType.STRING),
    Field("flag", FieldType.BOOL),
)
RNG = np.random.default_rng(12)
VECTORS = RNG.normal(size=(ROWS, DIM)).astype(np.float32)
QUERIES = RNG.normal(size=(20, DIM)).astype(np.float32)
#: The least, the greatest, zero, and others that use all bits.
IDS = np.append(RNG.integers(-(2**63), 2**63 - 1, ROWS - 3), [-(2**63), 2**63 - 1, 0])
COLUMNS: dict[str, list[Any]] = {
    "number": [None if i % 9 == 0 else i % 50 for i in range(ROWS)],
    "price": RNG.normal(size=ROWS).tolist(),
    "colour": [("red", "grün", "", None)[i % 4] for i in range(ROWS)],
    "flag": [i % 3 == 0 for i in range(ROWS)],
}
NESTED = And((Range("number", gte=10, lt=40), Not(Eq("colour", "red"))))
FILTERS: tuple[Filter | None, ...] = (None, NESTED, IsNull("colour"), Eq("number", 7))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    prepare(FLIGHT, print)
    with make_server(FLIGHT, tmp_path_factory.mktemp("flight")) as server:
        yield server


def empty(server: Server, location: Path, metric: Metric, index: Index) -> FlightStore:
    location.mkdir()
    store = FlightStore(location, server.address)
    store.create(Schema(DIM, metric, FIELDS), index)
    return store


def loaded(server: Server, location: Path, metric: Metric, kind: str) -> FlightStore:
    build = FlightStore.capabilities.indexes[kind].build()
    store = empty(server, location, metric, Index(kind, build))
    store.insert(batch_of(Schema(DIM, metric, FIELDS), IDS, VECTORS, COLUMNS))
    assert f"{ROWS} rows" in store.wait_indexed()
    return store


class Early(Reference):
    """Says that it is ready before a row is in its index, as Longbow does."""

    said = 0

    def _readiness(self, name: str) -> Mapping[str, Any]:
        answer = super()._readiness(name)
        self.said += 1
        return {**answer, "index_len": 0} if self.said <= 3 else answer


def test_ready_with_rows_outside_the_index_is_not_ready(tmp_path: Path) -> None:
    with Early("grpc://127.0.0.1:0", tmp_path) as early:
        location = tmp_path / "store"
        location.mkdir()
        store = LongbowStore(location, Address("127.0.0.1", {"grpc": early.port}))
        schema = Schema(DIM, Metric.L2, ())
        store.create(schema, Index("hnsw", NoParams()))
        ids = np.arange(ROWS)
        store.insert(batch_of(schema, ids, VECTORS, {}))
        assert store.wait_indexed() == (
            f"check_readiness says READY, with {ROWS} rows in the index"
        )
        assert early.said == 4
        store.close()


@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("returning", Returning)
def test_both_lanes_have_the_same_answers(
    server: Server, tmp_path: Path, metric: Metric, returning: Returning
) -> None:
    for kind, params in (("flat", Params()), ("hnsw", FlightHnswSearch(ef_search=30))):
        if kind == "flat":
            params = FlightStore.capabilities.indexes[kind].search()
        store = loaded(server, tmp_path / kind, metric, kind)
        for where in FILTERS:
            native = store.native_search(K, params, where, returning)
            asked = Requests(
                "search",
                vectors=QUERIES,
                k=K,
                filters=[native.filter] if native.filter else [],
                options=native.options,
                keep=True,
            )
            outcome = drive(native.target, [asked], [closed(2, count=len(QUERIES))])
            (record,) = outcome["classes"]
            assert record["recorder"].errors() == []
            answers = record["answers"]
            assert answers is not None
            search = store.searcher_returning(returning, K, params, where)
            for query, ids, scores in zip(*answers, strict=True):
                by_client = search(QUERIES[query])
                assert ids[ids != -1].tolist() == by_client[0].tolist()
                np.testing.assert_array_equal(scores[ids != -1], by_client[1])
        store.drop()
        store.close()


def test_an_answer_brings_what_is_asked_for(server: Server, tmp_path: Path) -> None:
    store = loaded(server, tmp_path / "returns", Metric.L2, "flat")
    place = {id_: at for at, id_ in enumerate(IDS.tolist())}
    asked = {"dataset": store._name, "vector": QUERIES[0].tolist(), "k": K}
    with connect(server.address) as client:

        def answer(**more: Any) -> list[dict[str, Any]]:
            ticket = flight.Ticket(json.dumps({"search": {**asked, **more}}).encode())
            rows: list[dict[str, Any]] = client.do_get(ticket).read_all().to_pylist()
            return rows

        bare = answer()
        full = answer(include_vectors=True, include_metadata=True)
    assert set(bare[0]) == {"id", "score"}
    assert [row["id"] for row in full] == [row["id"] for row in bare]
    for row in full:
        at = place[int(np.uint64(row["id"]).view(np.int64))]
        assert row["vector"] == VECTORS[at].tobytes()
        assert row["metadata"] == {name: values[at] for name, values in COLUMNS.items()}
    store.close()


def test_rows_written_over_the_wire_are_those_that_the_client_reads(
    server: Server, tmp_path: Path
) -> None:
    store = empty(server, tmp_path / "wire", Metric.L2, Index("hnsw", FlightHnswBuild(m=4)))
    native = store.native_rows()
    plain = [column(native.columns[name], values) for name, values in COLUMNS.items()]
    rows = Requests(
        "insert", "insert", VECTORS, IDS, plain, batch=300, options=native.options, once=True
    )
    outcome = drive(native.target, [rows], [closed(2)])
    assert outcome["classes"][0]["recorder"].errors() == []
    assert (outcome["classes"][0]["rows"], store.count()) == (ROWS, ROWS)
    some = IDS[-20:]
    expected = batch_of(store._schema, IDS, VECTORS, COLUMNS).slice(ROWS - 20)
    assert sorted_rows(store.get(some)) == sorted_rows(pa.Table.from_batches([expected]))
    got = Requests("get", "get", ids=some, options=native.options, once=True)
    gone = Requests("delete", "delete", ids=some, options=native.options, once=True)
    for one in (got, gone):
        outcome = drive(native.target, [one], [closed(1)])
        assert outcome["classes"][0]["recorder"].errors() == []
        assert outcome["classes"][0]["rows"] == 20
    assert store.count() == ROWS - 20
    assert store.get(some).num_rows == 0
    store.close()


def column(name: str, values: list[Any]) -> LoadColumn:
    """As the engine takes it: whatever stands where a value is missing."""
    valid = np.array([value is not None for value in values])
    spare = next(value for value in values if value is not None)
    full = [spare if value is None else value for value in values]
    return {
        "name": name,
        "values": full if isinstance(spare, str) else np.array(full),
        "valid": valid,
    }


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.sort_by("id").to_pylist()
    return rows


def test_what_was_flushed_survives_a_crash_and_the_rest_does_not(
    server: Server, tmp_path: Path
) -> None:
    kept = loaded(server, tmp_path / "kept", Metric.COSINE, "hnsw")
    lost = loaded(server, tmp_path / "lost", Metric.L2, "flat")
    kept.flush()
    more = IDS[:5] // 2
    kept.insert(batch_of(kept._schema, more, VECTORS[:5], {n: c[:5] for n, c in COLUMNS.items()}))
    server.kill()
    server.restart()
    again = FlightStore(tmp_path / "kept", server.address)
    again.open(kept._schema, Index("hnsw", FlightHnswBuild()))
    assert again.count() == ROWS
    search = again.searcher(1, FlightHnswSearch(ef_search=100))
    assert [search(VECTORS[at])[0][0] for at in range(0, ROWS, 100)] == IDS[::100].tolist()
    assert again.searcher(K, FlightHnswSearch(), NESTED)(QUERIES[0])[0].size
    nothing = FlightStore(tmp_path / "lost", server.address)
    with pytest.raises(Exception, match="no collection"):
        nothing.open(lost._schema, Index("flat", FlightStore.capabilities.indexes["flat"].build()))
    again.drop()
    for store in (kept, lost, again, nothing):
        store.close()


def test_requests_in_longbows_own_words_are_answered(server: Server) -> None:
    table = pa.table(
        {
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), DIM),
            "id": pa.array(np.arange(ROWS), pa.uint32()),
            "meta": pa.array(np.arange(ROWS) % 7),
        }
    )
    by_distance = np.argsort(np.linalg.norm(VECTORS - QUERIES[0], axis=1))
    with connect(server.address) as client:
        writer, _ = client.do_put(flight.FlightDescriptor.for_path("../long/bow"), table.schema)
        with writer:
            writer.write_table(table)

        def act(name: str, **asked: Any) -> list[bytes]:
            action = flight.Action(name, json.dumps({"dataset": "../long/bow", **asked}).encode())
            return [one.body.to_pybytes() for one in client.do_action(action)]

        assert json.loads(act("check_readiness")[0])["status"] == "READY"
        assert json.loads(act("check_readiness", dataset="no")[0])["status"] == "NOT_FOUND"
        batch = act("VectorSearch", vectors=QUERIES[:2].tolist(), k=3, ef=200)
        first = pa.ipc.open_stream(batch[0]).read_all()
        assert len(batch) == 2
        assert first.column("id").to_pylist() == by_distance[:3].tolist()
        near = np.linalg.norm(VECTORS[by_distance[:3]] - QUERIES[0], axis=1)
        np.testing.assert_allclose(first.column("score").to_numpy(), 1 / (1 + near), rtol=1e-5)
        found = json.loads(act("VectorSearchByID", id="17", k=2, ef=200)[0])
        assert (found["ids"][0], found["scores"][0]) == (17, 1.0)
        where = [
            {"field": "meta", "op": "EQ", "value": 3},
            {"field": "meta", "op": "!=", "value": 9},
        ]
        for name in ("name", "dataset"):
            ticket = json.dumps({name: "../long/bow", "filters": where}).encode()
            kept = client.do_get(flight.Ticket(ticket)).read_all()
            assert kept.column("id").to_pylist() == list(range(3, ROWS, 7))
        assert client.do_get(flight.Ticket(b"../long/bow")).read_all().num_rows == ROWS
        act("delete", id="17")
        info = client.get_flight_info(flight.FlightDescriptor.for_path("../long/bow"))
        assert info.total_records == ROWS - 1
        assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == ROWS - 1
        assert b"../long/bow" in [one.descriptor.path[0] for one in client.list_flights()]
        act("delete-dataset")
        with pytest.raises(flight.FlightServerError, match="no dataset"):
            client.do_get(flight.Ticket(b"../long/bow")).read_all()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"name": "nowhere"}, "no dataset 'nowhere'"),
        ({"search": {"dataset": "made", "vector": [1.0, 2.0], "k": 1}}, "a query has 2 components"),
        ({"search": {"dataset": "made", "k": 1}}, "lacks 'vector'"),
        ({"name": "made", "filters": [{"field": "no", "op": "==", "value": 1}]}, "column 'no'"),
        ({"name": "made", "filters": [{"field": "a", "op": "~", "value": 1}]}, "no operator"),
        ({"name": "made", "columns": ["b"]}, "no column 'b'"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    server: Server, asked: dict[str, Any], says: str
) -> None:
    vector = pa.list_(pa.float32(), DIM)
    schema = pa.schema({"id": pa.int64(), "vector": vector, "a": pa.int64()})
    with connect(server.address) as client:
        writer, _ = client.do_put(flight.FlightDescriptor.for_path("made"), schema)
        writer.close()
        with pytest.raises(flight.FlightServerError, match=says):
            client.do_get(flight.Ticket(json.dumps(asked).encode())).read_all()


class Strict(flight.FlightServerBase):
    """A server that lets nobody in, for one reason or the other."""

    def __init__(self, error: type[Exception]) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._error = error

    def do_action(self, context: Any, action: Any) -> Any:
        raise self._error("not you")


@pytest.mark.parametrize(
    "error", [flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError]
)
def test_a_wrong_token_names_where_it_is_given(error: type[Exception]) -> None:
    with Strict(error) as strict:
        address = Address("127.0.0.1", {"grpc": strict.port}, {"token": "hush"})
        with pytest.raises(AccessRefused, match=r"not you.*; see VECTRIAL_FLIGHT_TOKEN") as told:
            ready(FLIGHT, address)
    assert "hush" not in str(told.value)


class Silent(flight.FlightServerBase):
    """A server that has no actions, as one of somebody else's may."""

    def list_actions(self, context: Any) -> list[Any]:
        return []


def test_a_server_that_does_not_say_what_it_is(tmp_path: Path) -> None:
    with Silent("grpc://127.0.0.1:0") as silent:
        store = FlightStore(tmp_path, Address("127.0.0.1", {"grpc": silent.port}))
        assert store.version().endswith(f"does not say which (pyarrow {pa.__version__})")
        store.close()


def test_a_store_has_imported_what_its_first_search_needs(tmp_path: Path) -> None:
    """pyarrow imports pandas late, which takes seconds; a process that searches begins afresh."""
    code = (
        "import sys; from pathlib import Path; from vectrial.model.store import Address;"
        " from vectrial_reproduce.stores.flight.store import FlightStore;"
        f" FlightStore(Path({str(tmp_path)!r}), Address('127.0.0.1', {{'grpc': 1}}));"
        " before = set(sys.modules); import pyarrow as pa;"
        " pa.table({'id': [1]}).column('id').to_numpy(); print(set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "set()", done.stderr


def test_telemetry_has_something_to_measure(server: Server) -> None:
    assert set(server.processes()) == {"server"}
    assert all(folder.is_dir() for folder in server.data_dirs())


NAMES = st.sampled_from(["a", "b"])
VALUES = st.integers(-3, 3)
BOUNDS = st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), VALUES, min_size=1)
SIMPLE = st.one_of(
    st.builds(Eq, NAMES, VALUES),
    st.builds(In, NAMES, st.lists(VALUES, min_size=1).map(tuple)),
    st.builds(lambda name, bounds: Range(name, **bounds), NAMES, BOUNDS),
    st.builds(IsNull, NAMES),
)
ANY = st.recursive(
    SIMPLE,
    lambda some: st.one_of(
        st.builds(Not, some),
        st.builds(And, st.lists(some, min_size=1, max_size=3).map(tuple)),
        st.builds(Or, st.lists(some, min_size=1, max_size=3).map(tuple)),
    ),
)


@given(ANY)
def test_a_filter_that_is_written_and_read_keeps_the_same_rows(where: Filter) -> None:
    side = [None, *range(-3, 4)]
    table = pa.table({"a": [a for a in side for _ in side], "b": side * len(side)})
    again = from_members(json.loads(json.dumps(to_members(where))))
    assert again is not None
    np.testing.assert_array_equal(evaluate(where, table), evaluate(again, table))


def test_comparisons_that_must_all_hold_are_written_as_longbow_reads_them() -> None:
    assert to_members(And((Eq("a", "x"), Range("b", gte=1, lt=2.5)))) == [
        {"field": "a", "operator": "==", "value": "x"},
        {"field": "b", "operator": ">=", "value": 1},
        {"field": "b", "operator": "<", "value": 2.5},
    ]


@pytest.mark.parametrize(
    "members", [{}, "x", [1], [{"field": 3}], [{"logic": "XOR", "filters": [1]}]]
)
def test_what_is_no_filter_is_refused(members: Any) -> None:
    with pytest.raises(UserError):
        from_members(members)
