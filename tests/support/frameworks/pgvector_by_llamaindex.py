# /// script
# requires-python = "==3.11.*"
# dependencies = ["llama-index-vector-stores-postgres==0.9.0", "numpy"]
# ///
"""A table of LlamaIndex's `PGVectorStore` with a graph, which sets `hnsw.ef_search` in its own
sessions."""

from common import K, finish, given, row_of
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import VectorStoreQuery
from llama_index.vector_stores.postgres import PGVectorStore

GIVEN = given()
S = GIVEN.secrets
EF = 15
store = PGVectorStore.from_params(
    database=S.get("database", "postgres"),
    host=GIVEN.host,
    password=S["password"],
    port=GIVEN.ports["postgres"],
    user=S.get("user", "postgres"),
    table_name="books",
    embed_dim=GIVEN.dim,
    hnsw_kwargs={
        "hnsw_m": 4,
        "hnsw_ef_construction": 16,
        "hnsw_ef_search": EF,
        "hnsw_dist_method": "vector_cosine_ops",
    },
)
store.add(
    [
        TextNode(text=text, metadata=metadata, embedding=GIVEN.vector(text))
        for text, metadata in zip(GIVEN.texts, GIVEN.metadatas, strict=True)
    ]
)
answers = []
for question in GIVEN.questions:
    query = VectorStoreQuery(query_embedding=GIVEN.vector(question), similarity_top_k=K)
    answers.append([row_of(node.get_content()) for node in store.query(query).nodes])
finish("llama-index-vector-stores-postgres", "data_books", answers, {"search": {"ef_search": EF}})
