# /// script
# requires-python = "==3.11.*"
# dependencies = ["langchain-community==0.4.2", "opensearch-py==3.2.0"]
# ///
"""Texts in LangChain's OpenSearchVectorSearch. Its default engine is faiss, which the server of the
tests has no library for, so this one is lucene."""

from common import K, finish, given, row_of
from langchain_community.vectorstores import OpenSearchVectorSearch
from lookup import Lookup

rows = given()
store = OpenSearchVectorSearch(
    f"http://{rows.host}:{rows.ports['http']}", "langchain", Lookup(rows), engine="lucene"
)
store.add_texts(rows.texts, rows.metadatas, bulk_size=len(rows.texts), engine="lucene")
store.client.indices.refresh(index="langchain")
answers = [
    [row_of(found.page_content) for found in store.similarity_search(text, k=K)]
    for text in rows.questions
]
finish("langchain-community", "langchain", answers)
