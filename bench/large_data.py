"""Data larger than the memory it may use: 10 million rows of 96 dimensions, 3.8 GB in a file.

`vectrial data import` (reading, checking, storing, facts, the exact 10 neighbours of 10,000
queries) and `vectrial data truth -k 20`, which finds others anew, run in a control group of 2 GiB,
which counts the pages of files as well. Own memory is the most anonymous memory that was seen in
it, five times a second. The neighbours are held against FAISS's flat index, which holds all rows in
memory and has no limit; its time begins when it is filled. Needs root, 8 GB of disk, 5 GB of memory
for FAISS, and a quarter of an hour.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np

import harness
from memory_limit import LIMIT_BYTES, limited

ROWS, DIM, QUERIES, K = 10_000_000, 96, 10_000, 20
_CENTRES, _BLOCK = 1000, 1 << 18


def write(path: Path, rows: int, seed: int) -> None:
    """Gaussian clouds around common centres, in blocks, as .fbin."""
    centres = np.random.default_rng(0).standard_normal((_CENTRES, DIM), dtype=np.float32)
    rng = np.random.default_rng(seed)
    with path.open("wb") as file:
        np.array([rows, DIM], np.uint32).tofile(file)
        for start in range(0, rows, _BLOCK):
            count = min(_BLOCK, rows - start)
            noise = rng.standard_normal((count, DIM), dtype=np.float32)
            (centres[rng.integers(0, _CENTRES, count)] + 0.6 * noise).tofile(file)
        # Pages that are in memory already would be counted in no group.
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(path: Path) -> np.ndarray:
    """All rows of an .fbin file."""
    return np.fromfile(path, np.float32, offset=8).reshape(-1, DIM)


def main() -> int:
    """Measure once."""
    bench = harness.start(__doc__)
    size = f"{ROWS / 1e6:.0f}M × {DIM}"
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        os.environ["VECTRIAL_HOME"] = folder
        rows, queries, out = (Path(folder) / name for name in ("r.fbin", "q.fbin", "out.jsonl"))
        write(rows, ROWS, 1)
        write(queries, QUERIES, 2)
        given = ("--queries", str(queries), "--metric", "l2", "--name", "large")
        import_s, import_gib = limited(("data", "import", str(rows), *given), out)
        truth = ("data", "truth", "large", "-k", str(K), "--format", "jsonl")
        truth_s, truth_gib = limited(truth, out)
        found = np.array([json.loads(line)["ids"] for line in out.read_text().splitlines()])
        index = faiss.IndexFlatL2(DIM)
        index.add(read(rows))
        began = time.perf_counter()
        _, expected = index.search(read(queries), K)
        faiss_s = time.perf_counter() - began
    agree = float(np.mean(found == expected))
    if agree < 0.999:  # float32 distances put neighbours that are nearly as near in another order
        raise SystemExit(f"only {agree:.4f} of the ids agree with FAISS's")
    bench.add(
        harness.figure(f"import, {size}, {QUERIES:,} queries", "s", [import_s]),
        harness.figure("import, own memory", "GiB", [import_gib], goal=LIMIT_BYTES / 2**30),
        harness.figure("truth, own memory", "GiB", [truth_gib], goal=LIMIT_BYTES / 2**30),
        harness.figure("truth, share of ids that FAISS has too", "1", [agree]),
        harness.compare(
            f"truth, {size}, {QUERIES:,} queries, k={K}, the whole command", "s",
            [truth_s], [faiss_s], baseline="IndexFlatL2, filled, in memory", goal=1.0,
        ),
    )  # fmt: skip
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
