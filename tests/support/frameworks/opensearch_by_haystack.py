# /// script
# requires-python = "==3.11.*"
# dependencies = ["opensearch-haystack==9.0.0", "haystack-ai==3.4.1"]
# ///
"""Documents in Haystack's OpenSearchDocumentStore, with the engine lucene in place of the default
one, which the server of the tests has no library for."""

from common import K, finish, given, row_of
from haystack import Document
from haystack_integrations.components.retrievers.opensearch import OpenSearchEmbeddingRetriever
from haystack_integrations.document_stores.opensearch import OpenSearchDocumentStore

rows = given()
store = OpenSearchDocumentStore(
    hosts=f"http://{rows.host}:{rows.ports['http']}",
    index="haystack",
    embedding_dim=rows.dim,
    method={"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"},
)
store.write_documents(
    [
        Document(content=text, meta=meta, embedding=rows.vector(text))
        for text, meta in zip(rows.texts, rows.metadatas, strict=True)
    ]
)
retriever = OpenSearchEmbeddingRetriever(document_store=store, top_k=K)
answers = []
for text in rows.questions:
    found = retriever.run(query_embedding=rows.vector(text))["documents"]
    answers.append([row_of(one.content) for one in found])
finish("opensearch-haystack", "haystack", answers)
