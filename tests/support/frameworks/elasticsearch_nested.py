# /// script
# requires-python = "==3.11.*"
# dependencies = ["numpy==2.4.6", "elasticsearch==8.19.3"]
# ///
"""Documents by Elasticsearch's client whose chunks, five each, are nested with a vector of their
own."""

from common import K, finish, given
from elasticsearch import Elasticsearch
from elasticsearch.helpers import bulk

CHUNKS = 5

rows = given()
client = Elasticsearch(f"http://{rows.host}:{rows.ports['http']}")
vector = {"type": "dense_vector", "dims": rows.dim, "similarity": "cosine"}
chunks = {"type": "nested", "properties": {"vector": vector}}
client.indices.create(index="chunks", mappings={"properties": {"chunks": chunks}})
documents = [rows.texts[at : at + CHUNKS] for at in range(0, len(rows.texts), CHUNKS)]
bulk(
    client,
    (
        {
            "_index": "chunks",
            "_id": str(at),
            "chunks": [{"text": text, "vector": rows.vector(text)} for text in texts],
        }
        for at, texts in enumerate(documents)
    ),
    refresh=True,
)
answers = []
for text in rows.questions:
    knn = {"field": "chunks.vector", "query_vector": rows.vector(text), "k": K}
    hits = client.search(index="chunks", knn=knn, size=K)["hits"]["hits"]
    answers.append([int(hit["_id"]) for hit in hits])
finish("elasticsearch", "chunks", answers)
