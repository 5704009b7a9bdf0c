"""Milvus for real: both lanes ask the same, rows written over the wire are those that the client
reads, waiting ends when the index serves them, and a crash loses nothing that was acknowledged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from quick_servers import quick_servers
from search_check import SearchCheck

from vectrial.engine.client import Requests, closed, drive
from vectrial.engine.types import LoadColumn
from vectrial.model.capabilities import Index, Params, Returning
from vectrial.model.errors import StoreError, UserError
from vectrial.model.filters import And, Eq, Filter, Not, Range
from vectrial.model.metric import Metric
from vectrial.model.refusals import untested_note
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Address
from vectrial.servers.base import Server
from vectrial.servers.provide import make_server
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.milvus.indexes import (
    MilvusConsistency,
    MilvusHnswBuild,
    MilvusHnswSearch,
    MilvusReads,
)
from vectrial.stores.milvus.server import MILVUS
from vectrial.stores.milvus.store import Milvus, credentials
from vectrial.testing.server_programs import require_startable

pytestmark = pytest.mark.server("milvus")

ROWS, DIM, K = 1_200, 32, 10
FIELDS = (Field("a number", FieldType.INT), Field("colour", FieldType.STRING))
RNG = np.random.default_rng(11)
VECTORS = RNG.normal(size=(ROWS, DIM)).astype(np.float32)
QUERIES = RNG.normal(size=(30, DIM)).astype(np.float32)
#: The least and the greatest that can be asked for, zero, and others that use all bits.
IDS = np.append(RNG.integers(-(2**63) + 1, 2**63 - 1, ROWS - 3), [-(2**63) + 1, 2**63 - 2, 0])
NUMBERS = np.append(np.arange(ROWS - 1) % 50, [-(2**63)])
COLOURS = [("red", 'g"r\\een', "")[i % 3] for i in range(ROWS)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    require_startable(MILVUS)
    with quick_servers(), make_server(MILVUS, tmp_path_factory.mktemp("milvus")) as server:
        yield server


def made(server: Server, location: Path, metric: Metric, index: Index) -> Milvus:
    location.mkdir(exist_ok=True)
    store = Milvus(location, server.address)
    store.create(Schema(DIM, metric, FIELDS), index)
    return store


def fill(store: Milvus, rows: slice = slice(None)) -> None:
    columns = {"a number": NUMBERS[rows].tolist(), "colour": COLOURS[rows]}
    store.insert(batch_of(Schema(DIM, Metric.L2, FIELDS), IDS[rows], VECTORS[rows], columns))


@pytest.fixture(scope="module")
def graph(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Milvus]:
    """Every row, under a poor graph."""
    index = Index("hnsw", MilvusHnswBuild(m=4, ef_construction=8))
    store = made(server, tmp_path_factory.mktemp("graph"), Metric.L2, index)
    fill(store)
    store.flush()
    store.build()
    assert store.wait_indexed() == (
        "every index is Finished with no rows pending; each of the 1 flushed segments is loaded"
        " with its index, and no other is"
    )
    # Of the first few dozen searches of a graph, some find another row more or less than later.
    search = store.searcher(K, MilvusHnswSearch(ef_search=K))
    for query in np.concatenate([QUERIES] * 4):
        search(query)
    yield store
    store.drop()
    store.close()


EVERY = np.ones(ROWS, bool)
CHECK = SearchCheck(IDS, VECTORS, QUERIES)


@pytest.mark.parametrize("returning", Returning)
def test_both_lanes_have_the_same_recall_and_ef_decides_it(
    graph: Milvus, returning: Returning
) -> None:
    recalls = []
    for ef in (K, 400):
        params = MilvusHnswSearch(ef_search=ef)
        found = CHECK.native_recall(graph, Metric.L2, params, returning=returning)
        by_client = CHECK.client_recall(graph, Metric.L2, params, returning=returning)
        # The first searches of a graph have answers a little different from later ones.
        assert found == pytest.approx(by_client, abs=0.02)
        recalls.append(found)
    assert recalls[0] < recalls[1] - 0.05


def test_the_native_lane_finds_what_is_true_and_what_it_wrote(
    server: Server, tmp_path: Path
) -> None:
    kind = Milvus.capabilities.indexes["flat"]
    store = made(server, tmp_path / "wire", Metric.L2, Index("flat", kind.build()))
    rows = store.native_rows()
    columns: list[LoadColumn] = [
        {"name": rows.columns["a number"], "values": NUMBERS, "valid": None},
        {"name": rows.columns["colour"], "values": COLOURS, "valid": None},
    ]

    def do(operation: str, ids: NDArray[np.int64], vectors: NDArray[np.float32] | None) -> None:
        asked = Requests(
            operation,
            operation,
            vectors,
            ids,
            columns if vectors is not None else (),
            batch=100,
            options=rows.options,
            once=True,
        )
        told = drive(rows.target, [asked], [closed(2)])["classes"][0]
        assert told["recorder"].errors() == []
        assert told["rows"] == len(ids)

    do("insert", IDS, VECTORS + 1)
    do("upsert", IDS, VECTORS)
    assert not store._client.list_loaded_segments(store._name), "it is loaded when it is whole"
    # The index is flat, and its columns have indexes: there is none of vectors to load.
    assert "flushed segments is loaded, and no other is" in store.wait_indexed()
    assert store.count() == ROWS
    do("get", IDS, None)
    place = {id_: at for at, id_ in enumerate(IDS.tolist())}
    column = Schema(DIM, Metric.L2, FIELDS).columns
    for row in store.get(IDS[-5:]).to_pylist():
        at = place[row["id"]]
        np.testing.assert_array_equal(np.float32(row["vector"]), VECTORS[at])
        assert (row[column["a number"]], row[column["colour"]]) == (NUMBERS[at], COLOURS[at])
    colours = np.array(COLOURS)
    filters: list[tuple[Filter | None, NDArray[np.bool_]]] = [
        (None, EVERY),
        (
            And((Range("a number", gte=10, lt=40), Not(Eq("colour", "red")))),
            (NUMBERS >= 10) & (NUMBERS < 40) & (colours != "red"),
        ),
        (Eq("colour", 'g"r\\een'), colours == 'g"r\\een'),
        (Eq("a number", -(2**63)), NUMBERS == -(2**63)),
    ]
    for where, kept in filters:
        assert CHECK.native_recall(store, Metric.L2, kind.search(), where, kept) == 1.0, where
    do("delete", IDS[:200], None)
    assert store.count() == ROWS - 200
    store.drop()
    store.close()


def test_waiting_ends_when_new_rows_are_served_too(server: Server, tmp_path: Path) -> None:
    store = made(server, tmp_path / "more", Metric.L2, Index("hnsw", MilvusHnswBuild()))
    fill(store, slice(0, 1_100))
    store.flush()
    store.build()
    store.wait_indexed()
    fill(store, slice(1_100, ROWS))
    told = store.wait_indexed()  # which flushes
    assert "each of the 2 flushed segments" in told
    assert "100 rows are in segments below 1,024 rows, which are searched approx" in told
    search = store.searcher(1, MilvusHnswSearch())
    assert all(search(VECTORS[at])[0][0] == IDS[at] for at in range(1_100, ROWS))
    # A strong search sees a row at once.
    moved = np.full((1, DIM), 50, np.float32)
    columns = {"a number": [1], "colour": [""]}
    store.upsert(batch_of(Schema(DIM, Metric.L2, FIELDS), IDS[:1], moved, columns))
    strong = store.searcher(1, MilvusHnswSearch(consistency=MilvusConsistency.STRONG))
    assert strong(moved[0])[0].tolist() == IDS[:1].tolist()
    store.drop()
    store.close()


def test_what_milvus_cannot_do_is_said(graph: Milvus) -> None:
    with pytest.raises(UserError, match="ef_search is 5 and k is 10"):
        graph.searcher(10, MilvusHnswSearch(ef_search=5))
    missing = {"a number": [None], "colour": ["red"]}
    schema = Schema(DIM, Metric.L2, FIELDS)
    with pytest.raises(StoreError, match="'a number' has missing values"):
        graph.insert(batch_of(schema, IDS[:1], VECTORS[:1], missing))
    assert graph.count() == ROWS
    assert untested_note(Milvus, graph.version()) is None


def test_two_servers_run_side_by_side(server: Server, tmp_path: Path) -> None:
    with make_server(MILVUS, tmp_path / "other") as other:
        assert other.address.ports["grpc"] != server.address.ports["grpc"]
        kind = Milvus.capabilities.indexes["flat"]
        store = made(other, tmp_path / "rows", Metric.IP, Index("flat", kind.build()))
        fill(store, slice(0, 50))
        assert store.count() == 50
        assert (
            len(store.searcher(K, MilvusReads(consistency=MilvusConsistency.STRONG))(QUERIES[0])[0])
            == K
        )
        there = Milvus(tmp_path / "rows", server.address)
        with pytest.raises(StoreError, match="has no collection"):
            there.open(Schema(DIM, Metric.IP, FIELDS), Index("flat", kind.build()))
        there.close()
        store.close()
    assert not other.is_alive()


@pytest.mark.slow
def test_what_was_acknowledged_survives_a_crash(graph: Milvus, server: Server) -> None:
    added = np.arange(100, 150)
    columns = {"a number": [7] * 50, "colour": ["new"] * 50}
    schema = Schema(DIM, Metric.L2, FIELDS)
    graph.insert(batch_of(schema, added, VECTORS[:50] + 9, columns))  # and not flushed
    server.kill()
    server.restart()
    again = Milvus(graph.location, server.address)
    again.open(schema, Index("hnsw", MilvusHnswBuild(m=4, ef_construction=8)))
    assert again.count() == ROWS + 50
    assert set(again.find(Eq("colour", "new"), 100).tolist()) == set(added.tolist())
    again.delete(added)
    assert again.count() == ROWS
    again.close()


def test_telemetry_has_something_to_measure(server: Server) -> None:
    assert set(server.processes()) == {"server"}
    (folder,) = server.data_dirs()
    assert {"etcd", "rocksmq"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("secrets", "header"),
    [
        ({}, ""),
        ({"token": "abc"}, "YWJj"),
        ({"user": "root", "password": "Milvus"}, "cm9vdDpNaWx2dXM="),
    ],
)
def test_secrets_make_a_header(secrets: dict[str, str], header: str) -> None:
    assert credentials(Address("there", {"grpc": 1}, secrets)) == header


def test_a_server_ends_by_itself_after_a_collection_was_dropped(tmp_path: Path) -> None:
    told: list[str] = []
    require_startable(MILVUS)
    with make_server(MILVUS, tmp_path / "server", progress=told.append) as server:
        store = made(server, tmp_path / "store", Metric.L2, Index("flat", Params()))
        fill(store)
        store.build()
        store.wait_indexed()
        store.drop()
        store.drop()  # what is not there is not missed
        store.close()
    assert not [line for line in told if "killed" in line]
