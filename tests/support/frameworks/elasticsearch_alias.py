# /// script
# requires-python = "==3.11.*"
# dependencies = ["numpy==2.4.6", "elasticsearch==8.19.3"]
# ///
"""Two indexes by Elasticsearch's client, which the application knows by aliases: one for the first,
one for the rows of it that are for sale, and one for both. The second argument names the one that
it searches."""

import sys

from common import K, finish, given
from elasticsearch import Elasticsearch
from elasticsearch.helpers import bulk

rows = given()
alias = sys.argv[2]
client = Elasticsearch(f"http://{rows.host}:{rows.ports['http']}")
few = {"type": "hnsw", "m": 4, "ef_construction": 8}
vector = {"type": "dense_vector", "dims": rows.dim, "similarity": "l2_norm", "index_options": few}
for number in (1, 2):
    if not client.indices.exists(index=f"books-{number}"):
        client.indices.create(
            index=f"books-{number}",
            mappings={"properties": {"embedding": vector, "n": {"type": "long"}}},
        )
        bulk(
            client,
            (
                {"_index": f"books-{number}", "embedding": rows.vector(text), "n": at % 7, "at": at}
                for at, text in enumerate(rows.texts)
            ),
            refresh=True,
        )
        client.indices.put_alias(index=f"books-{number}", name="all-books")
client.indices.put_alias(index="books-1", name="books")
client.indices.put_alias(index="books-1", name="sold", filter={"range": {"n": {"lt": 3}}})
answers = []
for text in rows.questions:
    knn = {"field": "embedding", "query_vector": rows.vector(text), "k": K}
    hits = client.search(index=alias, knn=knn, size=K)["hits"]["hits"]
    answers.append([hit["_source"]["at"] for hit in hits])
finish("elasticsearch", alias, answers)
