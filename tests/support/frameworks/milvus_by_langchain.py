# /// script
# requires-python = "==3.11.*"
# dependencies = ["langchain-milvus==0.4.0", "pymilvus==3.0.2"]
# ///
"""Texts in LangChain's Milvus, their metadata in dynamic fields."""

from common import K, finish, given, row_of
from langchain_milvus import Milvus
from lookup import Lookup
from settled import settle

rows = given()
store = Milvus(
    embedding_function=Lookup(rows),
    collection_name="langchain",
    connection_args={"uri": f"http://{rows.host}:{rows.ports['grpc']}"},
    auto_id=True,
    consistency_level="Strong",
    enable_dynamic_field=True,
)
store.add_texts(rows.texts, rows.metadatas)
settle(store.client, "langchain")
# A graph's answer to a query that was asked before can be another one than the first.
for _ in range(2):
    answers = [
        [row_of(found.page_content) for found in store.similarity_search(text, k=K)]
        for text in rows.questions
    ]
finish("langchain-milvus", "langchain", answers)
