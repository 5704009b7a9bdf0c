#!/usr/bin/env bash
# Expected: an index that is asked for with params={"M": 64, "efConstruction": 400} through pymilvus, as its
# documentation has it, is another one in Milvus Lite than that of {"M": 2, "efConstruction": 10}.
# Happens: both files have the same size, and describe_index names no parameter: the client puts the
# parameters beside the type, and the library looks for one entry "params" with all of them, so that every
# index has its defaults. A dictionary within a dictionary is heard: params={"params": {"M": 64, ...}}.
# Versions: milvus-lite 3.2.2, pymilvus 3.0.2, Python 3.11. Seen 2026-11-28.
# Source: a sweep of m whose recall did not change; milvus_lite/adapter/grpc/translators/index.py.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet milvus-lite==3.2.2 pymilvus==3.0.2
cd "$folder" && cat > probe.py <<'PYTHON'
import logging
import pathlib
import sys

import numpy as np
from pymilvus import DataType, MilvusClient

logging.disable(logging.CRITICAL)
vectors = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)


def size(name, params):
    path = pathlib.Path(f"{name}.db")
    client = MilvusClient(str(path))
    schema = client.create_schema(auto_id=False)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=16)
    indexes = client.prepare_index_params()
    indexes.add_index("vector", index_type="HNSW", metric_type="L2", params=params)
    client.create_collection("rows", schema=schema, index_params=indexes)
    client.insert("rows", [{"id": at, "vector": row.tolist()} for at, row in enumerate(vectors)])
    client.flush("rows")
    client.load_collection("rows")
    described = client.describe_index("rows", "vector")
    client.close()
    from milvus_lite.server_manager import server_manager_instance
    server_manager_instance.release_server(str(path))
    built = sum(file.stat().st_size for file in path.rglob("*.idx"))
    print(name, "describe_index tells M:", "M" in str(described), file=sys.stderr)
    return built


few, many = {"M": 2, "efConstruction": 10}, {"M": 64, "efConstruction": 400}
print("as documented, the same size:", size("a", few) == size("b", many))
print("one dictionary deeper, the same size:", size("c", {"params": few}) == size("d", {"params": many}))
PYTHON
venv/bin/pip list 2>/dev/null | grep -E "^(milvus-lite|pymilvus) "
venv/bin/python probe.py 2> told | tee seen
grep describe_index told
diff seen - <<'SEEN'
as documented, the same size: True
one dictionary deeper, the same size: False
SEEN
