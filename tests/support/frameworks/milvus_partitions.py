# /// script
# requires-python = "==3.11.*"
# dependencies = ["numpy==2.4.6", "pymilvus==3.0.2"]
# ///
"""A collection by Milvus's client with two partitions and a graph of few links. The second argument
names the partitions that are loaded, with commas between; "all" loads the collection."""

import sys

from common import K, finish, given
from pymilvus import DataType, MilvusClient

rows = given()
loaded = sys.argv[2]
name = f"books_{loaded.replace(',', '_')}"
client = MilvusClient(f"http://{rows.host}:{rows.ports['grpc']}")
schema = client.create_schema(auto_id=True, enable_dynamic_field=True)
schema.add_field("pk", DataType.INT64, is_primary=True)
schema.add_field("text_vector", DataType.FLOAT_VECTOR, dim=rows.dim)
schema.add_field("n", DataType.INT64)
client.create_collection(name, schema=schema)
for number in range(2):
    client.create_partition(name, f"p{number}")
    client.insert(
        name,
        [
            {"text_vector": rows.vector(text), "n": at % 7, "at": at}
            for at, text in enumerate(rows.texts)
            if at % 2 == number
        ],
        partition_name=f"p{number}",
    )
client.flush(name)
index = client.prepare_index_params()
few = {"M": 4, "efConstruction": 8}
index.add_index("text_vector", index_type="HNSW", metric_type="L2", params=few)
client.create_index(name, index)
if loaded == "all":
    client.load_collection(name)
else:
    client.load_partitions(name, loaded.split(","))
client.refresh_load(name)
answers = []
for text in rows.questions:
    (found,) = client.search(
        name,
        [rows.vector(text)],
        limit=K,
        output_fields=["at"],
        search_params={"metric_type": "L2"},
    )
    answers.append([one["entity"]["at"] for one in found])
finish("pymilvus", name, answers)
