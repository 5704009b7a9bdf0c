# /// script
# requires-python = "==3.11.*"
# dependencies = ["numpy==2.4.6", "weaviate-client==4.24.1"]
# ///
"""A collection by Weaviate's client that the application knows by an alias."""

from client_of_weaviate import connected
from common import K, finish, given
from weaviate.classes.config import Configure
from weaviate.classes.data import DataObject

rows = given()
with connected(rows) as client:
    made = client.collections.create("Books2026", vector_config=Configure.Vectors.self_provided())
    client.alias.create(alias_name="Books", target_collection="Books2026")
    books = client.collections.get("Books")
    books.data.insert_many(
        [
            DataObject(properties={"n": at}, vector=rows.vector(text))
            for at, text in enumerate(rows.texts)
        ]
    )
    answers = []
    for text in rows.questions:
        found = books.query.near_vector(rows.vector(text), limit=K)
        answers.append([int(one.properties["n"]) for one in found.objects])
finish("weaviate-client", "Books", answers)
