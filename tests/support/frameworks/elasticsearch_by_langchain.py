# /// script
# requires-python = "==3.11.*"
# dependencies = ["langchain-elasticsearch==1.0.0"]
# ///
"""Texts in LangChain's ElasticsearchStore, with its defaults."""

from common import K, finish, given, row_of
from langchain_elasticsearch import ElasticsearchStore
from lookup import Lookup

rows = given()
store = ElasticsearchStore(
    index_name="langchain",
    embedding=Lookup(rows),
    es_url=f"http://{rows.host}:{rows.ports['http']}",
)
store.add_texts(rows.texts, rows.metadatas)
answers = [
    [row_of(found.page_content) for found in store.similarity_search(text, k=K)]
    for text in rows.questions
]
finish("langchain-elasticsearch", "langchain", answers, {"search": {"ef_search": 50}})
