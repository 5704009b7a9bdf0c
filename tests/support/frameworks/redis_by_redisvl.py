# /// script
# requires-python = "==3.11.*"
# dependencies = ["redisvl==0.28.0", "numpy"]
# ///
"""An index of RedisVL over hashes, or over JSON documents if the argument "json" is given. With
"filter", its searches have a filter of RedisVL; with "two", there is a second field of vectors."""

import sys

import numpy as np
from common import K, finish, given
from redis import Redis
from redisvl.index import SearchIndex
from redisvl.query import VectorQuery
from redisvl.query.filter import Num

GIVEN = given()
STORAGE = "json" if "json" in sys.argv else "hash"


def field(name, dims):
    attrs = {
        "dims": dims,
        "algorithm": "hnsw",
        "distance_metric": "cosine",
        "datatype": "float32",
        "m": 4,
        "ef_construction": 16,
    }
    return {"name": name, "type": "vector", "attrs": attrs}


fields = [
    {"name": "text", "type": "text"},
    {"name": "n", "type": "numeric"},
    field("embedding", GIVEN.dim),
]
if "two" in sys.argv:
    fields.append(field("title", 3))
client = Redis(host=GIVEN.host, port=GIVEN.ports["redis"], password=GIVEN.secrets.get("password"))
about = {"name": "books", "prefix": "book", "storage_type": STORAGE}
index = SearchIndex.from_dict({"index": about, "fields": fields}, redis_client=client)
index.create()
vectors = GIVEN.rows.tolist() if STORAGE == "json" else [row.tobytes() for row in GIVEN.rows]
records = [
    {"text": text, "n": meta["n"], "embedding": vector}
    for text, meta, vector in zip(GIVEN.texts, GIVEN.metadatas, vectors, strict=True)
]
if "two" in sys.argv:
    for record in records:
        record["title"] = np.ones(3, np.float32).tobytes()
index.load(records)
where = (Num("n") > 2) if "filter" in sys.argv else None
answers = []
for vector in GIVEN.queries:
    query = VectorQuery(
        vector=vector.tolist(),
        vector_field_name="embedding",
        return_fields=["text"],
        num_results=K,
        filter_expression=where,
    )
    answers.append([int(found["text"].removeprefix("row ")) for found in index.query(query)])
options = {"where": str(where)} if where else {}
finish(
    "redisvl", "books", answers, options | ({"vector": "embedding"} if "two" in sys.argv else {})
)
