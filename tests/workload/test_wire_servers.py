"""The gRPC protocols against real servers: rows written, searched, read, deleted and replaced by
the engine, with the database's own client as the witness.

Both are started here where their programs can be had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from grpc_peer import errors_of
from numpy.typing import NDArray

from vectrial._engine import Judge
from vectrial.engine.client import Requests, arrivals, closed, drive, target
from vectrial.engine.types import LoadColumn, LoadOutcome, LoadSource
from vectrial.model.target import LoadTarget
from vectrial.servers.provide import provide
from vectrial.stores.milvus.server import MILVUS
from vectrial.stores.weaviate.server import WEAVIATE
from vectrial.testing.server_programs import prepared

ROWS, DIM, QUERIES, K = 600, 16, 40, 5
NAME = "VectrialWire"
RANDOM = np.random.default_rng(5)
VECTORS = RANDOM.standard_normal((ROWS, DIM)).astype(np.float32)
ASKED = RANDOM.standard_normal((QUERIES, DIM)).astype(np.float32)
IDS = np.arange(ROWS, dtype=np.int64) * 3
GROUP = np.arange(ROWS) % 5
COLUMNS: list[LoadColumn] = [
    {"name": "c", "values": GROUP.astype(np.int64), "valid": None},
    {"name": "w", "values": [f"é{row % 7}" for row in range(ROWS)], "valid": None},
    {"name": "f", "values": np.arange(ROWS) / 8, "valid": None},
    {"name": "b", "values": GROUP == 1, "valid": None},
]


@dataclass(frozen=True)
class Database:
    """A database with an empty collection. kept: the filter c < 2 in its words. ready: called when
    rows have been written. count: its live rows. row: one row's columns. found: what its client
    finds, with or without the filter."""

    to: LoadTarget
    options: Mapping[str, str]
    kept: bytes
    ready: Callable[[], None]
    count: Callable[[], int]
    row: Callable[[int], Mapping[str, Any]]
    found: Callable[[NDArray[np.float32], bool], list[int]]
    search: Mapping[str, str] = field(default_factory=dict)
    get: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def weaviate(folder: Path) -> Iterator[Database]:
    from weaviate import connect_to_custom
    from weaviate.classes.config import Configure, DataType, Property, VectorDistances
    from weaviate.classes.init import Auth
    from weaviate.classes.query import Filter
    from weaviate.collections.filters import _FilterToGRPC

    prepared(WEAVIATE)
    types = {"c": DataType.INT, "w": DataType.TEXT, "f": DataType.NUMBER, "b": DataType.BOOL}
    kept = Filter.by_property("c").less_than(2)
    with provide(WEAVIATE, folder) as server:
        host, ports = server.address.host, server.address.ports
        key = server.address.secrets["api_key"]
        client = connect_to_custom(
            host,
            ports["http"],
            False,
            host,
            ports["grpc"],
            False,
            auth_credentials=Auth.api_key(key),
            skip_init_checks=True,
        )
        things = client.collections.create(
            NAME,
            properties=[Property(name=name, data_type=kind) for name, kind in types.items()],
            vector_config=Configure.Vectors.self_provided(
                name="v",
                vector_index_config=Configure.VectorIndex.hnsw(
                    ef=400, distance_metric=VectorDistances.L2_SQUARED
                ),
            ),
        )

        def count() -> int:
            return things.aggregate.over_all(total_count=True).total_count or 0

        def row(at: int) -> Mapping[str, Any]:
            one = things.query.fetch_object_by_id(UUID(int=0x7665637472698000 << 64 | at))
            return one.properties

        def found(query: NDArray[np.float32], filtered: bool) -> list[int]:
            where = kept if filtered else None
            answer = things.query.near_vector(query.tolist(), limit=K, filters=where)
            return [one.uuid.int & (1 << 64) - 1 for one in answer.objects]

        yield Database(
            to=target(
                "weaviate", host, ports["grpc"], headers=[("authorization", f"Bearer {key}")]
            ),
            options={"collection": NAME, "vector": "v"},
            kept=_FilterToGRPC.convert(kept).SerializeToString(),
            ready=lambda: None,
            count=count,
            row=row,
            found=found,
            get={"properties": "c,w", "with_vector": "true"},
        )
        client.close()


@contextmanager
def milvus(folder: Path) -> Iterator[Database]:
    from pymilvus import DataType, MilvusClient

    prepared(MILVUS)
    with provide(MILVUS, folder) as server:
        host, port = server.address.host, server.address.ports["grpc"]
        client = MilvusClient(f"http://{host}:{port}")
        schema = client.create_schema()
        schema.add_field("pk", DataType.INT64, is_primary=True)
        schema.add_field("v", DataType.FLOAT_VECTOR, dim=DIM)
        schema.add_field("c", DataType.INT64)
        schema.add_field("w", DataType.VARCHAR, max_length=20)
        schema.add_field("f", DataType.DOUBLE)
        schema.add_field("b", DataType.BOOL)
        index = client.prepare_index_params()
        build = {"M": 16, "efConstruction": 200}
        index.add_index("v", index_type="HNSW", metric_type="L2", params=build)
        client.create_collection(NAME, schema=schema, index_params=index)

        def count() -> int:
            rows = client.query(NAME, output_fields=["count(*)"], consistency_level="Strong")
            return int(rows[0]["count(*)"])

        def found(query: NDArray[np.float32], filtered: bool) -> list[int]:
            params = {"metric_type": "L2", "params": {"ef": 400}}
            where = "c < 2" if filtered else ""
            (hits,) = client.search(NAME, [query], where, limit=K, search_params=params)
            return [hit["id"] for hit in hits]

        yield Database(
            to=target("milvus", host, port),
            options={"collection": NAME, "id": "pk", "vector": "v", "consistency": "strong"},
            kept=b"c < 2",
            ready=lambda: client.flush(NAME),
            count=count,
            row=lambda at: client.get(NAME, [at], output_fields=["c", "w", "f", "b"])[0],
            found=found,
            search={"metric": "L2", "params": '{"ef": 400}'},
            get={"output_fields": "c,w,v"},
        )
        client.close()


@pytest.fixture(params=[weaviate, milvus], ids=["weaviate", "milvus"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with request.param(tmp_path) as there:
        yield there


def nearest(vectors: NDArray[np.float32], keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Ids of the nearest rows of every query, among those that are kept."""
    far = np.square(ASKED[:, None].astype(float) - vectors[None]).sum(axis=2)
    return IDS[np.argsort(np.where(keep, far, np.inf), axis=1)[:, :K]]


