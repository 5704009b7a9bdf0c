# /// script
# requires-python = "==3.11.*"
# dependencies = ["langchain-postgres==0.0.19", "numpy", "psycopg[binary]"]
# ///
"""A table of LangChain's `PGVectorStore`, with the index of `apply_vector_index`."""

from common import K, finish, given, row_of
from langchain_postgres import PGEngine, PGVectorStore
from langchain_postgres.v2.indexes import HNSWIndex
from lookup import Lookup

GIVEN = given()
S = GIVEN.secrets
URL = (
    f"postgresql+psycopg://{S.get('user', 'postgres')}:{S['password']}@{GIVEN.host}:"
    f"{GIVEN.ports['postgres']}/{S.get('database', 'postgres')}"
)


engine = PGEngine.from_connection_string(url=URL)
engine.init_vectorstore_table(table_name="vectorstore", vector_size=GIVEN.dim)
store = PGVectorStore.create_sync(
    engine=engine, table_name="vectorstore", embedding_service=Lookup(GIVEN)
)
store.add_texts(GIVEN.texts, metadatas=GIVEN.metadatas)
store.apply_vector_index(HNSWIndex(m=4, ef_construction=16))
answers = [
    [row_of(found.page_content) for found in store.similarity_search(question, k=K)]
    for question in GIVEN.questions
]
finish("langchain-postgres", "vectorstore", answers)
