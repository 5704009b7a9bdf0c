"""What Python adds to a search when several threads search at once in one process.

Two libraries that do nothing but take their time, about 100 us a search: one computes without
Python's lock (as hnswlib, FAISS and most compiled libraries do), one holds it all the while (as
code written in Python does). p50 and p99 of P clients against those of one, in the same run.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable

import numpy as np

import harness
from vectrial.workload.python.closed_loop import closed_loop

SEARCH_NS = 100_000
QUERIES = np.zeros((200, 8), np.float32)
ANSWER = (np.arange(10, dtype=np.int64), np.zeros(10, np.float32))
Search = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def without_lock() -> Search:
    """Hashes as many bytes as take 100 us here; hashlib lets the lock go for long inputs."""
    probe = bytes(1 << 22)
    began = time.perf_counter_ns()
    hashlib.sha256(probe).digest()
    work = probe[: int(len(probe) * SEARCH_NS / (time.perf_counter_ns() - began))]

    def search(_vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hashlib.sha256(work).digest()
        return ANSWER

    return search


def with_lock() -> Search:
    """Looks at the clock until 100 us have gone."""

    def search(_vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        end = time.perf_counter_ns() + SEARCH_NS
        while time.perf_counter_ns() < end:
            pass
        return ANSWER

    return search


def main() -> int:
    """Measure, print, and append to the file that was asked for."""
    bench = harness.start(__doc__)
    cores = os.cpu_count() or 1
    for what, search in (("lock let go", without_lock()), ("lock held", with_lock())):
        found: dict[int, dict[str, list[float]]] = {}
        for _ in range(5):
            for clients in (1, cores, 2 * cores):
                phase = closed_loop(search, QUERIES, None, clients=clients, min_s=0.5, max_s=0.5)
                kept = found.setdefault(clients, {})
                for metric in ("qps", "latency_p50", "latency_p99"):
                    value = phase.metrics[metric]
                    assert value is not None
                    kept.setdefault(metric, []).append(value)
        for clients, metrics in found.items():
            for metric, values in metrics.items():
                name = f"{what}: {metric}, {clients} client" + "s" * (clients > 1)
                unit = "1/s" if metric == "qps" else "us"
                bench.add(
                    harness.compare(name, unit, values, found[1][metric], baseline="1 client")
                    if clients > 1
                    else harness.figure(name, unit, values)
                )
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
