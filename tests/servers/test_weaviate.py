"""Weaviate for real: both lanes ask the same, the wire and the client know rows by the same ids,
and a crash loses nothing that was acknowledged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from search_check import SearchCheck

from vectrial.engine.client import Requests, closed, drive
from vectrial.model.capabilities import Index
from vectrial.model.errors import Unsupported
from vectrial.model.filters import And, Eq, Filter, IsNull, Not, Range
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.servers.base import Server
from vectrial.servers.provide import make_server
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.weaviate.parameters import (
    Protocol,
    WeaviateHnswBuild,
    WeaviateHnswSearch,
    WeaviateReads,
)
from vectrial.stores.weaviate.server import WEAVIATE
from vectrial.stores.weaviate.store import Weaviate
from vectrial.testing.server_programs import require_startable

pytestmark = pytest.mark.server("weaviate")

ROWS, DIM, K = 1_200, 32, 10
FIELDS = (Field("number", FieldType.INT), Field("colour", FieldType.STRING))
RNG = np.random.default_rng(11)
VECTORS = RNG.normal(size=(ROWS, DIM)).astype(np.float32)
QUERIES = RNG.normal(size=(30, DIM)).astype(np.float32)
#: The least, the greatest, zero, and others that use all bits.
IDS = np.append(RNG.integers(-(2**63), 2**63 - 1, ROWS - 3), [-(2**63), 2**63 - 1, 0])
COLUMNS = {
    "number": np.arange(ROWS) % 50,
    "colour": [("red", "green", "", None)[i % 4] for i in range(ROWS)],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    require_startable(WEAVIATE)
    with make_server(WEAVIATE, tmp_path_factory.mktemp("weaviate")) as server:
        yield server


def loaded(server: Server, location: Path, metric: Metric, index: str) -> Weaviate:
    location.mkdir()
    store = Weaviate(location, server.address)
    schema = Schema(DIM, metric, FIELDS)
    store.create(schema, Index(index, store.capabilities.indexes[index].build()))
    store.insert(batch_of(schema, IDS, VECTORS, {n: list(c) for n, c in COLUMNS.items()}))
    assert "queue" in store.wait_indexed()
    return store


CHECK = SearchCheck(IDS, VECTORS, QUERIES)
FILTERS: dict[str, tuple[Filter | None, NDArray[np.bool_]]] = {
    "none": (None, np.ones(ROWS, bool)),
    "nested": (
        And((Range("number", gte=10, lt=40), Not(Eq("colour", "red")))),
        np.array([10 <= i % 50 < 40 and i % 4 in (1, 2) for i in range(ROWS)]),
    ),
    "null": (IsNull("colour"), np.arange(ROWS) % 4 == 3),
}


@pytest.mark.parametrize("metric", Metric)
def test_the_native_lane_finds_what_is_true(server: Server, tmp_path: Path, metric: Metric) -> None:
    store = loaded(server, tmp_path / "flat", metric, "flat")
    try:
        params = store.capabilities.indexes["flat"].search()
        for label, (where, kept) in FILTERS.items():
            assert CHECK.native_recall(store, metric, params, where, kept) == 1.0, label
    finally:
        store.close()


@pytest.mark.parametrize("metric", Metric)
def test_graphql_finds_what_grpc_finds(server: Server, tmp_path: Path, metric: Metric) -> None:
    store = loaded(server, tmp_path / "graphql", metric, "flat")
    try:
        ask = {p: store.searcher(K, WeaviateReads(protocol=p)) for p in Protocol}
        for query in QUERIES:
            (ids, scores), (others, their_scores) = (ask[one](query) for one in Protocol)
            assert ids.tolist() == others.tolist()
            assert np.allclose(scores, their_scores, rtol=1e-5, atol=1e-6)
        params = WeaviateReads(protocol=Protocol.GRAPHQL)
        with pytest.raises(Unsupported, match="only plain searches"):
            store.searcher(K, params, IsNull("colour"))
        with pytest.raises(Unsupported, match="over gRPC alone"):
            store.native_search(K, params)
    finally:
        store.close()


def test_both_lanes_have_the_same_recall_and_ef_decides_it(server: Server, tmp_path: Path) -> None:
    tmp_path.joinpath("hnsw").mkdir()
    store = Weaviate(tmp_path / "hnsw", server.address)
    schema = Schema(DIM, Metric.L2, FIELDS)
    store.create(schema, Index("hnsw", WeaviateHnswBuild(m=4, ef_construction=8)))
    store.insert(batch_of(schema, IDS, VECTORS, {n: list(c) for n, c in COLUMNS.items()}))
    store.wait_indexed()
    recalls = []
    for ef in (K, 400):
        params = WeaviateHnswSearch(ef_search=ef)
        recalls.append(CHECK.native_recall(store, Metric.L2, params))
        assert recalls[-1] == pytest.approx(CHECK.client_recall(store, Metric.L2, params))
    store.close()
    assert recalls[0] < recalls[1] - 0.05


@pytest.mark.parametrize("indexed", [True, False])
def test_what_is_not_indexed_has_no_index_on_the_server(
    server: Server, tmp_path: Path, indexed: bool
) -> None:
    """The server's own words, and the buckets of indexes that it keeps beside the objects."""
    location = tmp_path / f"indexed-{indexed}"
    location.mkdir()
    store = Weaviate(location, server.address)
    fields = tuple(Field(str(kind), kind, indexed) for kind in FieldType)
    schema = Schema(DIM, Metric.L2, fields)
    store.create(schema, Index("hnsw", WeaviateHnswBuild()))
    row = {"int": [1], "float": [0.5], "string": ["red"], "bool": [True]}
    store.insert(batch_of(schema, IDS[:1], VECTORS[:1], row))  # with it the shard is there
    told = {one.name: one for one in store._collection.config.get().properties}
    numbers = {FieldType.INT, FieldType.FLOAT}
    for at, kind in enumerate(FieldType):
        assert told[f"f{at}"].index_filterable is indexed, kind
        assert told[f"f{at}"].index_range_filters is (indexed and kind in numbers), kind
        assert told[f"f{at}"].index_searchable is False, kind
    (folder,) = server.data_dirs()
    # Not `glob`, which fails where the server removes a folder of another collection meanwhile.
    within = (Path(top, one) for top, folders, _ in os.walk(folder) for one in folders)
    own = (one for one in within if store._name.lower() in one.parts)
    kept = {one.name for one in own if one.name.startswith("property_f")}
    values = {f"property_f{at}" for at in range(len(fields))}
    ranges = {f"property_f{at}_rangeable" for at, k in enumerate(FieldType) if k in numbers}
    missing = {f"{name}_nullState" for name in values}
    assert kept == (values | ranges | missing if indexed else set())
    store.drop()
    store.close()


