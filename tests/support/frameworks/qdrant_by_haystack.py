# /// script
# requires-python = "==3.11.*"
# dependencies = ["qdrant-haystack==13.1.0", "haystack-ai==3.4.1", "qdrant-client==1.20.0"]
# ///
"""Documents in Haystack's QdrantDocumentStore, with its defaults."""

from common import K, finish, given, row_of
from haystack import Document
from haystack.utils import Secret
from haystack_integrations.components.retrievers.qdrant import QdrantEmbeddingRetriever
from haystack_integrations.document_stores.qdrant import QdrantDocumentStore

rows = given()
key = rows.secrets.get("api_key")
store = QdrantDocumentStore(
    url=f"http://{rows.host}:{rows.ports['http']}",
    api_key=Secret.from_token(key) if key else None,
    index="haystack",
    embedding_dim=rows.dim,
)
store.write_documents(
    [
        Document(content=text, meta=meta, embedding=rows.vector(text))
        for text, meta in zip(rows.texts, rows.metadatas, strict=True)
    ]
)
retriever = QdrantEmbeddingRetriever(document_store=store, top_k=K)
answers = []
for text in rows.questions:
    found = retriever.run(query_embedding=rows.vector(text))["documents"]
    answers.append([row_of(one.content) for one in found])
finish("qdrant-haystack", "haystack", answers)
