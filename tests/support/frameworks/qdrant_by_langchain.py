# /// script
# requires-python = "==3.11.*"
# dependencies = ["langchain-qdrant==1.1.0", "qdrant-client==1.20.0"]
# ///
"""Texts in LangChain's QdrantVectorStore, with its defaults."""

from common import K, finish, given, row_of
from langchain_qdrant import QdrantVectorStore
from lookup import Lookup

rows = given()
store = QdrantVectorStore.from_texts(
    rows.texts,
    Lookup(rows),
    rows.metadatas,
    url=f"http://{rows.host}:{rows.ports['http']}",
    api_key=rows.secrets.get("api_key"),
    collection_name="langchain",
)
answers = [
    [row_of(found.page_content) for found in store.similarity_search(text, k=K)]
    for text in rows.questions
]
finish("langchain-qdrant", "langchain", answers)
