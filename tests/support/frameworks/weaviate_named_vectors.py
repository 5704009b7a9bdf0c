# /// script
# requires-python = "==3.11.*"
# dependencies = ["numpy==2.4.6", "weaviate-client==4.24.1"]
# ///
"""Objects with two named vectors by Weaviate's client, one of which has the client's own name for
a vector that is given none, and a graph of few links, which misses neighbours."""

from client_of_weaviate import connected
from common import K, finish, given
from weaviate.classes.config import Configure
from weaviate.classes.data import DataObject

rows = given()
few = Configure.VectorIndex.hnsw(max_connections=4, ef_construction=8, ef=12)
with connected(rows) as client:
    books = client.collections.create(
        "NamedVectors",
        vector_config=[
            Configure.Vectors.self_provided(name="default", vector_index_config=few),
            Configure.Vectors.self_provided(name="title"),
        ],
    )
    books.data.insert_many(
        [
            DataObject(
                properties={"n": at},
                vector={"default": rows.vector(text), "title": rows.vector(text)[:3]},
            )
            for at, text in enumerate(rows.texts)
        ]
    )
    answers = []
    for text in rows.questions:
        found = books.query.near_vector(rows.vector(text), limit=K, target_vector="default")
        answers.append([int(one.properties["n"]) for one in found.objects])
finish("weaviate-client", "NamedVectors", answers, {"vector": "default"})
