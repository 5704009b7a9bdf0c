# /// script
# requires-python = "==3.11.*"
# dependencies = ["llama-index-vector-stores-milvus==1.2.0", "llama-index-core==0.14.25"]
# ///
"""Nodes in LlamaIndex's MilvusVectorStore, with its defaults."""

from common import K, finish, given, row_of
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import VectorStoreQuery
from llama_index.vector_stores.milvus import MilvusVectorStore
from settled import settle

rows = given()
store = MilvusVectorStore(
    uri=f"http://{rows.host}:{rows.ports['grpc']}", collection_name="llamaindex", dim=rows.dim
)
store.add(
    [
        TextNode(text=text, metadata=meta, embedding=rows.vector(text))
        for text, meta in zip(rows.texts, rows.metadatas, strict=True)
    ]
)
settle(store.client, "llamaindex")
answers = []
for text in rows.questions:
    query = VectorStoreQuery(query_embedding=rows.vector(text), similarity_top_k=K)
    answers.append([row_of(node.get_content()) for node in store.query(query).nodes])
finish("llama-index-vector-stores-milvus", "llamaindex", answers)