def judge(vectors: NDArray[np.float32], keep: NDArray[np.bool_]) -> Judge:
    accepted = np.sort(nearest(vectors, keep), axis=1).ravel()
    return Judge(K, np.arange(0, QUERIES * K + 1, K), accepted, np.full(QUERIES, K))


@pytest.mark.server
@pytest.mark.slow
def test_what_the_engine_writes_is_what_client_and_engine_find(database: Database) -> None:
    there = database

    def send(requests: Requests, source: LoadSource) -> LoadOutcome:
        outcome = drive(there.to, [requests], [source], timeout_s=60)
        assert errors_of(outcome) == {}
        return outcome

    def write(operation: str, vectors: NDArray[np.float32]) -> None:
        rows = Requests(
            "write",
            operation,
            vectors=vectors,
            ids=IDS,
            columns=COLUMNS,
            batch=100,
            options=there.options,
            once=True,
        )
        outcome = send(rows, closed(2, count=ROWS // 100))
        assert outcome["classes"][0]["rows"] == ROWS
        there.ready()
        assert there.count() == ROWS

    def recall(vectors: NDArray[np.float32], keep: NDArray[np.bool_], filtered: bool) -> float:
        search = Requests(
            "search",
            vectors=ASKED,
            k=K,
            options={**there.options, **there.search},
            filters=[there.kept] if filtered else [],
            judge=judge(vectors, keep),
        )
        seen = send(search, arrivals(200, count=QUERIES))["classes"][0]["recorder"].summary()
        assert (seen["count"], seen["short_answers"]) == (QUERIES, 0)
        return float(seen["recall_mean"] or 0)

    everything, kept = np.full(ROWS, True), GROUP < 2
    write("insert", VECTORS)
    written = there.row(int(IDS[8]))
    assert {name: written[name] for name in "cwfb"} == {"c": 3, "w": "é1", "f": 1.0, "b": False}
    for filtered, keep in ((False, everything), (True, kept)):
        ours = recall(VECTORS, keep, filtered)
        theirs = [there.found(query, filtered) for query in ASKED]
        best = nearest(VECTORS, keep).tolist()
        hits = sum(len({*one} & {*mine}) for one, mine in zip(theirs, best, strict=True))
        assert ours >= 0.95
        assert ours == pytest.approx(hits / (QUERIES * K), abs=0.02)
    get = Requests("get", "get", ids=IDS, batch=50, options={**there.options, **there.get})
    assert send(get, closed(2, count=ROWS // 50))["classes"][0]["rows"] == ROWS
    write("upsert", -VECTORS)
    assert recall(-VECTORS, everything, filtered=False) >= 0.95
    gone = IDS[: ROWS // 2]
    delete = Requests("delete", "delete", ids=gone, batch=100, options=there.options, once=True)
    send(delete, closed(1, count=ROWS // 200))
    assert there.count() == ROWS // 2
    missing = Requests("get", "get", ids=gone[:50], batch=50, options=there.options)
    missed = drive(there.to, [missing], [closed(1, count=1)])
    assert errors_of(missed) == {"incomplete": ["0 of 50 rows came"]}
    assert recall(-VECTORS, gone.max() < IDS, filtered=False) >= 0.95
