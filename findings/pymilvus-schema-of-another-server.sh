#!/usr/bin/env bash
# Expected: a client of pymilvus packs rows by the schema of the collection that its server has, and asks for
# it when it connects.
# Happens: the process keeps schemas by address and collection, whatever client asked, and closing the client
# forgets none. A server that comes later to the same port, with a collection of the same name that lacks a
# nullable column of the earlier one, gets a row with that column, and refuses it.
# Milvus Lite takes a free port for each file, so that two files of one process meet this by chance.
# Versions: pymilvus 3.0.2, milvus-lite 3.2.2, Python 3.11. Seen 2026-11-29.
# Source: a test of many small files that failed once; pymilvus/client/cache.py.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet milvus-lite==3.2.2 pymilvus==3.0.2
cd "$folder" && cat > probe.py <<'PYTHON'
import logging
import socket
from importlib.metadata import version

from milvus_lite.adapter.grpc.server import start_server_in_thread
from pymilvus import DataType, MilvusClient

logging.disable(logging.CRITICAL)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]


def rows_taken(name, columns):
    server, database, _ = start_server_in_thread(f"{name}.db", port=port)
    client = MilvusClient(f"http://127.0.0.1:{port}")
    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=2)
    for column in columns:
        schema.add_field(column, DataType.INT64, nullable=True)
    client.create_collection("rows", schema=schema)
    try:
        client.insert("rows", [{"id": 1, "vector": [0.0, 1.0]}])
        return "taken"
    except Exception as error:
        return f"refused: {error}"
    finally:
        client.close()
        server.stop(0).wait()
        database.close()


print("pymilvus", version("pymilvus"), "milvus-lite", version("milvus-lite"))
outcomes = [rows_taken("first", ["year"]), rows_taken("second", [])]
print(outcomes)
assert outcomes[0] == "taken", outcomes
assert outcomes[1].startswith("refused"), outcomes
print("the second server gets a row packed by the schema of the first")
PYTHON
"$folder/venv/bin/python" probe.py
