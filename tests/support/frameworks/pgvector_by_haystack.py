# /// script
# requires-python = "==3.11.*"
# dependencies = ["pgvector-haystack==8.1.2", "numpy"]
# ///
"""A table of Haystack's `PgvectorDocumentStore`, with a graph."""

from common import K, finish, given, row_of
from haystack import Document
from haystack.utils import Secret
from haystack_integrations.components.retrievers.pgvector import PgvectorEmbeddingRetriever
from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore

GIVEN = given()
S = GIVEN.secrets
URL = (
    f"postgresql://{S.get('user', 'postgres')}:{S['password']}@{GIVEN.host}:"
    f"{GIVEN.ports['postgres']}/{S.get('database', 'postgres')}"
)
EF = 15
store = PgvectorDocumentStore(
    connection_string=Secret.from_token(URL),
    embedding_dimension=GIVEN.dim,
    vector_function="cosine_similarity",
    search_strategy="hnsw",
    hnsw_index_creation_kwargs={"m": 4, "ef_construction": 16},
    hnsw_ef_search=EF,
)
store.write_documents(
    [
        Document(content=text, meta=meta, embedding=GIVEN.vector(text))
        for text, meta in zip(GIVEN.texts, GIVEN.metadatas, strict=True)
    ]
)
retriever = PgvectorEmbeddingRetriever(document_store=store, top_k=K)
answers = []
for question in GIVEN.questions:
    found = retriever.run(query_embedding=GIVEN.vector(question))["documents"]
    answers.append([row_of(document.content) for document in found])
finish("pgvector-haystack", "haystack_documents", answers, {"search": {"ef_search": EF}})
