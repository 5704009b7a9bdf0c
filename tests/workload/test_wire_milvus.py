"""The engine's Milvus protocol against the classes of pymilvus: they parse what we send, and we
read what they serialised."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from engine_runs import judge_of
from grpc_peer import Peer, errors_of
from later import Later
from wire_rows import IDS, VECTORS, writing

from vectrial.engine.client import Requests, closed, drive, target
from vectrial.engine.types import LoadOutcome
from vectrial.model.errors import UserError

prepare = Later("pymilvus.client.prepare")
common = Later("pymilvus.grpc_gen.common_pb2")
pb = Later("pymilvus.grpc_gen.milvus_pb2")
schema = Later("pymilvus.grpc_gen.schema_pb2")

SERVICE = "/milvus.proto.milvus.MilvusService/"
OPTIONS = {"collection": "things"}
AUTHORIZATION = base64.b64encode(b"root:Milvus").decode()


def send(peer: Peer, requests: Requests, count: int = 1) -> LoadOutcome:
    headers = [("authorization", AUTHORIZATION)]
    to = target("milvus", "127.0.0.1", peer.port, headers=headers)
    return drive(to, [requests], [closed(1, count=count)])


def found(ids: list[int], scores: list[float]) -> bytes:
    data = schema.SearchResultData(
        num_queries=1,
        top_k=len(ids),
        scores=scores,
        ids=schema.IDs(int_id=schema.LongArray(data=ids)),
        topks=[len(ids)],
        primary_field_name="id",
    )
    return pb.SearchResults(
        status=common.Status(), results=data, collection_name="things"
    ).SerializeToString()


def column(
    name: str, kind: schema.DataType, valid: Sequence[bool] = (), **values: Any
) -> schema.FieldData:
    scalars = schema.ScalarField(**values)
    return schema.FieldData(type=kind, field_name=name, scalars=scalars, valid_data=valid)


def pairs(request: pb.SearchRequest) -> dict[str, str]:
    return {pair.key: pair.value for pair in request.search_params}


def test_a_search_is_what_the_client_would_ask_and_its_answer_is_judged(peer: Peer) -> None:
    peer.answers[SERVICE + "Search"] = lambda _: found([7, -1, 0], [0.5, 0.25, 0.0])
    search = Requests(
        "search",
        vectors=VECTORS,
        k=3,
        options={
            **OPTIONS,
            "db": "here",
            "partition": "p",
            "vector": "v",
            "metric": "L2",
            "params": '{"ef":64}',
            "consistency": "bounded",
            "output_fields": "c, w",
        },
        filters=[b"c < 5", "w == 'é'".encode()],
        filter_of=np.array([0, 1, 0, 1], np.uint32),
        judge=judge_of(np.tile([-1, 0, 7], (4, 1))),
    )
    outcome = send(peer, search, count=4)
    assert errors_of(outcome) == {}
    assert outcome["classes"][0]["recorder"].summary()["recall_mean"] == 1.0
    assert {call.metadata["authorization"] for call in peer.calls} == {AUTHORIZATION}
    asked = {}
    for call in peer.calls:
        request = pb.SearchRequest.FromString(call.body)
        asked[request.placeholder_group] = request
    for query, vector in enumerate(VECTORS):
        theirs = prepare.Prepare.search_requests_with_expr(
            "things",
            anns_field="v",
            param={"metric_type": "L2", "params": {"ef": 64}},
            limit=3,
            data=[vector],
            expr=["c < 5", "w == 'é'"][query % 2],
            partition_names=["p"],
            output_fields=["c", "w"],
            round_decimal=-1,
            guarantee_timestamp=2,
            use_default_consistency=False,
            consistency_level=common.ConsistencyLevel.Bounded,
        )
        theirs.db_name = "here"
        ours = asked[theirs.placeholder_group]
        mine, model = pairs(ours), pairs(theirs)
        # The client repeats the metric among the parameters.
        assert json.loads(mine.pop("params")).items() <= json.loads(model.pop("params")).items()
        assert mine.items() <= model.items()
        assert set(mine) == {"anns_field", "topk", "round_decimal", "metric_type"}
        del ours.search_params[:], theirs.search_params[:]
        assert ours == theirs


@pytest.mark.parametrize(
    ("level", "timestamp", "number"), [("strong", 0, 0), ("eventually", 1, 3), (None, 1, 0)]
)
def test_consistency_is_said_as_the_server_takes_it(
    peer: Peer, level: str | None, timestamp: int, number: int
) -> None:
    peer.answers[SERVICE + "Search"] = lambda _: found([], [])
    options = OPTIONS | ({"consistency": level} if level else {})
    assert errors_of(send(peer, Requests("search", vectors=VECTORS, options=options))) == {}
    request = pb.SearchRequest.FromString(peer.calls[0].body)
    assert request.guarantee_timestamp == timestamp
    assert request.consistency_level == number
    assert request.use_default_consistency is (level is None)


@pytest.mark.parametrize("operation", ["insert", "upsert"])
def test_rows_are_written_with_their_columns(peer: Peer, operation: str) -> None:
    method = SERVICE + operation.capitalize()
    done = pb.MutationResult(status=common.Status(), insert_cnt=3, succ_index=[0, 1, 2])
    peer.answers[method] = lambda _: done.SerializeToString()
    options = {**OPTIONS, "id": "pk", "vector": "v", "db": "here", "partition": "p"}
    outcome = send(peer, writing(operation, options), count=2)
    assert (errors_of(outcome), outcome["classes"][0]["rows"]) == ({}, 4)
    kind = pb.InsertRequest if operation == "insert" else pb.UpsertRequest
    written = [kind.FromString(call.body) for call in peer.calls]
    assert [request.num_rows for request in written] == [3, 1]
    types = schema.DataType
    vectors = schema.VectorField(dim=3, float_vector=schema.FloatArray(data=VECTORS[:3].ravel()))
    first = kind(
        db_name="here",
        collection_name="things",
        partition_name="p",
        num_rows=3,
        fields_data=[
            column("pk", types.Int64, long_data=schema.LongArray(data=IDS[:3])),
            schema.FieldData(type=types.FloatVector, field_name="v", vectors=vectors),
            column("c", types.Int64, long_data=schema.LongArray(data=[1, -2, 3])),
            column(
                "w",
                types.VarChar,
                valid=(True, False, True),
                string_data=schema.StringArray(data=["", "é"]),
            ),
            column("b", types.Bool, bool_data=schema.BoolArray(data=[True, False, True])),
            column("f", types.Double, double_data=schema.DoubleArray(data=[0.5, -0.0, 1e300])),
        ],
    )
    assert written[0] == first
    assert list(written[1].fields_data[0].scalars.long_data.data) == [2**62]


def test_a_status_that_is_no_success_is_an_error_of_its_own_class(peer: Peer) -> None:
    status = common.Status(error_code=1, code=100, reason="collection not found")
    peer.answers[SERVICE + "Search"] = lambda _: pb.SearchResults(status=status).SerializeToString()
    peer.answers[SERVICE + "Insert"] = lambda _: pb.MutationResult(
        status=status
    ).SerializeToString()
    search = Requests("search", vectors=VECTORS, options=OPTIONS)
    write = Requests("write", "insert", vectors=VECTORS, ids=IDS, options=OPTIONS)
    for requests in (search, write):
        assert errors_of(send(peer, requests)) == {"status:100": ["collection not found"]}


def test_rows_that_were_refused_are_an_error(peer: Peer) -> None:
    part = pb.MutationResult(status=common.Status(), succ_index=[0, 2, 3], err_index=[1])
    peer.answers[SERVICE + "Insert"] = lambda _: part.SerializeToString()
    write = Requests("write", "insert", vectors=VECTORS, ids=IDS, batch=4, options=OPTIONS)
    assert errors_of(send(peer, write)) == {"incomplete": ["3 of 4 rows written"]}


def test_rows_are_read_by_id(peer: Peer) -> None:
    def answer(ids: list[int]) -> bytes:
        fields = [
            column(name, schema.DataType.Int64, long_data=schema.LongArray(data=values))
            for name, values in (("c", [5] * len(ids)), ("pk", ids))
        ]
        return pb.QueryResults(status=common.Status(), fields_data=fields).SerializeToString()

    peer.answers[SERVICE + "Query"] = lambda _: answer(IDS.tolist())
    options = {**OPTIONS, "id": "pk", "output_fields": "c, w", "consistency": "strong"}
    get = Requests("get", "get", ids=IDS, batch=4, options=options)
    assert errors_of(send(peer, get)) == {}
    assert pb.QueryRequest.FromString(peer.calls[0].body) == pb.QueryRequest(
        collection_name="things",
        expr=f"pk in [0,7,-1,{2**62}]",
        output_fields=["pk", "c", "w"],
        guarantee_timestamp=0,
        consistency_level=common.ConsistencyLevel.Strong,
    )
    peer.answers[SERVICE + "Query"] = lambda _: answer([7])
    assert errors_of(send(peer, get)) == {"incomplete": ["1 of 4 rows came"]}


def test_rows_are_deleted_by_id(peer: Peer) -> None:
    done = pb.MutationResult(status=common.Status(), delete_cnt=2)
    peer.answers[SERVICE + "Delete"] = lambda _: done.SerializeToString()
    delete = Requests("delete", "delete", ids=IDS[:3], batch=3, options=OPTIONS)
    assert errors_of(send(peer, delete)) == {}
    assert pb.DeleteRequest.FromString(peer.calls[0].body) == pb.DeleteRequest(
        collection_name="things", expr="id in [0,7,-1]"
    )


def test_what_milvus_cannot_do_is_refused_before_anything_is_sent(peer: Peer) -> None:
    options = {**OPTIONS, "consistency": "session"}
    with pytest.raises(UserError, match="one of strong, bounded, eventually, not 'session'"):
        send(peer, Requests("search", vectors=VECTORS, options=options))
    with pytest.raises(UserError, match="filter 0 is no expression in UTF-8"):
        send(peer, Requests("search", vectors=VECTORS, options=OPTIONS, filters=[b"\xff"]))
    assert peer.calls == []
