# /// script
# requires-python = "==3.11.*"
# dependencies = [
#     "llama-index-vector-stores-qdrant==0.10.4",
#     "llama-index-core==0.14.25",
#     "qdrant-client==1.20.0",
# ]
# ///
"""Nodes in LlamaIndex's QdrantVectorStore, with its defaults."""

from common import K, finish, given, row_of
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import VectorStoreQuery
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import QdrantClient

rows = given()
client = QdrantClient(
    url=f"http://{rows.host}:{rows.ports['http']}", api_key=rows.secrets.get("api_key")
)
store = QdrantVectorStore("llamaindex", client=client)
store.add(
    [
        TextNode(text=text, metadata=meta, embedding=rows.vector(text))
        for text, meta in zip(rows.texts, rows.metadatas, strict=True)
    ]
)
answers = []
for text in rows.questions:
    query = VectorStoreQuery(query_embedding=rows.vector(text), similarity_top_k=K)
    answers.append([row_of(node.get_content()) for node in store.query(query).nodes])
finish("llama-index-vector-stores-qdrant", "llamaindex", answers)
