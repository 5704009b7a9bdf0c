"""Exact ground truth beside FAISS's flat index: same rows, same queries, same threads.

Ours includes what FAISS's does not: float64 distances, every tie, and sorting by id among equals.
Both begin with the rows in memory, as they are. FAISS is measured twice: its search alone, of an
index that was filled with normalised rows before the clock started, and the whole way from the
rows to the answer, which is what ours is measured by in both.

On a busy machine elapsed time flatters us: FAISS's threads wait for each other while they spin.
Processor time tells the truth there, with one thread each:

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 RAYON_NUM_THREADS=1 python bench/truth.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import faiss
import numpy as np

import harness
from vectrial.datasets.exact import exact_topk
from vectrial.model.metric import Metric

QUERIES = 1000
CASES = (
    ("l2 128-d", Metric.L2, 128, 100_000),
    ("cosine 100-d", Metric.COSINE, 100, 100_000),
    ("cosine 384-d", Metric.COSINE, 384, 50_000),
)


def timed(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds of `clock` that a call takes."""
    began = clock()
    work()
    return clock() - began


def clustered(rows: int, dim: int) -> np.ndarray:
    """Rows with some structure, as embeddings have: Gaussian clouds around 200 centres."""
    rng = np.random.default_rng(dim)
    centres = rng.standard_normal((200, dim), dtype=np.float32)
    return centres[rng.integers(0, 200, rows)] + 0.6 * rng.standard_normal(
        (rows, dim), dtype=np.float32
    )


def filled(vectors: np.ndarray, metric: Metric) -> faiss.Index:
    """FAISS's flat index with all rows in it, normalised where the metric is cosine."""
    if metric is not Metric.COSINE:
        index = faiss.IndexFlatL2(vectors.shape[1])
        index.add(vectors)
        return index
    normal = vectors.copy()
    faiss.normalize_L2(normal)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(normal)
    return index


def from_rows(vectors: np.ndarray, queries: np.ndarray, metric: Metric, k: int) -> object:
    """From rows to neighbours with FAISS."""
    index, asked = filled(vectors, metric), queries.copy()
    if metric is Metric.COSINE:
        faiss.normalize_L2(asked)
    return index.search(asked, k)


def main() -> int:
    """Measure every case for k = 10 and 100."""
    bench = harness.start(__doc__)
    for name, metric, dim, rows in CASES:
        both = clustered(rows + QUERIES, dim)
        vectors, queries = np.ascontiguousarray(both[:rows]), np.ascontiguousarray(both[rows:])
        ids = np.arange(rows)
        index = filled(vectors, metric)
        asked = queries.copy()
        if metric is Metric.COSINE:
            faiss.normalize_L2(asked)
        for k in (10, 100):
            ours = partial(exact_topk, vectors, ids, queries, metric, k)
            theirs = partial(index.search, asked, k)
            whole = partial(from_rows, vectors, queries, metric, k)
            agree = np.mean(ours().ids == theirs()[1])
            if agree < 0.99:
                raise SystemExit(f"{name}: only {agree:.3f} of the ids agree: nothing to compare")
            title = f"{name}, {rows // 1000}k rows × {QUERIES}, k={k}"
            for what, clock in (("elapsed", time.perf_counter), ("processor", time.process_time)):
                timers = [partial(timed, work, clock) for work in (ours, theirs, whole)]
                mine, search, job = harness.interleave(timers, repeats=5)
                figure, kind = f"truth, {title}, {what}", type(index).__name__
                for baseline, times in ((f"{kind}, filled", search), (f"{kind}, from rows", job)):
                    bench.add(
                        harness.compare(figure, "s", mine, times, baseline=baseline, goal=1.0)
                    )
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
