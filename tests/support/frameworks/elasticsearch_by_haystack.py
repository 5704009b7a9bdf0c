# /// script
# requires-python = "==3.11.*"
# dependencies = ["elasticsearch-haystack==7.1.0", "haystack-ai==3.4.1"]
# ///
"""Documents in Haystack's ElasticsearchDocumentStore, with its defaults."""

from common import K, finish, given, row_of
from haystack import Document
from haystack_integrations.components.retrievers.elasticsearch import (
    ElasticsearchEmbeddingRetriever,
)
from haystack_integrations.document_stores.elasticsearch import ElasticsearchDocumentStore

rows = given()
store = ElasticsearchDocumentStore(
    hosts=f"http://{rows.host}:{rows.ports['http']}", index="haystack"
)
store.write_documents(
    [
        Document(content=text, meta=meta, embedding=rows.vector(text))
        for text, meta in zip(rows.texts, rows.metadatas, strict=True)
    ]
)
retriever = ElasticsearchEmbeddingRetriever(document_store=store, top_k=K)
answers = []
for text in rows.questions:
    found = retriever.run(query_embedding=rows.vector(text))["documents"]
    answers.append([row_of(one.content) for one in found])
finish("elasticsearch-haystack", "haystack", answers, {"search": {"ef_search": 10 * K}})
