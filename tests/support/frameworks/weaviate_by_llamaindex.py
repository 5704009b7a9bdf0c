# /// script
# requires-python = "==3.11.*"
# dependencies = [
#     "llama-index-vector-stores-weaviate==1.7.1",
#     "llama-index-core==0.14.25",
#     "weaviate-client==4.24.1",
# ]
# ///
"""Nodes in LlamaIndex's WeaviateVectorStore, with its defaults."""

from client_of_weaviate import connected
from common import K, finish, given, row_of
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import VectorStoreQuery
from llama_index.vector_stores.weaviate import WeaviateVectorStore

rows = given()
answers = []
with connected(rows) as client:
    store = WeaviateVectorStore(weaviate_client=client, index_name="LlamaIndex")
    store.add(
        [
            TextNode(text=text, metadata=meta, embedding=rows.vector(text))
            for text, meta in zip(rows.texts, rows.metadatas, strict=True)
        ]
    )
    for text in rows.questions:
        query = VectorStoreQuery(query_embedding=rows.vector(text), similarity_top_k=K)
        answers.append([row_of(node.get_content()) for node in store.query(query).nodes])
finish("llama-index-vector-stores-weaviate", "LlamaIndex", answers)
