"""The engine's Qdrant protocol against the classes of Qdrant's own Python client: they parse what
we send, and we read what they serialised."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import judge_of
from grpc_peer import Peer, errors_of
from later import Later
from wire_rows import IDS, VECTORS, columns_of_row, writing

from vectrial.engine.client import Requests, closed, drive, target
from vectrial.engine.types import LoadOutcome
from vectrial.model.errors import UserError

conversion = Later("qdrant_client.conversions.conversion")
models = Later("qdrant_client.models")
pb = Later("qdrant_client.grpc.points_pb2")
common = Later("qdrant_client.grpc.qdrant_common_pb2")

QUERY, GET = "/qdrant.Points/Query", "/qdrant.Points/Get"
UPSERT, DELETE = "/qdrant.Points/Upsert", "/qdrant.Points/Delete"
OPTIONS = {"collection": "things"}


def send(peer: Peer, requests: Requests, count: int = 1) -> LoadOutcome:
    to = target("qdrant", "127.0.0.1", peer.port, headers=[("api-key", "secret")])
    return drive(to, [requests], [closed(1, count=count)])


def point(row: int) -> common.PointId:
    return common.PointId(num=row % 2**64)


def test_a_search_is_what_the_client_would_ask_and_its_answer_is_judged(peer: Peer) -> None:
    scored = [pb.ScoredPoint(id=point(row), score=row / 8, version=3) for row in (7, 0, -1)]
    answer = pb.QueryResponse(result=scored, time=0.001).SerializeToString()
    peer.answers[QUERY] = lambda _: answer
    narrow = models.Filter(must=[models.FieldCondition(key="c", range=models.Range(lt=5.0))])
    wide = models.Filter(
        must_not=[models.FieldCondition(key="w", match=models.MatchValue(value="x"))]
    )
    filters = [conversion.RestToGrpc.convert_filter(one) for one in (narrow, wide)]
    search = Requests(
        "search",
        vectors=VECTORS,
        k=3,
        options={
            **OPTIONS,
            "vector": "v",
            "ef": "64",
            "exact": "false",
            "consistency": "majority",
        },
        filters=[one.SerializeToString() for one in filters],
        filter_of=np.array([0, 1, 0, 1], np.uint32),
        judge=judge_of(np.tile([-1, 0, 7], (4, 1))),
    )
    outcome = send(peer, search, count=4)
    assert errors_of(outcome) == {}
    assert outcome["classes"][0]["recorder"].summary()["recall_mean"] == 1.0
    asked = [pb.QueryPoints.FromString(call.body) for call in peer.calls]
    assert {call.metadata["api-key"] for call in peer.calls} == {"secret"}
    for query, vector in enumerate(VECTORS):
        nearest = pb.VectorInput(dense=pb.DenseVector(data=vector))
        expected = pb.QueryPoints(
            collection_name="things",
            query=pb.Query(nearest=nearest),
            using="v",
            filter=filters[query % 2],
            params=pb.SearchParams(hnsw_ef=64, exact=False),
            limit=3,
            read_consistency=pb.ReadConsistency(type=pb.ReadConsistencyType.Majority),
        )
        assert expected in asked


def test_a_search_without_options_leaves_everything_to_the_server(peer: Peer) -> None:
    peer.answers[QUERY] = lambda _: pb.QueryResponse().SerializeToString()
    send(peer, Requests("search", vectors=VECTORS[:1], k=2, options=OPTIONS))
    nearest = pb.VectorInput(dense=pb.DenseVector(data=VECTORS[0]))
    assert pb.QueryPoints.FromString(peer.calls[0].body) == pb.QueryPoints(
        collection_name="things", query=pb.Query(nearest=nearest), limit=2
    )


@pytest.mark.parametrize("operation", ["insert", "upsert"])
@pytest.mark.parametrize("name", [None, "v"])
def test_rows_are_written_with_their_columns(peer: Peer, operation: str, name: str | None) -> None:
    done = pb.UpdateResult(operation_id=1, status=pb.UpdateStatus.Completed)
    peer.answers[UPSERT] = lambda _: pb.PointsOperationResponse(result=done).SerializeToString()
    options = {**OPTIONS, "ordering": "strong"} | ({"vector": name} if name else {})
    outcome = send(peer, writing(operation, options), count=2)
    assert (errors_of(outcome), outcome["classes"][0]["rows"]) == ({}, 4)
    written = [pb.UpsertPoints.FromString(call.body) for call in peer.calls]
    assert [len(request.points) for request in written] == [3, 1]
    for request in written:
        assert (request.collection_name, request.wait) == ("things", True)
        assert request.ordering.type == pb.WriteOrderingType.Strong
    points = [one for request in written for one in request.points]
    for row, one in enumerate(points):
        vector = VECTORS[row].tolist()
        struct = models.PointStruct(
            id=int(IDS[row]) % 2**64,
            vector={name: vector} if name else vector,
            payload=columns_of_row(row),
        )
        assert one == conversion.RestToGrpc.convert_point_struct(struct)


def test_an_update_that_was_not_applied_in_time_is_an_error(peer: Peer) -> None:
    late = pb.UpdateResult(operation_id=1, status=pb.UpdateStatus.WaitTimeout)
    peer.answers[UPSERT] = lambda _: pb.PointsOperationResponse(result=late).SerializeToString()
    write = Requests("write", "upsert", vectors=VECTORS, ids=IDS, batch=4, options=OPTIONS)
    assert list(errors_of(send(peer, write))) == ["status:wait_timeout"]


def test_rows_are_read_by_id(peer: Peer) -> None:
    rows = [pb.RetrievedPoint(id=point(row)) for row in IDS.tolist()]
    peer.answers[GET] = lambda _: pb.GetResponse(result=rows).SerializeToString()
    options = {**OPTIONS, "with_payload": "true", "consistency": "all"}
    get = Requests("get", "get", ids=IDS, batch=4, options=options)
    assert errors_of(send(peer, get)) == {}
    assert pb.GetPoints.FromString(peer.calls[0].body) == pb.GetPoints(
        collection_name="things",
        ids=[point(row) for row in IDS.tolist()],
        with_payload=pb.WithPayloadSelector(enable=True),
        with_vectors=pb.WithVectorsSelector(enable=False),
        read_consistency=pb.ReadConsistency(type=pb.ReadConsistencyType.All),
    )
    rows.pop()
    assert errors_of(send(peer, get)) == {"incomplete": ["3 of 4 rows came"]}


def test_rows_are_deleted_by_id(peer: Peer) -> None:
    done = pb.UpdateResult(operation_id=1, status=pb.UpdateStatus.Acknowledged)
    peer.answers[DELETE] = lambda _: pb.PointsOperationResponse(result=done).SerializeToString()
    options = {**OPTIONS, "wait": "false"}
    delete = Requests("delete", "delete", ids=IDS[:2], batch=2, options=options)
    assert errors_of(send(peer, delete)) == {}
    ids = pb.PointsIdsList(ids=[point(0), point(7)])
    assert pb.DeletePoints.FromString(peer.calls[0].body) == pb.DeletePoints(
        collection_name="things", wait=False, points=pb.PointsSelector(points=ids)
    )


def test_what_qdrant_cannot_do_is_refused_before_anything_is_sent(peer: Peer) -> None:
    twice = {**OPTIONS, "oversampling": "twice"}
    with pytest.raises(UserError, match="'oversampling' cannot be 'twice'"):
        send(peer, Requests("search", vectors=VECTORS, options=twice))
    with pytest.raises(UserError, match="'wait' is one of false, true, not 'yes'"):
        send(peer, Requests("get", "delete", ids=IDS, options={**OPTIONS, "wait": "yes"}))
    with pytest.raises(UserError, match="'ef' cannot be 'many'"):
        send(peer, Requests("search", vectors=VECTORS, options={**OPTIONS, "ef": "many"}))
    assert peer.calls == []
