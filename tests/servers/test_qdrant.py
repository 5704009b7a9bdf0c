"""Qdrant's driver without Qdrant's server, which no package registry has: its filters in Qdrant
Edge, the same engine, and its calls in the client's own in-memory mode.

Where there is a server, the conformance suite runs against it; the requests of both lanes are
compared in `tests/workload/test_qdrant_lanes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
import qdrant_edge as edge
from later import Later

import vectrial.stores.qdrant.store as driver
from vectrial.model.capabilities import Index, IndexKind, Returning
from vectrial.model.errors import Unsupported
from vectrial.model.existing import Existing, IntegerKeys, Keys, NewKeys, NumberedKeys
from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, evaluate
from vectrial.model.metric import Metric, distances
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Address
from vectrial.servers.base import NoProgram
from vectrial.stores.common.arrow import batch_of, metadata_of
from vectrial.stores.qdrant.edge import QdrantEdge
from vectrial.stores.qdrant.server import QDRANT
from vectrial.stores.qdrant.store import Qdrant

qdrant_client = Later("qdrant_client")

ROWS, DIM, K = 400, 8, 10
RNG = np.random.default_rng(13)
VECTORS = RNG.normal(size=(ROWS, DIM)).astype(np.float32)
IDS = np.append(RNG.integers(-(2**63), 2**63 - 1, ROWS - 2), [-(2**63), 2**63 - 1])
FIELDS = (
    Field("number", FieldType.INT),
    Field("price.net", FieldType.FLOAT, indexed=False),
    Field("colour", FieldType.STRING),
    Field("flag", FieldType.BOOL),
)
SCHEMA = Schema(DIM, Metric.L2, FIELDS)
COLUMNS: dict[str, list[Any]] = {
    "number": [None if i % 9 == 0 else i % 50 for i in range(ROWS)],
    "price.net": [None if i % 7 == 0 else i / 100 - 2 for i in range(ROWS)],
    "colour": [("red", 'it\'s "grün"', "", None)[i % 4] for i in range(ROWS)],
    "flag": [None if i % 5 == 0 else i % 3 == 0 for i in range(ROWS)],
}
BATCH = batch_of(SCHEMA, IDS, VECTORS, COLUMNS)
FILTERS: tuple[Filter, ...] = (
    Eq("number", 7),
    Eq("number", 7.5),
    Eq("price.net", 0),
    Eq("colour", 'it\'s "grün"'),
    Eq("colour", ""),
    Eq("flag", True),
    In("number", (1, 2.0, 3.5, 49)),
    In("colour", ("red", "")),
    In("flag", (True, False)),
    In("price.net", (1, -1.5)),
    Range("number", gt=10.5, lte=40),
    Range("price.net", gte=-1, lt=0.25),
    IsNull("colour"),
    Not(IsNull("price.net")),
    Not(Eq("flag", True)),
    Not(In("number", (1, 2, 3))),
    Not(Range("number", gte=5)),
    And((Not(Or((IsNull("number"), Eq("flag", True)))), Not(Eq("colour", "red")))),
    Or((And((Eq("colour", "red"), Range("number", lt=10))), Not(Not(Eq("number", 4))))),
)


def kept_by(where: Filter) -> list[int]:
    """Ids of the rows that a filter keeps."""
    metadata = pa.Table.from_batches([metadata_of(BATCH, SCHEMA)])
    kept: list[int] = IDS[evaluate(where, metadata)].tolist()
    return sorted(kept)


def kind(name: str) -> IndexKind:
    return Qdrant.capabilities.indexes[name]


def index(name: str) -> Index:
    return Index(name, kind(name).build())


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Qdrant]:
    """The driver over the client's own in-memory mode: its calls, and none of the server's."""
    monkeypatch.setattr(driver, "connect", lambda _: qdrant_client.QdrantClient(":memory:"))
    store = Qdrant(tmp_path, Address("nowhere", {"http": 1, "grpc": 2}))
    yield store
    store.close()


@pytest.mark.filterwarnings("ignore:Payload indexes have no effect", "ignore:Local mode performs")
def test_the_client_takes_every_call(local: Qdrant) -> None:
    local.create(SCHEMA, index("flat"))
    local.create(SCHEMA, index("flat"))  # what was there before is gone
    local.insert(BATCH)
    local.flush()
    local.build()
    assert f"of {ROWS} vectors" in local.wait_indexed()
    local.open(SCHEMA, index("flat"))
    assert local.count() == ROWS
    expected = {row["id"]: row for row in BATCH.to_pylist()}
    assert {row["id"]: row for row in local.get(IDS[-3:]).to_pylist()} == {
        id_: expected[id_] for id_ in IDS[-3:].tolist()
    }
    assert local.get(np.array([5], np.int64)).num_rows == 0
    scanned = [row for batch in local.scan(90) for row in batch.to_pylist()]
    assert {row["id"]: row for row in scanned} == expected
    assert len(scanned) == ROWS
    for where in FILTERS:
        assert sorted(local.find(where, ROWS).tolist()) == kept_by(where), where
    near = np.argsort(distances(VECTORS[3], VECTORS, Metric.L2))[:K]
    for returning in Returning:
        search = local.searcher_returning(returning, K, kind("flat").search())
        ids, scores = search(VECTORS[3])
        assert ids.tolist() == IDS[near].tolist()
        np.testing.assert_allclose(
            scores, distances(VECTORS[3], VECTORS[near], Metric.L2), atol=1e-3
        )
    local.delete(IDS[:10])
    assert local.count() == ROWS - 10
    local.drop()
    with pytest.raises(Exception, match="no collection"):
        local.open(SCHEMA, index("flat"))


@pytest.mark.filterwarnings("ignore:Payload indexes have no effect", "ignore:Local mode performs")
def test_its_filters_keep_the_right_rows_in_qdrants_engine(local: Qdrant, tmp_path: Path) -> None:
    local.create(SCHEMA, index("flat"))
    folder = tmp_path / "edge"
    folder.mkdir()
    engine = QdrantEdge(folder)
    engine.create(SCHEMA, Index("flat", QdrantEdge.capabilities.indexes["flat"].build()))
    engine.insert(BATCH)
    engine.wait_indexed()
    for where in FILTERS:
        ours = edge_filter(local._translate(where).model_dump(exclude_none=True))
        request = edge.ScrollRequest(limit=ROWS, filter=ours)
        found, _ = engine._shard.scroll(request)
        ids = np.array([row.id for row in found], np.uint64).view(np.int64)
        assert sorted(ids.tolist()) == kept_by(where), where
    engine.close()


def edge_filter(plain: dict[str, Any]) -> Any:
    """A filter of the client's models, member by member, as one of Qdrant Edge's classes."""

    def condition(one: dict[str, Any]) -> Any:
        match one:
            case {"is_empty": {"key": key}}:
                return edge.IsEmptyCondition(key)
            case {"key": key, "range": bounds}:
                return edge.FieldCondition(key, range=edge.RangeFloat(**bounds))
            case {"key": key, "match": {"any": values}}:
                return edge.FieldCondition(key, match=edge.MatchAny(values))
            case {"key": key, "match": {"value": value}}:
                exact = np.bool_(value) if isinstance(value, bool) else value
                return edge.FieldCondition(key, match=edge.MatchValue(exact))
            case _:
                return edge_filter(one)

    assert set(plain) <= {"must", "should", "must_not"}, plain
    return edge.Filter(**{word: [condition(one) for one in parts] for word, parts in plain.items()})


def test_without_a_program_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VECTRIAL_QDRANT_BIN", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        NoProgram, match=r"VECTRIAL_QDRANT_BIN.*VECTRIAL_QDRANT_ADDRESS.*qdrant-edge"
    ):
        QDRANT.program(print)
    assert QDRANT.availability().works is False


def test_a_program_that_is_given_gets_its_folder_and_ports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "my-qdrant"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("VECTRIAL_QDRANT_BIN", str(program))
    assert QDRANT.program(print) == program
    assert QDRANT.availability().works is True
    command = QDRANT.command(program, tmp_path, {"http": 11, "grpc": 12}, {"api_key": "k"})
    assert command.argv == (str(program),)
    assert command.env["QDRANT__SERVICE__HOST"] == "127.0.0.1"
    assert command.env["QDRANT__SERVICE__HTTP_PORT"] == "11"
    assert command.env["QDRANT__SERVICE__GRPC_PORT"] == "12"
    assert command.env["QDRANT__STORAGE__STORAGE_PATH"].startswith(str(tmp_path))


@pytest.mark.filterwarnings("ignore:Payload indexes have no effect", "ignore:Local mode performs")
@pytest.mark.parametrize("name", ["", "embedding"])
@pytest.mark.parametrize("text", [False, True])
def test_a_collection_that_somebody_else_made(
    name: str, text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qdrant_client import models

    client = qdrant_client.QdrantClient(":memory:")
    monkeypatch.setattr(driver, "connect", lambda _: client)
    keys: list[Any] = [str(UUID(int=at + 1)) if text else at + 1 for at in range(ROWS)]
    params = models.VectorParams(size=DIM, distance=models.Distance.DOT)
    client.create_collection("products", {name: params} if name else params)
    rows = zip(keys, VECTORS.tolist(), strict=True)
    points = [
        models.PointStruct(id=key, vector={name: row} if name else row, payload={"price": at})
        for at, (key, row) in enumerate(rows)
    ]
    client.upsert("products", points)
    address = Address("none", {"http": 1, "grpc": 2}, read_only=True)
    store = Qdrant(Path(), address)
    found = store.describe(Existing("products"))
    assert (found.vector, found.rows, found.dim, found.metric) == (name, ROWS, DIM, Metric.IP)
    assert found.text_ids is text
    schema = Schema(DIM, Metric.IP, (Field("price", FieldType.INT),))
    new = NewKeys() if text else IntegerKeys()
    index = Index(found.index, kind(found.index).build.model_validate(found.params))
    store.attach(Existing("products", found.id, found.vector), schema, index, new)
    read = [row for batch in store.scan(90) for row in batch.to_pylist()]
    assert len(read) == ROWS
    assert [row["f0"] for row in sorted(read, key=lambda row: row["id"])] == list(range(ROWS))
    ids = np.array([row["id"] for row in read], np.int64)
    own: Keys = new
    if isinstance(new, NewKeys):
        own = NumberedKeys(pa.chunked_array([new.texts]), np.arange(ROWS, dtype=np.int64))
    store._keys = own
    assert sorted(store.get(ids[:5]).column("id").to_pylist()) == sorted(ids[:5].tolist())
    search = store.searcher(K, kind("flat").search())
    near = np.argsort(-(VECTORS @ VECTORS[3]))[:K]
    assert search(VECTORS[3])[0].tolist() == own.ids([keys[at] for at in near]).tolist()
    assert store.find(Range("price", lt=1), 5).tolist() == own.ids(keys[:1]).tolist()
    if not text:
        options = store.native_search(K, kind("hnsw").search()).options
        assert options.get("vector", "") == name
    with pytest.raises(Unsupported, match="only read"):
        store.drop()
    assert client.count("products").count == ROWS


@pytest.mark.filterwarnings("ignore:Payload indexes have no effect", "ignore:Local mode performs")
def test_points_without_the_vector_and_values_in_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    from qdrant_client import models

    client = qdrant_client.QdrantClient(":memory:")
    monkeypatch.setattr(driver, "connect", lambda _: client)
    params = models.VectorParams(size=DIM, distance=models.Distance.DOT)
    client.create_collection("products", {"text": params, "title": params})
    points = [
        models.PointStruct(
            id=at + 1,
            vector={"title": row} | ({"text": row} if at % 10 else {}),
            payload={"metadata": {"price": at}},
        )
        for at, row in enumerate(VECTORS.tolist())
    ]
    client.upsert("products", points)
    store = Qdrant(Path(), Address("none", {"http": 1, "grpc": 2}, read_only=True))
    rows = ROWS - ROWS // 10
    found = store.describe(Existing("products", vector="text"))
    assert found.rows == rows
    schema = Schema(DIM, Metric.IP, (Field("metadata.price", FieldType.INT),))
    index = Index(found.index, kind(found.index).build.model_validate(found.params))
    store.attach(Existing("products", found.id, "text"), schema, index, IntegerKeys())
    read = [row for batch in store.scan(90) for row in batch.to_pylist()]
    assert [(row["id"], row["f0"]) for row in read] == [
        (at + 1, at) for at in range(ROWS) if at % 10
    ]
    assert store.count() == rows
    assert store.get(np.array([1, 2])).column("id").to_pylist() == [2]
    assert store.find(Range("metadata.price", lt=3), 9).tolist() == [2, 3]
