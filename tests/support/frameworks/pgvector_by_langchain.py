# /// script
# requires-python = "==3.11.*"
# dependencies = ["langchain-postgres==0.0.19", "numpy", "psycopg[binary]"]
# ///
"""Two collections of LangChain's `PGVector` in its one table, the second with a tenth of the rows.

Arguments after the folder: "length" has the column made with its length; "index" makes an index, on
the column or on a cast of it; "second" searches the second collection.
"""

import sys

from common import K, finish, given, row_of
from langchain_postgres import PGVector
from lookup import Lookup
from sqlalchemy import text

GIVEN = given()
S = GIVEN.secrets
URL = (
    f"postgresql+psycopg://{S.get('user', 'postgres')}:{S['password']}@{GIVEN.host}:"
    f"{GIVEN.ports['postgres']}/{S.get('database', 'postgres')}"
)


def made(name, length):
    return PGVector(
        embeddings=Lookup(GIVEN), collection_name=name, connection=URL, embedding_length=length
    )


length = GIVEN.dim if "length" in sys.argv else None
books = made("books", length)
books.add_texts(GIVEN.texts, metadatas=GIVEN.metadatas, ids=[f"doc-{t}" for t in GIVEN.texts])
notes = made("notes", length)
some = GIVEN.texts[::10]
notes.add_texts(some, ids=[f"note-{text}" for text in some])
searched = notes if "second" in sys.argv else books
with books._engine.begin() as connection:
    if "index" in sys.argv:
        over = "embedding" if length else f"(embedding::vector({GIVEN.dim}))"
        connection.execute(
            text(
                f"CREATE INDEX ON langchain_pg_embedding USING hnsw ({over} vector_cosine_ops)"
                " WITH (m = 4, ef_construction = 16)"
            )
        )
    connection.execute(text("ANALYZE"))
    own = connection.execute(
        text("SELECT uuid FROM langchain_pg_collection WHERE name = :name"),
        {"name": searched.collection_name},
    ).scalar()
answers = [
    [row_of(found.page_content) for found in searched.similarity_search(question, k=K)]
    for question in GIVEN.questions
]
options = {"where": f"collection_id = '{own}'"}
if not length and "index" in sys.argv:
    options["vector"] = "embedding"  # its searches do not cast, and so read every row
finish("langchain-postgres", "langchain_pg_embedding", answers, options)
