"""Collections as users make them, with names and ids of their own, by each store's official client.

`MAKERS` has a function for every store that declares `capabilities.existing`: it makes the same
rows in a server, and returns how to find them and everything that is there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vectrial.model.existing import Existing
from vectrial.model.store import Address

ROWS, DIM = 1_200, 16
RNG = np.random.default_rng(5)
CENTRES = RNG.normal(size=(12, DIM))
VECTORS = (CENTRES[np.arange(ROWS) % 12] + 0.4 * RNG.normal(size=(ROWS, DIM))).astype(np.float32)
PRICES = [float(i % 40) / 8 for i in range(ROWS)]
#: Ids that are integers, and others; both in the order of the rows.
NUMBERS = [7 + 3 * i for i in range(ROWS)]
UUIDS = [str(uuid.uuid5(uuid.NAMESPACE_URL, f"row {i}")) for i in range(ROWS)]


@dataclass(frozen=True)
class Foreign:
    """A collection. keys: of its rows. text: they are no integers. column: of prices, for filters;
    empty: none. index, params: as a suite names them. dump: everything that the server has."""

    existing: Existing
    keys: list[Any]
    text: bool
    column: str
    index: str
    params: Mapping[str, Any]
    dump: Callable[[], Any]


def pgvector(address: Address, *, text: bool) -> Foreign:
    from pgvector.psycopg import register_vector

    from vectrial.stores.postgres.server import connect

    keys, name = (UUIDS, "by text") if text else (NUMBERS, "by number")
    with connect(address) as db:
        db.execute("CREATE EXTENSION IF NOT EXISTS vector")
        db.execute("CREATE SCHEMA IF NOT EXISTS shop")
        register_vector(db)
        kind = "uuid" if text else "integer"
        db.execute(
            f'CREATE TABLE shop."{name}" (sku {kind} PRIMARY KEY, "Embedding" vector({DIM}),'
            " price float8, note bytea)"
        )
        with db.cursor() as cursor:
            rows = zip(keys, VECTORS, PRICES, strict=True)
            cursor.executemany(f'INSERT INTO shop."{name}" VALUES (%s, %s, %s)', list(rows))
            extra = 10**6 if not text else str(uuid.uuid4())
            cursor.execute(f'INSERT INTO shop."{name}" (sku) VALUES (%s)', (extra,))
        db.execute(
            f'CREATE INDEX ON shop."{name}" USING hnsw ("Embedding" vector_cosine_ops)'
            " WITH (m = 10, ef_construction = 60)"
        )

    def dump() -> Any:
        with connect(address) as db:
            tables = db.execute("SELECT oid, relname, reloptions FROM pg_class ORDER BY 1")
            rows = db.execute(f'SELECT xmin::text, ctid::text, * FROM shop."{name}" ORDER BY sku')
            return tables.fetchall(), rows.fetchall()

    params = {"m": 10, "ef_construction": 60}
    return Foreign(Existing(f"shop.{name}"), keys, text, "price", "hnsw", params, dump)


def elasticsearch(address: Address, *, text: bool) -> Foreign:
    from elasticsearch import Elasticsearch

    keys: list[Any] = [f"sku-{key}" for key in NUMBERS] if text else NUMBERS
    name = f"products-{text}".lower()
    url = f"http://{address.host}:{address.ports['http']}"
    client = Elasticsearch(url, request_timeout=60)
    options = {"type": "hnsw", "m": 10, "ef_construction": 60}
    vector = {"type": "dense_vector", "dims": DIM, "similarity": "cosine", "index_options": options}
    fields = {"embedding": vector, "price": {"type": "double"}, "title": {"type": "text"}}
    client.indices.create(index=name, mappings={"properties": fields})
    lines: list[Any] = []
    for key, row, price in zip(keys, VECTORS, PRICES, strict=True):
        lines.append({"index": {"_id": str(key)}})
        lines.append({"embedding": row.tolist(), "price": price, "title": "a title"})
    client.bulk(index=name, operations=lines, refresh=True)
    client.index(index=name, id="nothing", document={"title": "no vector"}, refresh=True)

    def dump() -> Any:
        found = client.search(index=name, size=10_000, sort=["_doc"], seq_no_primary_term=True)
        hits = found["hits"]["hits"]
        rows = sorted((hit["_id"], hit["_seq_no"], hit["_source"]["title"]) for hit in hits)
        settings = client.indices.get_settings(index=name).body
        segments = client.indices.segments(index=name)["indices"][name]["shards"]
        graphs = sorted(segments["0"][0]["segments"])
        return sorted(client.indices.get(index="*")), rows, settings, graphs

    params = {"m": 10, "ef_construction": 60}
    return Foreign(Existing(name), keys, text, "price", "hnsw", params, dump)


def opensearch(address: Address, *, text: bool) -> Foreign:
    from opensearchpy import OpenSearch

    keys: list[Any] = [f"sku-{key}" for key in NUMBERS] if text else NUMBERS
    name = f"products-{text}".lower()
    client = OpenSearch([{"host": address.host, "port": address.ports["http"]}], timeout=60)
    graph = {"m": 10, "ef_construction": 60}
    method = {"name": "hnsw", "engine": "lucene", "parameters": graph}
    vector = {"type": "knn_vector", "dimension": DIM, "space_type": "cosinesimil", "method": method}
    fields = {"embedding": vector, "price": {"type": "double"}, "title": {"type": "text"}}
    settings = {"knn": True, "knn.derived_source.enabled": False}
    body = {"settings": {"index": settings}, "mappings": {"properties": fields}}
    client.indices.create(index=name, body=body)
    lines: list[Any] = []
    for key, row, price in zip(keys, VECTORS, PRICES, strict=True):
        lines.append({"index": {"_id": str(key)}})
        lines.append({"embedding": row.tolist(), "price": price, "title": "a title"})
    client.bulk(index=name, body=lines, refresh=True)

    def dump() -> Any:
        body = {"size": 10_000, "seq_no_primary_term": True, "_source": ["title", "price"]}
        hits = client.search(index=name, body=body)["hits"]["hits"]
        rows = sorted((hit["_id"], hit["_seq_no"], hit["_source"]["price"]) for hit in hits)
        settings = client.indices.get_settings(index=name)
        segments = client.indices.segments(index=name)["indices"][name]["shards"]
        graphs = sorted(segments["0"][0]["segments"])
        return sorted(client.indices.get(index="*")), rows, settings, graphs

    return Foreign(Existing(name), keys, text, "price", "hnsw", graph, dump)


def redis_search(address: Address, *, text: bool) -> Foreign:
    from vectrial.stores.redis.server import connect

    keys, name = (UUIDS, "by-text") if text else (NUMBERS, "by-number")
    client = connect(address, 30.0)
    graph = ("TYPE", "FLOAT32", "DIM", DIM, "DISTANCE_METRIC", "COSINE")
    build = ("M", 10, "EF_CONSTRUCTION", 60)
    client.execute_command(
        *("FT.CREATE", name, "ON", "HASH", "PREFIX", 1, f"{name}/", "SCHEMA"),
        *("emb", "AS", "embedding", "VECTOR", "HNSW", len(graph) + len(build), *graph, *build),
        *("price", "NUMERIC", "INDEXMISSING", "stock", "NUMERIC"),
    )
    with client.pipeline(transaction=False) as pipe:
        for key, row, price in zip(keys, VECTORS, PRICES, strict=True):
            fields = {"emb": row.tobytes(), "price": repr(price), "title": "x"}
            pipe.hset(f"{name}/{key}", mapping=fields)
        pipe.execute()

    def dump() -> Any:
        rows = {key: client.hgetall(key) for key in sorted(client.scan_iter(match=f"{name}/*"))}
        settings = client.config_get("*"), sorted(client.execute_command("FT.CONFIG", "GET", "*"))
        lists = sorted(client.execute_command("FT._LIST")), client.dbsize()
        changes = client.info("persistence")["rdb_changes_since_last_save"]
        return rows, settings, lists, changes

    params = {"m": 10, "ef_construction": 60}
    return Foreign(Existing(name), keys, text, "price", "hnsw", params, dump)


def milvus(address: Address, *, text: bool) -> Foreign:
    from pymilvus import DataType, MilvusClient

    keys, name = (UUIDS, "by_text") if text else (NUMBERS, "by_number")
    client = MilvusClient(f"http://{address.host}:{address.ports['grpc']}")
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    if text:
        schema.add_field("sku", DataType.VARCHAR, is_primary=True, max_length=64)
    else:
        schema.add_field("sku", DataType.INT64, is_primary=True)
    schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=DIM)
    schema.add_field("price", DataType.DOUBLE)
    index = client.prepare_index_params()
    # Not a graph, whose answers under a filter may be short there, and differ from time to time.
    build = {"nlist": 8}
    index.add_index("embedding", index_type="IVF_FLAT", metric_type="COSINE", params=build)
    client.create_collection(name, schema=schema, index_params=index)
    rows = zip(keys, VECTORS, PRICES, strict=True)
    client.insert(
        name, [{"sku": key, "embedding": row, "price": price} for key, row, price in rows]
    )
    client.flush(name)
    client.load_collection(name)

    def dump() -> Any:
        count = client.query(
            name, filter="", output_fields=["count(*)"], consistency_level="Strong"
        )
        stored = sorted(one.segment_id for one in client.list_persistent_segments(name))
        about = client.describe_collection(name), client.get_load_state(name)
        return sorted(client.list_collections()), dict(count[0]), stored, str(about)

    return Foreign(Existing(name), keys, text, "price", "ivf_flat", {"nlist": 8}, dump)


def weaviate(address: Address, *, text: bool) -> Foreign:
    import weaviate as library
    from weaviate.classes.config import Configure, DataType, Property, VectorDistances
    from weaviate.classes.data import DataObject
    from weaviate.classes.init import Auth

    client = library.connect_to_custom(
        http_host=address.host,
        http_port=address.ports["http"],
        http_secure=False,
        grpc_host=address.host,
        grpc_port=address.ports["grpc"],
        grpc_secure=False,
        auth_credentials=Auth.api_key(address.secrets["api_key"]),
        skip_init_checks=True,
    )
    name = "Products"
    hnsw = Configure.VectorIndex.hnsw(
        distance_metric=VectorDistances.COSINE, max_connections=10, ef_construction=60, ef=90,
        quantizer=Configure.VectorIndex.Quantizer.none(),
    )  # fmt: skip
    products = client.collections.create(
        name,
        properties=[
            Property(name="price", data_type=DataType.NUMBER),
            Property(name="title", data_type=DataType.TEXT),
        ],
        vector_config=Configure.Vectors.self_provided(name="embedding", vector_index_config=hnsw),
        inverted_index_config=Configure.inverted_index(index_null_state=True),
    )
    rows = zip(UUIDS, VECTORS.tolist(), PRICES, strict=True)
    products.data.insert_many(
        [
            DataObject(uuid=key, vector={"embedding": row}, properties={"price": price})
            for key, row, price in rows
        ]
    )

    def dump() -> Any:
        found = [(str(r.uuid), r.properties) for r in products.iterator(include_vector=True)]
        config = products.config.get().to_dict()
        return sorted(client.collections.list_all()), found, config

    params = {"m": 10, "ef_construction": 60}
    return Foreign(Existing(name), UUIDS, True, "price", "hnsw", params, dump)


#: By store, and whether its rows can be known by integers.
MAKERS: Mapping[str, tuple[Callable[..., Foreign], bool]] = {
    "pgvector": (pgvector, True),
    "elasticsearch": (elasticsearch, True),
    "opensearch": (opensearch, True),
    "redis-search": (redis_search, True),
    "milvus": (milvus, True),
    "weaviate": (weaviate, False),
}
