# /// script
# requires-python = "==3.11.*"
# dependencies = ["llama-index-vector-stores-redis==0.9.0", "numpy"]
# ///
"""An index of LlamaIndex's `RedisVectorStore`, with a graph of few links."""

from common import K, finish, given, row_of
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import VectorStoreQuery
from llama_index.vector_stores.redis import RedisVectorStore
from redis import Redis
from redisvl.schema import IndexSchema

GIVEN = given()
client = Redis(host=GIVEN.host, port=GIVEN.ports["redis"], password=GIVEN.secrets.get("password"))
attrs = {
    "dims": GIVEN.dim,
    "algorithm": "hnsw",
    "distance_metric": "cosine",
    "m": 4,
    "ef_construction": 16,
}
schema = IndexSchema.from_dict(
    {
        "index": {"name": "books", "prefix": "book"},
        "fields": [
            {"name": "id", "type": "tag"},
            {"name": "doc_id", "type": "tag"},
            {"name": "text", "type": "text"},
            {"name": "vector", "type": "vector", "attrs": attrs},
        ],
    }
)
store = RedisVectorStore(schema=schema, redis_client=client)
store.add(
    [
        TextNode(
            text=text,
            metadata=meta,
            embedding=GIVEN.vector(text),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id="book")},
        )
        for text, meta in zip(GIVEN.texts, GIVEN.metadatas, strict=True)
    ]
)
answers = []
for question in GIVEN.questions:
    query = VectorStoreQuery(query_embedding=GIVEN.vector(question), similarity_top_k=K)
    answers.append([row_of(node.get_content()) for node in store.query(query).nodes])
finish("llama-index-vector-stores-redis", "books", answers)
