# /// script
# requires-python = "==3.11.*"
# dependencies = ["numpy==2.4.6", "pymilvus==3.0.2"]
# ///
"""A collection by Milvus's client with two partitions and an index of lists. The second argument
names the partitions that are loaded, with commas between; "all" loads the collection. The others
are the condition of the application's searches, if they have one."""

import sys

from common import K, finish, given
from pymilvus import DataType, MilvusClient

rows = given()
loaded, condition = sys.argv[2], " ".join(sys.argv[3:])
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
lists = {"nlist": 64}
index.add_index("text_vector", index_type="IVF_FLAT", metric_type="L2", params=lists)
client.create_index(name, index)  # and waits until it is there
if loaded == "all":
    client.load_collection(name)
else:
    client.load_partitions(name, loaded.split(","))
answers = []
for text in rows.questions:
    (found,) = client.search(
        name,
        [rows.vector(text)],
        filter=condition,
        limit=K,
        output_fields=["at"],
    )
    answers.append([one["entity"]["at"] for one in found])
finish("pymilvus", name, answers, {"where": condition})
