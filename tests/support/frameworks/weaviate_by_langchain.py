# /// script
# requires-python = "==3.11.*"
# dependencies = ["langchain-weaviate==0.0.8", "weaviate-client==4.24.1"]
# ///
"""Texts in LangChain's WeaviateVectorStore, with its defaults. Its search is a hybrid one, of which
`alpha=1` leaves the vectors."""

from client_of_weaviate import connected
from common import K, finish, given, row_of
from langchain_weaviate.vectorstores import WeaviateVectorStore
from lookup import Lookup

rows = given()
with connected(rows) as client:
    store = WeaviateVectorStore.from_texts(
        rows.texts, Lookup(rows), rows.metadatas, client=client, index_name="LangChain"
    )
    answers = [
        [row_of(found.page_content) for found in store.similarity_search(text, k=K, alpha=1)]
        for text in rows.questions
    ]
finish("langchain-weaviate", "LangChain", answers)
