#!/usr/bin/env bash
# Expected: a program that uses PyArrow and DuckDB, and never asks for pandas, does not load it.
# Happens: where pandas is installed, PyArrow imports it when it is first given a Python value or an
# array (pa.array, pa.scalar), and DuckDB when it is first given a parameter. Resident memory grows
# by more than 20 MiB, which a benchmark counts as memory of the library that it measures. Arrow
# looks for pandas once: a program that has it look while the import is refused never loads it.
# Versions: pyarrow 26.0.1, duckdb 1.5.5, pandas 3.1.1, numpy 2.4.6, Python 3.11. Seen 2026-11-27.
# Source: seen in sys.modules of a measuring process.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pyarrow==26.0.1 duckdb==1.5.5 pandas==3.1.1 numpy==2.4.6
cd "$folder" && cat > probe.py <<'PYTHON'
import sys

import numpy as np


def resident_mib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)


match sys.argv[1]:
    case "arrow array" | "arrow array, refused once":
        import pyarrow as pa

        if sys.argv[1].endswith("once"):
            sys.meta_path.insert(0, Refuse())
            pa.array([0])
            sys.meta_path.pop(0)
        before = resident_mib()
        pa.array(np.arange(3))
    case "arrow buffers":
        import pyarrow as pa

        before = resident_mib()
        pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(np.arange(3))])
    case "duckdb parameter" | "duckdb literal":
        import duckdb

        connection, before = duckdb.connect(), resident_mib()
        if sys.argv[1].endswith("literal"):
            connection.execute("select 1").fetchall()
        else:
            connection.execute("select ?", [1]).fetchall()
grown = resident_mib() - before
print(f"{sys.argv[1]}: {'loads pandas' if 'pandas' in sys.modules else 'no pandas'}, {grown:.0f} MiB more")
assert "pandas" not in sys.modules or grown > 20
PYTHON
venv/bin/pip list 2>/dev/null | grep -E "^(duckdb|numpy|pandas|pyarrow) "
for what in "arrow array" "arrow buffers" "arrow array, refused once" "duckdb parameter" "duckdb literal"; do
  venv/bin/python probe.py "$what"
done | tee seen
diff <(sed 's/,[^,]*$//' seen) - <<'SEEN'
arrow array: loads pandas
arrow buffers: no pandas
arrow array, refused once: no pandas
duckdb parameter: loads pandas
duckdb literal: no pandas
SEEN
