"""PyArrow in Vectrial's programs does without pandas, and in those of others with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pandas", reason="it is kept out where it is installed")

USES = """
import sys
from vectrial.util.arrow import load_without_pandas
load_without_pandas()
import numpy as np, pyarrow as pa, pyarrow.compute as pc, pyarrow.dataset
table = pa.table({"id": np.arange(3), "name": ["a", None, "b"], "at": pa.array([1.5, None, 2.0])})
assert table.filter(pc.field("id") >= 1).column("id").to_numpy().tolist() == [1, 2]
assert table.take(np.array([2, 0])).column("name").to_pylist() == ["b", "a"]
assert pc.add(table["at"], 1).to_pylist() == [2.5, None, 3.0]
print(sorted(name for name in sys.modules if name.partition(".")[0] == "pandas"))
frame = table.to_pandas()
assert (frame["id"].tolist(), bool(frame["at"].isna()[1])) == ([0, 1, 2], True)
assert pa.array(frame["at"]).to_pylist() == [1.5, None, 2.0]
assert pa.Table.from_pandas(frame).column("id").to_pylist() == [0, 1, 2]
print("pandas" in sys.modules)
"""


def test_arrays_and_values_import_no_pandas_and_data_frames_do() -> None:
    done = subprocess.run(
        [sys.executable, "-c", USES], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.split("\n")[:2] == ["[]", "True"], done.stderr
