"""The engine's Weaviate protocol against the classes of Weaviate's own Python client: they parse
what we send, and we read what they serialised."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pytest
from engine_runs import judge_of
from grpc_peer import Peer, errors_of
from later import Later
from wire_rows import IDS, VECTORS, columns_of_row, writing

from vectrial.engine.client import Requests, closed, drive, target
from vectrial.engine.types import LoadColumn, LoadOutcome
from vectrial.model.errors import UserError

classes = Later("weaviate.collections.classes.filters")
conversion = Later("weaviate.collections.filters")
v1 = Later("weaviate.proto.v1")

SEARCH = "/weaviate.v1.Weaviate/Search"
WRITE = "/weaviate.v1.Weaviate/BatchObjects"
DELETE = "/weaviate.v1.Weaviate/BatchDelete"
PREFIX = 0x7665637472698000 << 64
OPTIONS = {"collection": "Things"}


def uuid(row: int) -> str:
    return str(UUID(int=PREFIX | row % 2**64))


def send(peer: Peer, requests: Requests, count: int = 1) -> LoadOutcome:
    to = target("weaviate", "127.0.0.1", peer.port, headers=[("Authorization", "Bearer key")])
    return drive(to, [requests], [closed(1, count=count)])


def found(rows: dict[int, float]) -> bytes:
    results = [
        v1.search_get_pb2.SearchResult(
            properties=v1.search_get_pb2.PropertiesResult(target_collection="Things"),
            metadata=v1.search_get_pb2.MetadataResult(
                id=uuid(row),
                id_as_bytes=UUID(uuid(row)).bytes,
                distance=distance,
                distance_present=True,
            ),
        )
        for row, distance in rows.items()
    ]
    return v1.search_get_pb2.SearchReply(took=0.5, results=results).SerializeToString()


def test_a_search_is_what_the_client_would_ask_and_its_answer_is_judged(peer: Peer) -> None:
    peer.answers[SEARCH] = lambda _: found({7: 0.25, -1: 0.5})
    narrow = classes.Filter.by_property("f0").less_than(5)
    equal = classes.Filter.by_property("f1").equal("x")
    wide = equal | classes.Filter.by_property("f0").is_none(True)
    filters = [conversion._FilterToGRPC.convert(one) for one in (narrow, wide)]
    search = Requests(
        "search",
        vectors=VECTORS,
        k=2,
        options={**OPTIONS, "vector": "v", "tenant": "t", "consistency": "quorum"},
        filters=[one.SerializeToString() for one in filters],
        filter_of=np.array([0, 1, 0, 1], np.uint32),
        judge=judge_of(np.tile([-1, 7], (4, 1))),
    )
    outcome = send(peer, search, count=4)
    assert errors_of(outcome) == {}
    assert outcome["classes"][0]["recorder"].summary()["recall_mean"] == 1.0
    asked: dict[bytes, Any] = {}
    for call in peer.calls:
        message = v1.search_get_pb2.SearchRequest.FromString(call.body)
        asked[message.near_vector.vector_bytes] = message
        assert call.metadata["authorization"] == "Bearer key"
    for query, vector in enumerate(VECTORS):
        expected = v1.search_get_pb2.SearchRequest(
            collection="Things",
            tenant="t",
            consistency_level=v1.base_pb2.CONSISTENCY_LEVEL_QUORUM,
            properties=v1.search_get_pb2.PropertiesRequest(),
            metadata=v1.search_get_pb2.MetadataRequest(uuid=True, distance=True),
            limit=2,
            filters=filters[query % 2],
            uses_127_api=True,
        )
        expected.near_vector.vector_bytes = vector.tobytes()
        expected.near_vector.targets.target_vectors.append("v")
        assert asked[vector.tobytes()] == expected


@pytest.mark.parametrize("operation", ["insert", "upsert"])
def test_rows_are_written_with_their_columns(peer: Peer, operation: str) -> None:
    peer.answers[WRITE] = lambda _: v1.batch_pb2.BatchObjectsReply(took=0.1).SerializeToString()
    outcome = send(peer, writing(operation, OPTIONS), count=2)
    assert (errors_of(outcome), outcome["classes"][0]["rows"]) == ({}, 4)
    written = [v1.batch_pb2.BatchObjectsRequest.FromString(call.body) for call in peer.calls]
    assert [len(request.objects) for request in written] == [3, 1]
    objects = [one for request in written for one in request.objects]
    for row, one in enumerate(objects):
        assert one.collection == "Things"
        assert one.uuid == uuid(int(IDS[row]))
        assert one.vector_bytes == VECTORS[row].tobytes()
        assert dict(one.properties.non_ref_properties.items()) == columns_of_row(row)


def test_a_named_vector_is_written_by_its_name(peer: Peer) -> None:
    peer.answers[WRITE] = lambda _: b""
    options = {**OPTIONS, "vector": "v", "consistency": "all", "tenant": "t"}
    send(peer, Requests("write", "insert", vectors=VECTORS, ids=IDS, batch=4, options=options))
    request = v1.batch_pb2.BatchObjectsRequest.FromString(peer.calls[0].body)
    assert request.consistency_level == v1.base_pb2.CONSISTENCY_LEVEL_ALL
    for one, vector in zip(request.objects, VECTORS, strict=True):
        expected = v1.base_pb2.Vectors(
            name="v",
            vector_bytes=vector.tobytes(),
            type=v1.base_pb2.Vectors.VECTOR_TYPE_SINGLE_FP32,
        )
        assert (list(one.vectors), one.vector_bytes, one.tenant) == ([expected], b"", "t")


def test_rows_that_were_refused_are_an_error_with_the_reason(peer: Peer) -> None:
    error = v1.batch_pb2.BatchObjectsReply.BatchError(index=2, error="dimensions differ")
    refused = v1.batch_pb2.BatchObjectsReply(errors=[error]).SerializeToString()
    peer.answers[WRITE] = lambda _: refused
    write = Requests("write", "insert", vectors=VECTORS, ids=IDS, batch=4, options=OPTIONS)
    outcome = send(peer, write)
    assert errors_of(outcome) == {"incomplete": ["3 of 4 rows written: dimensions differ"]}
    assert outcome["classes"][0]["rows"] == 0


def test_rows_are_read_by_id(peer: Peer) -> None:
    peer.answers[SEARCH] = lambda _: found(dict.fromkeys(IDS.tolist(), 0.0))
    options = {**OPTIONS, "properties": "f0, f1", "with_vector": "true"}
    get = Requests("get", "get", ids=IDS, batch=4, options=options)
    assert errors_of(send(peer, get)) == {}
    ids = classes.Filter.by_id().contains_any([uuid(row) for row in IDS.tolist()])
    assert v1.search_get_pb2.SearchRequest.FromString(
        peer.calls[0].body
    ) == v1.search_get_pb2.SearchRequest(
        collection="Things",
        limit=4,
        uses_127_api=True,
        properties=v1.search_get_pb2.PropertiesRequest(non_ref_properties=["f0", "f1"]),
        metadata=v1.search_get_pb2.MetadataRequest(uuid=True, vector=True),
        filters=conversion._FilterToGRPC.convert(ids),
    )
    peer.answers[SEARCH] = lambda _: found({7: 0.0})
    assert errors_of(send(peer, get)) == {"incomplete": ["1 of 4 rows came"]}


def test_rows_are_deleted_by_id(peer: Peer) -> None:
    done = v1.batch_delete_pb2.BatchDeleteReply(matches=2, successful=2)
    peer.answers[DELETE] = lambda _: done.SerializeToString()
    delete = Requests("delete", "delete", ids=IDS[:2], batch=2, options=OPTIONS)
    assert errors_of(send(peer, delete)) == {}
    ids = classes.Filter.by_id().contains_any([uuid(0), uuid(7)])
    assert v1.batch_delete_pb2.BatchDeleteRequest.FromString(
        peer.calls[0].body
    ) == v1.batch_delete_pb2.BatchDeleteRequest(
        collection="Things", filters=conversion._FilterToGRPC.convert(ids)
    )
    done.successful, done.failed = 1, 1
    assert errors_of(send(peer, delete)) == {"incomplete": ["1 of 2 rows deleted"]}


def test_what_weaviate_cannot_do_is_refused_before_anything_is_sent(peer: Peer) -> None:
    beyond: LoadColumn = {"name": "f0", "values": np.full(4, 2**53 + 1), "valid": None}
    write = Requests("write", "insert", vectors=VECTORS, ids=IDS, columns=[beyond], options=OPTIONS)
    with pytest.raises(UserError, match="column 'f0' has an integer beyond 2\\^53"):
        send(peer, write)
    with pytest.raises(UserError, match="'collection' is missing"):
        send(peer, Requests("search", vectors=VECTORS))
    with pytest.raises(UserError, match="one of one, quorum, all, not 'any'"):
        send(peer, Requests("s", vectors=VECTORS, options={**OPTIONS, "consistency": "any"}))
    assert peer.calls == []
