"""Python clients that the native engine is measured beside, each against the null server.

A client is a context manager that yields a search: called with a query (d,), it returns when the
answer has been read. What it talks to answers at once, so that processor time is the client's own.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np

from vectrial.engine.null_server import null_server

Search = Callable[[np.ndarray], object]
#: A client, given the core that its null server runs on.
Client = Callable[[int], AbstractContextManager[Search]]
K = 10
IDS = list(range(K))
SCORES = [i / 64 for i in range(K)]


@contextmanager
def grpcio(core: int) -> Iterator[Search]:
    """The bare stub: bytes out, bytes in, nothing decoded."""
    import grpc

    with (
        null_server("grpc", cores=[core]) as server,
        grpc.insecure_channel(f"{server.host}:{server.port}") as channel,
    ):
        call = channel.unary_unary("/vectrial.Null/Search")
        yield lambda query: call(query.tobytes())


@contextmanager
def pymilvus(core: int) -> Iterator[Search]:
    """`MilvusClient.search`."""
    from pymilvus import MilvusClient
    from pymilvus.grpc_gen import milvus_pb2, schema_pb2

    field = schema_pb2.FieldSchema
    collection = schema_pb2.CollectionSchema(
        name="bench",
        fields=[
            field(fieldID=100, name="id", is_primary_key=True, data_type=schema_pb2.Int64),
            field(fieldID=101, name="vector", data_type=schema_pb2.FloatVector),
        ],
    )
    found = schema_pb2.SearchResultData(num_queries=1, top_k=K, scores=SCORES, topks=[K])
    found.ids.int_id.data.extend(IDS)
    service = "/milvus.proto.milvus.MilvusService/"
    replies = {
        f"{service}Connect": milvus_pb2.ConnectResponse(identifier=1),
        f"{service}DescribeCollection": milvus_pb2.DescribeCollectionResponse(
            schema=collection, collection_name="bench", collectionID=1
        ),
        f"{service}Search": milvus_pb2.SearchResults(results=found, collection_name="bench"),
    }
    encoded = {path: message.SerializeToString() for path, message in replies.items()}
    with null_server("grpc", cores=[core], replies=encoded) as server:
        client = MilvusClient(f"http://{server.host}:{server.port}")
        params = {"metric_type": "COSINE", "params": {"ef": 64}}

        def search(query: np.ndarray) -> object:
            return client.search("bench", [query], limit=K, search_params=params)

        try:
            yield search
        finally:
            client.close()


@contextmanager
def weaviate_client(core: int) -> Iterator[Search]:
    """`collection.query.near_vector`, with distances."""
    import weaviate
    from weaviate.classes.query import MetadataQuery
    from weaviate.proto import v1

    pb2: Any = v1.search_get_pb2
    reply = pb2.SearchReply()
    for i, score in zip(IDS, SCORES, strict=True):
        result = reply.results.add()
        result.metadata.id = f"00000000-0000-0000-0000-{i:012x}"
        result.metadata.distance = score
        result.metadata.distance_present = True
        result.properties.target_collection = "Bench"
    replies = {"/weaviate.v1.Weaviate/Search": reply.SerializeToString()}
    with null_server("grpc", cores=[core], replies=replies) as server, _meta() as http_port:
        client = weaviate.connect_to_custom(
            server.host,
            http_port,
            False,
            server.host,
            server.port,
            False,
            skip_init_checks=True,
        )
        collection = client.collections.use("Bench")
        wanted = MetadataQuery(distance=True)

        def search(query: np.ndarray) -> object:
            return collection.query.near_vector(query, limit=K, return_metadata=wanted)

        try:
            yield search
        finally:
            client.close()


@contextmanager
def qdrant_client(core: int) -> Iterator[Search]:
    """`QdrantClient.query_points` over gRPC."""
    from qdrant_client import QdrantClient, grpc

    points = [
        grpc.ScoredPoint(id=grpc.PointId(num=i), score=score)
        for i, score in zip(IDS, SCORES, strict=True)
    ]
    replies = {"/qdrant.Points/Query": grpc.QueryResponse(result=points).SerializeToString()}
    with null_server("grpc", cores=[core], replies=replies) as server:
        client = QdrantClient(
            host=server.host,
            grpc_port=server.port,
            prefer_grpc=True,
            check_compatibility=False,
        )
        try:
            yield lambda query: client.query_points("bench", query, limit=K)
        finally:
            client.close()


@contextmanager
def elasticsearch(core: int) -> Iterator[Search]:
    """`Elasticsearch.search` with a knn clause, ids and scores only."""
    from elasticsearch import Elasticsearch

    with null_server("http", cores=[core]) as server:
        client = Elasticsearch(f"http://{server.host}:{server.port}", connections_per_node=32)

        def search(query: np.ndarray) -> object:
            vector = query.tolist()
            knn = {"field": "vector", "query_vector": vector, "k": K, "num_candidates": 64}
            return client.search(index="bench", knn=knn, size=K, source=False)

        try:
            yield search
        finally:
            client.close()


@contextmanager
def redis_py(core: int) -> Iterator[Search]:
    """`VSIM` through redis-py."""
    import redis

    with null_server("resp", cores=[core]) as server:
        client = redis.Redis(server.host, server.port)

        def search(query: np.ndarray) -> object:
            return client.execute_command(
                "VSIM", "bench", "FP32", query.tobytes(), "WITHSCORES", "COUNT", K, "EF", 64
            )

        try:
            yield search
        finally:
            client.close()


class _Meta(BaseHTTPRequestHandler):
    """What weaviate-client asks over HTTP before it searches over gRPC."""

    def do_GET(self) -> None:
        body = json.dumps({"version": "1.35.2", "hostname": "null", "modules": {}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def _meta() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), _Meta) as server:
        process = multiprocessing.get_context("fork").Process(
            target=server.serve_forever, daemon=True
        )
        process.start()
        try:
            yield server.server_port
        finally:
            process.terminate()
            process.join()
