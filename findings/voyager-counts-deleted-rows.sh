#!/usr/bin/env bash
# Expected: after mark_deleted(5) `len(index)` is one less and `5 in index` is False: the help of both says that they
# speak of vectors that are not deleted.
# Happens: nothing changes in either, nor in index.ids; get_vector(5) raises RuntimeError, where the index of a row that
# was never there is a KeyError by the documentation. Searches do leave the row out.
# Versions: voyager 2.2.3, numpy 2.2.6, Python 3.11, x86-64. Seen 2026-11-29.
# Source: a driver for voyager whose count of rows was wrong after deletes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet voyager==2.2.3 numpy==2.2.6
venv/bin/pip list 2>/dev/null | grep -E "^(voyager|numpy)" >&2
venv/bin/python - <<'PYTHON' | tee seen
import numpy as np
import voyager

rows = np.arange(800, dtype=np.float32).reshape(200, 4)
index = voyager.Index(voyager.Space.Euclidean, 4)
index.add_items(rows)
index.mark_deleted(5)
print("len says non-deleted:", "non-deleted" in (voyager.Index.__len__.__doc__ or ""), len(index))
print("in says non-deleted:", "non-deleted" in (voyager.Index.__contains__.__doc__ or ""), 5 in index)
print("in ids:", 5 in index.ids)
print("found by a search:", 5 in index.query(rows[5], k=10)[0])
try:
    index.get_vector(5)
except Exception as error:
    print("get_vector:", type(error).__name__)
PYTHON
diff seen - <<'SEEN'
len says non-deleted: True 200
in says non-deleted: True True
in ids: True
found by a search: False
get_vector: RuntimeError
SEEN
