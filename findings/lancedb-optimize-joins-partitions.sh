#!/usr/bin/env bash
# Expected: an IVF index made with num_partitions=200 keeps its partitions when optimize() compacts a table
# to which nothing was written since.
# Happens: of 200 partitions of a thousand rows 7 are left, so that a search with nprobes=7 reads every row
# where it read a thirtieth; 20 partitions of 10,000 rows stay as they are.
# Versions: lancedb 0.40.0, pylance 14.0.2, Python 3.11. Seen 2026-11-28.
# Source: recall under different nlist, which did not differ after a compaction.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet lancedb==0.40.0 pylance==14.0.2
cd "$folder" && cat > probe.py <<'PYTHON'
import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import IvfPq

ROWS, DIM = 200_000, 16
vectors = np.random.default_rng(0).normal(size=ROWS * DIM).astype(np.float32)
rows = pa.table({"vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), DIM)})


def partitions(table):
    (index,) = table.to_lance().stats.index_stats("v")["indices"]
    return index["num_partitions"]


for asked in (20, 200):
    table = lancedb.connect(f"of-{asked}").create_table("rows", rows)
    config = IvfPq(distance_type="l2", num_partitions=asked, num_sub_vectors=4)
    table.create_index("vector", config=config, name="v", replace=True)
    built = partitions(table)
    table.optimize()
    left = partitions(table)
    print(f"asked {asked}, built {built}, after optimize fewer than a tenth: {left < asked / 10}")
PYTHON
venv/bin/pip list 2>/dev/null | grep -E "^(lancedb|pylance) "
venv/bin/python probe.py 2> /dev/null | tee seen
diff seen - <<'SEEN'
asked 20, built 20, after optimize fewer than a tenth: False
asked 200, built 200, after optimize fewer than a tenth: True
SEEN
