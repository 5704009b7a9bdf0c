#!/usr/bin/env bash
# Expected: reading a hundred rows of FLOAT[8000] (3 MB) into an Arrow table takes a few megabytes.
# Happens: to_arrow_table() has batches of 1,000,000 rows, and room for a whole batch is asked for before a
# row is there: 2^20 x 8,000 x 4 bytes = 33 GB, an error on most machines, whatever the number of rows. With
# 3,072 dimensions it is 13 GB. to_arrow_table(10_000) reads the same rows in 0.6 GB.
# Versions: duckdb 1.5.5, pyarrow 26.0.1, Python 3.11. Seen 2026-11-28.
# Source: embeddings of 8,000 dimensions that could be written and not read.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet duckdb==1.5.5 pyarrow==26.0.1
cd "$folder" && cat > probe.py <<'PYTHON'
import duckdb

db = duckdb.connect(config={"memory_limit": "4GB", "temp_directory": ""})
db.execute("CREATE TABLE t (id BIGINT, v FLOAT[8000])")
db.execute("INSERT INTO t SELECT n, list_resize([0.5]::FLOAT[], 8000, 0.5)::FLOAT[8000] FROM range(100) r(n)")
for size in (1_000_000, 10_000):
    try:
        rows = db.sql("SELECT * FROM t")
        table = rows.to_arrow_table() if size == 1_000_000 else rows.to_arrow_table(size)
        print(f"batches of {size:,}: {table.num_rows} rows")
    except duckdb.OutOfMemoryException as error:
        print(f"batches of {size:,}: out of memory, {34_359_738_368 if '34359738368' in str(error) else error} bytes")
PYTHON
venv/bin/pip list 2>/dev/null | grep -E "^(duckdb|pyarrow) "
ulimit -v 16000000 # of a machine of 16 GB: on a larger one the room is there, and is taken
venv/bin/python probe.py | tee seen
diff seen - <<'SEEN'
batches of 1,000,000: out of memory, 34359738368 bytes
batches of 10,000: 100 rows
SEEN
