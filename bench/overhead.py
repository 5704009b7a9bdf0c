"""What the harness adds to a search: its closed loop with one client beside a direct loop.

All search the same index object for the same queries at ef_search = 64. The direct loop calls the
library as its own documentation does and keeps nothing. The harness calls the store's searcher,
takes two times, judges the answer against exact truth and records it. Between them stands a bare
loop over the store's searcher: what it costs more than the direct loop is the store's adapter,
what the harness costs more than it is the lane. Last, the lane around a search that does nothing.

Ratios are time per query over time per query, by the clock and by the processor: the second says
nearly the same on a busy machine. What is added is about constant, so the ratio depends on how
long a query takes: 50,000 rows as in the demo; with 20,000 the ratios are some 2 % higher.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import harness
from vectrial.datasets.exact import exact_topk
from vectrial.model.capabilities import Index
from vectrial.model.dataset import Truth
from vectrial.model.metric import Metric
from vectrial.model.schema import Schema
from vectrial.model.store import Searcher, Store
from vectrial.stores.registry import load
from vectrial.workload.ingest import make_batch
from vectrial.workload.python.closed_loop import closed_loop

ROWS, DIM, QUERIES, K, EF = 50_000, 100, 1_000, 10, 64
REPEATS = 41
BUILD = {"m": 16, "ef_construction": 100}


def clustered() -> np.ndarray:
    """Rows and queries with some structure: Gaussian clouds around 100 centres."""
    rng = np.random.default_rng(11)
    centres = rng.standard_normal((100, DIM), dtype=np.float32)
    noise = rng.standard_normal((ROWS + QUERIES, DIM), dtype=np.float32)
    return centres[rng.integers(0, 100, ROWS + QUERIES)] + 0.8 * noise


def built(kind: type[Store], folder: str, rows: np.ndarray) -> tuple[Store, Searcher]:
    """A loaded store and its search at `EF`."""
    schema = Schema(DIM, Metric.L2)
    store = kind(Path(folder))
    index = kind.capabilities.indexes["hnsw"]
    store.create(schema, Index("hnsw", index.build(**BUILD)))
    store.insert(make_batch(schema, np.arange(ROWS), rows, None))
    store.build()
    return store, store.searcher(K, index.search(ef_search=EF))


def direct(name: str, index: Any) -> Callable[[np.ndarray], object]:
    """The library's own search of one query on the index that the store made."""
    if name == "faiss":
        import faiss

        inner = faiss.downcast_index(index.index)
        inner.hnsw.efSearch = EF
        return lambda vector: inner.search(vector[None], K)
    if name == "hnswlib":
        index.set_ef(EF)
        return lambda vector: index.knn_query(vector, k=K, num_threads=1)
    index.expansion_search = EF
    return lambda vector: index.search(vector, K, threads=1)


Cost = tuple[float, float]


def by_hand(search: Callable[[np.ndarray], object], queries: list[np.ndarray]) -> Cost:
    """Microseconds per query of a bare loop, by clock and processor."""
    cpu, clock = time.process_time_ns(), time.perf_counter_ns()
    for vector in queries:
        search(vector)
    clock, cpu = time.perf_counter_ns() - clock, time.process_time_ns() - cpu
    return clock / len(queries) / 1e3, cpu / len(queries) / 1e3


def by_harness(search: Searcher, queries: np.ndarray, truth: Truth) -> Cost:
    """The same by the harness's own figures, which are of all timed requests.

    Its warm-up is a whole pass: the bare loops follow on each other and find warm caches too.
    """
    metrics = closed_loop(search, queries, truth, warmup_count=QUERIES).metrics
    assert metrics["recall_mean"] is not None
    assert metrics["recall_mean"] > 0.8
    qps, cpu_us = metrics["qps"], metrics["cpu_us_per_op"]
    assert qps is not None
    assert cpu_us is not None
    return 1e6 / qps, cpu_us


def measure(bench: harness.Bench, name: str, data: np.ndarray, truth: Truth) -> None:
    """Add the two figures of one library."""
    rows, queries = data[:ROWS], np.ascontiguousarray(data[ROWS:])
    with TemporaryDirectory() as folder:
        store, searcher = built(load(name), folder, rows)
        bare = direct(name, store._index)  # type: ignore[attr-defined]
        order = [queries[i] for i in np.random.default_rng([0, 0]).permutation(QUERIES)]
        loops = (
            partial(by_harness, searcher, queries, truth),
            partial(by_hand, searcher, order),
            partial(by_hand, bare, order),
        )
        costs: list[list[Cost]] = [[] for _ in loops]
        for turn in range(1 + REPEATS):
            for step in range(len(loops)):  # each in turn is first, second and third
                which = (turn + step) % len(loops)
                cost = loops[which]()
                if turn:
                    costs[which].append(cost)
        store.close()
    for at, by in enumerate(("clock", "processor")):
        ours, adapter, theirs = ([cost[at] for cost in one] for one in costs)
        bench.add(
            harness.compare(
                f"{name}, {by}", "us/query", ours, theirs, baseline="direct loop", goal=1.05
            ),
            harness.compare(
                f"{name}, {by}: lane alone", "us/query", ours, adapter, baseline="searcher's loop"
            ),
        )


def lane_alone(queries: np.ndarray, truth: Truth) -> float:
    """Microseconds of processor time per query when the search costs nothing."""
    answer = truth.ids[0].copy(), np.zeros(K, np.float32)
    cost = closed_loop(lambda _: answer, queries, truth, count=20_000).metrics["cpu_us_per_op"]
    assert cost is not None
    return cost


def main() -> int:
    """Measure, print, and append to the file that was asked for."""
    bench = harness.start(__doc__)
    data = clustered()
    truth = exact_topk(data[:ROWS], np.arange(ROWS), data[ROWS:], Metric.L2, K)
    for name in ("faiss", "hnswlib", "usearch"):
        measure(bench, name, data, truth)
    queries = np.ascontiguousarray(data[ROWS:])
    costs = [lane_alone(queries, truth) for _ in range(REPEATS)]
    bench.add(harness.figure("the lane around nothing, processor", "us/query", costs))
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
