"""Collections as applications leave them: what is measured is what their searches use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from measured_collections import DIM, VECTORS, K, measured, opened, refused

from vectrial.model.errors import UserError
from vectrial.model.existing import Existing
from vectrial.model.metric import Metric
from vectrial.model.store import Address
from vectrial.stores import registry

pytestmark = pytest.mark.usefixtures("home")
DOCS = Path(__file__).parents[2] / "docs"


#: The index's definition, the keys before their numbers, what else is done, and the rows.
REDIS: dict[str, tuple[Sequence[Any], str, Callable[[Any], Any], int]] = {
    "documents without a vector": (
        ("PREFIX", 1, "n:"),
        "n:",
        lambda r: [r.hset(f"n:{10**6 + at}", "page", 1) for at in range(20)],
        500,
    ),
    "a counter beside": (("PREFIX", 1, "n:"), "n:", lambda r: r.set("n:count", 500), 500),
    "a filter": (("PREFIX", 1, "n:", "FILTER", "@page < 20"), "n:", lambda r: None, 260),
    "a prefix with brackets": (("PREFIX", 1, "[n]*:"), "[n]*:", lambda r: None, 500),
    "ids that are texts": (("PREFIX", 1, "doc:"), "doc:x", lambda r: None, 500),
    "several prefixes": (("PREFIX", 2, "n:", "m:"), "n:", lambda r: None, 500),
    "every key": ((), "n:", lambda r: None, 500),
    "a hash of the application's own": (
        ("PREFIX", 1, "n:"),
        "n:",
        lambda r: r.hset("n:settings", "page", 1),
        500,
    ),
}


@pytest.mark.server("redis-search")
@pytest.mark.parametrize("name", REDIS)
def test_the_documents_of_an_index_are_its_rows(name: str, redis: Address) -> None:
    from vectrial.stores.redis.server import connect

    definition, key, others, rows = REDIS[name]
    with closing(connect(redis, 10.0)) as client:
        fill_redis(client, definition, key)
        others(client)
        before = client.config_get("*"), client.execute_command("FT.CONFIG", "GET", "*")
        _, found, dataset = measured("redis-search", redis, Existing("alias"), columns=("page",))
        assert (client.config_get("*"), client.execute_command("FT.CONFIG", "GET", "*")) == before
    assert (found.rows, dataset.rows) == (rows, rows)


def fill_redis(client: Any, definition: Sequence[Any], key: str) -> None:
    """Make an index over 500 hashes, of which `key` begins the keys, and an alias of it."""
    client.flushall()
    vector = ("FLAT", 6, "TYPE", "FLOAT32", "DIM", DIM, "DISTANCE_METRIC", "L2")
    schema = ("page", "NUMERIC", "INDEXMISSING", "v", "VECTOR", *vector)
    client.execute_command("FT.CREATE", "nums", "ON", "HASH", *definition, "SCHEMA", *schema)
    for at in range(500):
        client.hset(f"{key}{at}", mapping={"page": at % 40, "v": VECTORS[at].tobytes()})
    client.execute_command("FT.ALIASADD", "alias", "nums")


@pytest.mark.server("redis-search")
def test_a_user_of_redis_who_may_only_read_is_enough(redis: Address) -> None:
    from vectrial.stores.redis.server import connect

    privileges = (
        "+@read",
        "+@connection",
        "+info",
        "+ft.search",
        "+ft.aggregate",
        "+ft.cursor",
        "+ft.info",
    )
    assert " ".join(privileges) in (DOCS / "existing.md").read_text()
    with closing(connect(redis, 10.0)) as client:
        fill_redis(client, ("PREFIX", 1, "n:"), "n:")
        client.execute_command("ACL", "SETUSER", "reader", "on", ">secret", "~*", *privileges)
        reader = replace(redis, secrets={"user": "reader", "password": "secret"})
        _, found, dataset = measured("redis-search", reader, Existing("alias"), columns=("page",))
        client.execute_command("ACL", "DELUSER", "reader")
    assert (found.rows, dataset.rows) == (500, 500)


# -- Elasticsearch and OpenSearch ------------------------------------------------------------------

DOCUMENTS = 400


def documents() -> Iterator[dict[str, Any]]:
    """Documents as applications make them; every tenth has no vector yet."""
    for at in range(DOCUMENTS):
        meta: dict[str, Any] = {"price": at % 40 / 8, "title": f"title {at % 7}"}
        if at % 10:
            meta["embedding"] = VECTORS[at].tolist()
        yield {"meta": meta, "tags": ["a", "b"] if at % 3 else ["a"]}


def fields_with(vector: dict[str, Any]) -> dict[str, Any]:
    """A mapping with the vectors, and what filters ask, in an object."""
    title = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
    meta = {"embedding": vector, "price": {"type": "double"}, "title": title}
    return {"meta": {"properties": meta}, "tags": {"type": "keyword"}}


@pytest.mark.server("elasticsearch")
def test_documents_of_elasticsearch(elasticsearch: Address) -> None:
    """Objects, other forms of a field, an alias with a filter, and the index of the server's own
    choice."""
    from elasticsearch import Elasticsearch

    client = Elasticsearch(elasticsearch.url("http"), request_timeout=60)
    vector = {"type": "dense_vector", "dims": DIM, "similarity": "cosine"}
    client.indices.create(index="books", mappings={"properties": fields_with(vector)})
    lines: list[Any] = []
    for at, document in enumerate(documents()):
        lines += [{"index": {"_id": f"book {at}"}}, document]
    client.bulk(index="books", operations=lines, refresh=True)
    cheap = {"range": {"meta.price": {"lt": 4}}}
    client.indices.put_alias(index="books", name="cheap", filter=cheap)
    columns = ("meta.price", "meta.title.keyword")
    _, found, dataset = measured("elasticsearch", elasticsearch, Existing("cheap"), columns=columns)
    rows = sum(1 for at in range(DOCUMENTS) if at % 10 and at % 40 / 8 < 4)
    assert (found.vector, found.rows, dataset.rows) == ("meta.embedding", rows, rows)
    assert found.index == "int8_hnsw"
    with pytest.raises(UserError, match="several values"):
        measured("elasticsearch", elasticsearch, Existing("books"), columns=("tags",))
    passages = {"type": "nested", "properties": {"vector": vector}}
    client.indices.create(index="parts", mappings={"properties": {"passages": passages}})
    refused("elasticsearch", elasticsearch, Existing("parts"), r"nested documents \(passages.vec")
    nothing = {"embedding": {"type": "dense_vector"}}
    client.indices.create(index="empty", mappings={"properties": nothing})
    refused("elasticsearch", elasticsearch, Existing("empty"), "held no vector")
    whole = {"embedding": {**vector, "element_type": "byte"}}
    client.indices.create(index="bytes", mappings={"properties": whole})
    refused("elasticsearch", elasticsearch, Existing("bytes"), "of the type byte")


@pytest.mark.server("opensearch")
@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_documents_of_opensearch(kind: str, opensearch: Address) -> None:
    """The script of a search without a graph is given no document that has no vector."""
    from opensearchpy import OpenSearch

    client = OpenSearch([{"host": opensearch.host, "port": opensearch.ports["http"]}], timeout=60)
    vector: dict[str, Any] = {"type": "knn_vector", "dimension": DIM}
    if kind == "hnsw":
        vector |= {
            "space_type": "cosinesimil",
            "method": {"name": "hnsw", "engine": "lucene", "parameters": {"m": 8}},
        }
    settings = {"knn": True, "knn.derived_source.enabled": False} if kind == "hnsw" else {}
    body = {"settings": {"index": settings}, "mappings": {"properties": fields_with(vector)}}
    client.indices.create(index=kind, body=body)
    lines: list[Any] = []
    for at, document in enumerate(documents()):
        lines += [{"index": {"_id": str(at)}}, document]
    client.bulk(index=kind, body=lines, refresh=True)
    columns = ("meta.price", "meta.title.keyword")
    _, found, dataset = measured("opensearch", opensearch, Existing(kind), Metric.COSINE, columns)
    rows = DOCUMENTS - DOCUMENTS // 10
    assert (found.index, found.rows, dataset.rows) == (kind, rows, rows)


# -- Milvus and Weaviate ---------------------------------------------------------------------------


@pytest.mark.server("milvus")
def test_partitions_and_dynamic_fields_of_milvus(milvus: Address) -> None:
    from pymilvus import DataType, MilvusClient

    client = MilvusClient(f"http://{milvus.host}:{milvus.ports['grpc']}")
    schema = client.create_schema(auto_id=True, enable_dynamic_field=True)
    schema.add_field("pk", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=DIM)
    schema.add_field("price", DataType.DOUBLE)
    index = client.prepare_index_params()
    index.add_index("vector", index_type="FLAT", metric_type="L2")
    client.create_collection("books", schema=schema, index_params=index, consistency_level="Strong")
    for number in range(2):
        client.create_partition("books", f"p{number}")
        rows = [
            {"vector": VECTORS[at], "price": at % 40 / 8, "said": "x"}
            for at in range(number, 400, 2)
        ]
        client.insert("books", rows, partition_name=f"p{number}")
    client.load_collection("books")
    client.create_alias("books", "shelf")
    reading, found, dataset = measured("milvus", milvus, Existing("shelf"), columns=("price",))
    assert (found.rows, dataset.rows) == (400, 400)
    with closing(opened(reading, found, dataset)) as store:
        search = store.capabilities.indexes["flat"].search
        assert "consistency" not in store.native_search(K, search()).options
        given = search.model_validate({"consistency": "eventually"})
        assert store.native_search(K, given).options["consistency"] == "eventually"


@pytest.mark.server("weaviate")
def test_objects_without_a_vector_and_tenants_of_weaviate(weaviate: Address) -> None:
    from weaviate.classes.config import Configure, Property
    from weaviate.classes.config import DataType as Kind
    from weaviate.classes.data import DataObject

    store = registry.load("weaviate")(Path(), weaviate)
    with closing(store):
        client = store._client
        plain = Configure.VectorIndex.flat(quantizer=Configure.VectorIndex.Quantizer.none())
        books = client.collections.create(
            "Books",
            properties=[Property(name="price", data_type=Kind.NUMBER)],
            vector_config=[
                Configure.Vectors.self_provided(name=name, vector_index_config=plain)
                for name in ("title", "text")
            ],
            inverted_index_config=Configure.inverted_index(index_null_state=True),
        )
        objects = [
            DataObject(
                vector={"title": [1.0, 2.0]} | ({"text": VECTORS[at].tolist()} if at % 10 else {}),
                properties={"price": at % 40 / 8},
            )
            for at in range(400)
        ]
        assert not books.data.insert_many(objects).errors
        _, found, dataset = measured(
            "weaviate", weaviate, Existing("Books", vector="text"), columns=("price",)
        )
        assert (found.dim, dataset.rows) == (DIM, 360)
        refused("weaviate", weaviate, Existing("Books"), "has the vectors")
        client.collections.create(
            "Shops", multi_tenancy_config=Configure.multi_tenancy(enabled=True)
        )
        refused("weaviate", weaviate, Existing("Shops"), "tenants")
