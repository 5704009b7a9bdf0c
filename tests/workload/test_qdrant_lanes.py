"""Both lanes of Qdrant's driver ask a server the same, and waiting asks until all is indexed.

The server is one of the client's own message classes, which writes down what it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from grpc_peer import Peer, errors_of
from later import Later

from vectrial.engine.client import Requests, closed, drive
from vectrial.model.capabilities import Index, Params, Returning
from vectrial.model.errors import StoreError
from vectrial.model.filters import And, Eq, Not, Range
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Address
from vectrial.stores.common.arrow import batch_of, metadata_of
from vectrial.stores.qdrant.store import (
    Qdrant,
    QdrantHnswSearch,
    QdrantQuantizedSearch,
    Quantization,
    QuantizedBuild,
    ServerBuild,
)
from vectrial.workload.native.rows import columns_of, send

collections = Later("qdrant_client.grpc.collections_pb2")
pb = Later("qdrant_client.grpc.points_pb2")

QUERY, UPSERT = "/qdrant.Points/Query", "/qdrant.Points/Upsert"
INFO, UPDATE = "/qdrant.Collections/Get", "/qdrant.Collections/Update"
CREATE, DELETE = "/qdrant.Collections/Create", "/qdrant.Collections/Delete"
DIM, K, ROWS = 4, 5, 6
VECTORS = np.random.default_rng(1).normal(size=(ROWS, DIM)).astype(np.float32)
IDS = np.array([5, 0, -1, 2**63 - 1, -(2**63), 77], np.int64)
SCHEMA = Schema(DIM, Metric.L2, (Field("number", FieldType.INT), Field("colour", FieldType.STRING)))
WHERE = And((Range("number", gte=1, lt=9), Not(Eq("colour", "red"))))


@pytest.fixture
def store(peer: Peer, tmp_path: Path) -> Iterator[Qdrant]:
    address = Address("127.0.0.1", {"http": 1, "grpc": peer.port}, {"api_key": "secret"})
    with closing(Qdrant(tmp_path, address)) as store:
        store._bind(SCHEMA, Index("hnsw", ServerBuild()))
        yield store


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
@pytest.mark.parametrize(
    "params",
    [
        QdrantHnswSearch(),
        QdrantHnswSearch(ef_search=99),
        QdrantQuantizedSearch(ef_search=50, oversampling=2.5),
        QdrantQuantizedSearch(rescore=False),
        Qdrant.capabilities.indexes["flat"].search(),
    ],
)
@pytest.mark.parametrize("returning", Returning)
def test_both_lanes_ask_the_same(
    peer: Peer, store: Qdrant, params: Params, returning: Returning
) -> None:
    peer.answers[QUERY] = lambda _: pb.QueryResponse().SerializeToString()
    for where in (None, WHERE):
        store.searcher_returning(returning, K, params, where)(VECTORS[0])
        native = store.native_search(K, params, where, returning)
        requests = Requests(
            "search",
            vectors=VECTORS[:1],
            k=K,
            filters=[native.filter] if native.filter else [],
            options=native.options,
        )
        assert errors_of(drive(native.target, [requests], [closed(1, count=1)])) == {}
        by_client, by_engine = peer.calls[-2:]
        asked, same = (pb.QueryPoints.FromString(call.body) for call in (by_client, by_engine))
        for one in (asked, same):  # what is not wanted may be said or left out
            if not one.with_payload.enable:
                one.ClearField("with_payload")
            if not one.with_vectors.enable:
                one.ClearField("with_vectors")
            if not one.params.quantization.ignore:
                one.params.quantization.ClearField("ignore")
        assert asked == same
        assert {call.metadata["api-key"] for call in (by_client, by_engine)} == {"secret"}


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_both_lanes_write_the_same(peer: Peer, store: Qdrant) -> None:
    done = pb.UpdateResult(operation_id=1, status=pb.UpdateStatus.Completed)
    peer.answers[UPSERT] = lambda _: pb.PointsOperationResponse(result=done).SerializeToString()
    columns = {"number": [1, None, 3, 4, 5, 6], "colour": ["a", "", None, "é", "e", None]}
    batch = batch_of(SCHEMA, IDS, VECTORS, columns)
    store.insert(batch)
    native = store.native_rows()
    table = pa.Table.from_batches([metadata_of(batch, SCHEMA)])
    outcome = send(
        native, "insert", IDS, VECTORS, columns_of(table, native.columns), batch=ROWS, clients=1
    )
    assert errors_of(outcome) == {}
    asked, same = (pb.UpsertPoints.FromString(call.body) for call in peer.calls)
    assert [one.id for one in asked.points] == [one.id for one in same.points]
    assert [dict(one.payload) for one in asked.points] == [dict(one.payload) for one in same.points]
    for one, other in zip(asked.points, same.points, strict=True):
        assert vector(one) == vector(other)
    assert (asked.wait, same.wait) == (True, True)


def vector(point: pb.PointStruct) -> list[float]:
    one = point.vectors.vector
    return list(one.dense.data or one.data)


def config() -> Any:
    """A collection's, as the server describes it."""
    return collections.CollectionConfig(
        params=collections.CollectionParams(
            shard_number=1,
            vectors_config=collections.VectorsConfig(
                params=collections.VectorParams(size=DIM, distance=collections.Euclid)
            ),
        ),
        hnsw_config=collections.HnswConfigDiff(m=16, ef_construct=100, full_scan_threshold=10_000),
        optimizer_config=collections.OptimizersConfigDiff(
            deleted_threshold=0.2,
            vacuum_min_vector_number=1_000,
            default_segment_number=0,
            flush_interval_sec=5,
        ),
        wal_config=collections.WalConfigDiff(wal_capacity_mb=32, wal_segments_ahead=0),
    )


