# /// script
# requires-python = "==3.11.*"
# dependencies = ["langchain-redis==0.2.6", "numpy"]
# ///
"""An index of LangChain's `RedisVectorStore`: a linear scan, as its defaults are, or a graph if the
argument "graph" is given."""

import sys

from common import K, finish, given, row_of
from langchain_redis import RedisConfig, RedisVectorStore
from lookup import Lookup

GIVEN = given()
URL = f"redis://:{GIVEN.secrets.get('password', '')}@{GIVEN.host}:{GIVEN.ports['redis']}"


config = RedisConfig(
    index_name="books",
    redis_url=URL,
    embedding_dimensions=GIVEN.dim,
    metadata_schema=[{"name": "n", "type": "numeric"}],
    **({"indexing_algorithm": "HNSW"} if "graph" in sys.argv else {}),
)
store = RedisVectorStore(Lookup(GIVEN), config=config)
store.add_texts(GIVEN.texts, metadatas=GIVEN.metadatas)
answers = [
    [row_of(found.page_content) for found in store.similarity_search(question, k=K)]
    for question in GIVEN.questions
]
# Every search of it has this condition, which every document meets.
finish("langchain-redis", "books", answers, {"where": '@_index_name:("books")'})
