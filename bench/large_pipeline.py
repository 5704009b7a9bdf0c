"""An index pipeline over more data than it may use memory: 10 million rows of 96 dimensions.

The experiment `index_pipeline` cuts 3.8 GB of rows into 50 segments, puts them into MinIO, gets and
indexes them (FAISS, IVF-PQ), writes the indexes back, opens all of them and searches them, in a
control group of 2 GiB, which counts the pages of files, and MinIO, as well. Own memory is the most
anonymous memory that was seen in it, five times a second. Needs root, Go for MinIO, the dataset
clustered-96-10m (`vectrial data fetch` makes it), 10 GB of disk, and a quarter of an hour.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import harness
from memory_limit import LIMIT_BYTES, limited
from vectrial.analysis.run_data import RunData, load

#: Of each segment FAISS also keeps a table of nlist x m_pq x 256 numbers when it is searched.
DATASET, SEGMENT_ROWS = "clustered-96-10m", 200_000
_SUITE = f"""
name = "large-pipeline"
repeats = 1
k = 10
trial_timeout_s = 7200
[[datasets]]
name = "{DATASET}"
queries = 1000
[[stores]]
store = "faiss"
index = "ivf_pq"
params = {{ nlist = 128, m_pq = 24 }}
[[experiments]]
experiment = "index_pipeline"
objects = "minio"
segment_rows = {SEGMENT_ROWS}
search = {{ nprobe = 16 }}
merged = false
"""


def values(run: RunData, phase: str, *metrics: str) -> list[float]:
    """Metrics of the one phase of this name."""
    (found,) = (one for _, one in run.phases() if one.name == phase)
    return [found.metrics[metric].value or 0.0 for metric in metrics]


def main() -> int:
    """Measure once."""
    bench = harness.start(__doc__)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        suite, out = folder / "suite.toml", folder / "out"
        suite.write_text(_SUITE)
        arguments = ("run", str(suite), "--no-report", "--out", str(folder / "runs"))
        _, own_gib = limited(arguments, out)
        run = load(Path(out.read_text().strip()))
        (trial,) = run.trials
        if trial.status != "ok":
            raise SystemExit(f"the trial {trial.status}: {trial.reason}")
        segments, most_bytes = values(run, "index", "segments", "in_flight_bytes")
        (recall,) = values(run, "search", "recall_mean")
    size = f"{segments:.0f} segments of {SEGMENT_ROWS:,} × 96"
    bench.add(
        harness.figure(f"own memory, {size}", "GiB", [own_gib], goal=LIMIT_BYTES / 2**30),
        harness.figure("segments in memory at once", "GiB", [most_bytes / 2**30]),
        harness.figure("recall@10 of all segments, nprobe 16", "1", [recall]),
    )
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