def told(status: int, indexed: int, queued: int = 0) -> bytes:
    info = collections.CollectionInfo(
        status=status,
        optimizer_status=collections.OptimizerStatus(ok=status != collections.Red, error=""),
        points_count=1_000,
        indexed_vectors_count=indexed,
        segments_count=2,
        update_queue=collections.UpdateQueueInfo(length=queued),
    )
    info.config.MergeFrom(config())
    return collections.GetCollectionInfoResponse(result=info).SerializeToString()


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_it_waits_until_everything_is_indexed(peer: Peer, store: Qdrant) -> None:
    states = [
        told(collections.Yellow, 0),
        told(collections.Grey, 500),
        told(collections.Green, 500),
        told(collections.Green, 1_000, queued=3),
        told(collections.Green, 990),  # the rest is less than a kilobyte
    ]
    left = iter(states)
    peer.answers[INFO] = lambda _: next(left)
    peer.answers[UPDATE] = lambda _: collections.CollectionOperationResponse(
        result=True
    ).SerializeToString()
    assert "990 of 1000 vectors indexed" in store.wait_indexed()
    assert next(left, None) is None
    assert [call.method for call in peer.calls].count(UPDATE) == 1  # wakes a grey collection


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_an_optimizer_that_failed_is_told(peer: Peer, store: Qdrant) -> None:
    peer.answers[INFO] = lambda _: told(collections.Red, 0)
    with pytest.raises(StoreError, match="the collection is red"):
        store.wait_indexed()


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_a_collection_is_made_as_it_is_asked_for(peer: Peer, store: Qdrant) -> None:
    done = collections.CollectionOperationResponse(result=True).SerializeToString()
    peer.answers[CREATE] = peer.answers[DELETE] = lambda _: done
    schema = Schema(DIM, Metric.IP)

    def made(kind: str, build: Params) -> collections.CreateCollection:
        store.create(schema, Index(kind, build))
        return collections.CreateCollection.FromString(peer.calls[-1].body)

    build = ServerBuild(m=7, ef_construction=55, full_scan_threshold_kb=10, segments=1)
    plain = made("hnsw", build)
    assert (plain.hnsw_config.m, plain.hnsw_config.ef_construct) == (7, 55)
    assert plain.hnsw_config.full_scan_threshold == 10
    assert plain.optimizers_config.default_segment_number == 1
    assert plain.vectors_config.params.distance == collections.Dot
    assert not plain.HasField("quantization_config")
    assert made("flat", Qdrant.capabilities.indexes["flat"].build()).hnsw_config.m == 0
    for quantization in Quantization:
        quantized = made("hnsw_quantized", QuantizedBuild(quantization=quantization))
        assert quantized.quantization_config.WhichOneof("quantization") == quantization
