#!/usr/bin/env bash
# Expected: a shard with cosine distance ranks by direction, whatever the length of a vector, since vectors
# are normalised when they are stored.
# Happens: a vector whose squares add up to less than the epsilon of float32 (length 0.000345) is kept as it
# is, as if it were zero: its scores are its own length times the cosine, and rows of any direction come first.
# Versions: qdrant-edge-py 0.9.0, Python 3.11. Seen 2026-11-28.
# Source: scores of embeddings that were scaled down, compared with numpy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet qdrant-edge-py==0.9.0
cd "$folder" && cat > probe.py <<'PYTHON'
from pathlib import Path

import qdrant_edge as edge

for length in (4e-4, 3e-4):
    folder = Path(f"shard-{length}")
    folder.mkdir()
    config = edge.EdgeConfig(vectors=edge.EdgeVectorParams(size=2, distance=edge.Distance.Cosine))
    shard = edge.EdgeShard.create(str(folder), config)
    rows = [edge.Point(1, [length, 0.0], {}), edge.Point(2, [0.6, 0.8], {})]
    shard.update(edge.UpdateOperation.upsert_points(rows))
    query = edge.QueryRequest(limit=2, query=edge.Query.Nearest([1.0, 0.0]))
    found = shard.query(query)
    shard.close()
    print(f"length {length:g}:", ", ".join(f"row {one.id} {one.score:.4f}" for one in found))
PYTHON
venv/bin/pip list 2>/dev/null | grep -E "^qdrant-edge"
venv/bin/python probe.py | tee seen
diff seen - <<'SEEN'
length 0.0004: row 1 1.0000, row 2 0.6000
length 0.0003: row 2 0.6000, row 1 0.0003
SEEN