def test_rows_written_over_the_wire_are_those_that_the_client_reads(
    server: Server, tmp_path: Path
) -> None:
    location = tmp_path / "wire"
    location.mkdir()
    store = Weaviate(location, server.address)
    schema = Schema(DIM, Metric.L2)
    store.create(schema, Index("flat", store.capabilities.indexes["flat"].build()))
    native = store.native_search(K, store.capabilities.indexes["flat"].search())
    rows = Requests("insert", "insert", VECTORS, IDS, batch=100, options=native.options, once=True)
    outcome = drive(native.target, [rows], [closed(2)])
    assert outcome["classes"][0]["recorder"].errors() == []
    assert outcome["classes"][0]["rows"] == ROWS
    assert store.count() == ROWS
    table = store.get(IDS[-5:])
    assert set(table.column("id").to_pylist()) == set(IDS[-5:].tolist())
    place = {id_: at for at, id_ in enumerate(IDS.tolist())}
    for row in table.to_pylist():
        np.testing.assert_array_equal(np.float32(row["vector"]), VECTORS[place[row["id"]]])
    store.close()


def test_what_was_acknowledged_survives_a_crash(server: Server, tmp_path: Path) -> None:
    store = loaded(server, tmp_path / "crash", Metric.COSINE, "hnsw")
    store.close()
    server.kill()
    server.restart()
    again = Weaviate(tmp_path / "crash", server.address)
    again.open(Schema(DIM, Metric.COSINE, FIELDS), Index("hnsw", WeaviateHnswBuild()))
    assert again.count() == ROWS
    found = sum(
        again.searcher(1, WeaviateHnswSearch(ef_search=200))(VECTORS[at])[0][0] == IDS[at]
        for at in range(0, ROWS, 100)
    )
    assert found >= 11
    again.drop()
    again.close()


def test_telemetry_has_something_to_measure(server: Server) -> None:
    assert set(server.processes()) == {"server"}
    (folder,) = server.data_dirs()
    assert any(folder.iterdir())
