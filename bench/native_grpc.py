"""The native engine over gRPC against a null server that answers at once: what a request costs the
client, beside Python's clients; how far a closed loop goes on one core; whether schedules are kept.

Client and server have a core each. Every answer of the engine is judged and recorded; Python's
clients only read theirs. Microseconds of the client's own processor time (user and system) per
request; the encoding of the requests comes before the clock in the engine, and in Python's clients
within, where their users pay for it.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

import harness
import python_clients
from vectrial._engine import Judge, histogram_quantiles
from vectrial.load.native import Requests, arrivals, closed, drive, target
from vectrial.load.null_server import NullServer, null_server

CLIENT_CORE, SERVER_CORE = 0, 1
QUERIES = 1000
K = 10
REPEATS = 5
DURATION_S = 1.0
#: In flight for Python's clients: threads, each with one request.
THREADS = 8
PROCESSES = 8


def queries(dim: int) -> np.ndarray:
    """Unit vectors (1000, dim)."""
    values = np.random.default_rng(dim).standard_normal((QUERIES, dim), dtype=np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def requests(dim: int) -> Requests:
    """Searches whose answers are judged: ids 0 … 9 are what the null server says."""
    ids = np.tile(np.arange(K, dtype=np.int64), QUERIES)
    offsets = np.arange(0, QUERIES * K + 1, K, dtype=np.int64)
    judge = Judge(K, offsets, ids, np.full(QUERIES, K, np.int64))
    return Requests("search", vectors=queries(dim), k=K, judge=judge)


def closed_loop(server: NullServer, asked: Requests, workers: int) -> tuple[float, float]:
    """(µs of processor time per request, requests per second)."""
    outcome = drive(
        target("null-grpc", server.host, server.port),
        [asked],
        [closed(workers)],
        duration_s=DURATION_S,
        warmup_s=0.2,
        cores=[CLIENT_CORE],
    )
    summary = checked(outcome)
    return outcome["cpu_ns"] / 1e3 / summary["count"], summary["qps"]


def checked(outcome: Any) -> Any:
    """The summary of the one class; a bench of wrong answers would be worth nothing."""
    summary = outcome["classes"][0]["recorder"].summary()
    if summary["errors"] or summary["recall_mean"] != 1.0:
        raise SystemExit(f"the null server answered wrongly: {summary}")
    return summary


def python_cpu_us(search: python_clients.Search, asked: np.ndarray) -> float:
    """µs of processor time per request, with `THREADS` requests in flight."""
    done = [0] * THREADS
    end = time.perf_counter() + DURATION_S

    def work(thread: int) -> None:
        while time.perf_counter() < end:
            search(asked[done[thread] % QUERIES])
            done[thread] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    began = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.process_time() - began) * 1e6 / sum(done)


def pool_qps(server: NullServer, dim: int) -> float:
    """What other tools do: processes with one request in flight each; all on the client's core."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(PROCESSES) as pool:
        address = f"{server.host}:{server.port}"
        pool.map(pool_worker, [(address, dim, 0.2)] * PROCESSES, chunksize=1)
        counts = pool.map(pool_worker, [(address, dim, DURATION_S)] * PROCESSES, chunksize=1)
    return sum(counts) / DURATION_S


def pool_worker(task: tuple[str, int, float]) -> int:
    """Requests answered in so many seconds."""
    import grpc

    address, dim, seconds = task
    os.sched_setaffinity(0, {CLIENT_CORE})
    asked = queries(dim)
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary("/vectrial.Null/Search")
        call(asked[0].tobytes())
        done, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            call(asked[done % QUERIES].tobytes())
            done += 1
    return done


def open_loop(
    server: NullServer, asked: Requests, rate: float, dedicated: bool
) -> tuple[float, float]:
    """(% that the achieved rate is off the offered one, µs of schedule lag at its p99)."""
    outcome = drive(
        target("null-grpc", server.host, server.port),
        [asked],
        [arrivals(rate, kind="constant")],
        duration_s=3 * DURATION_S,
        warmup_s=0.2,
        cores=[CLIENT_CORE],
        dedicated=dedicated,
    )
    off = abs(checked(outcome)["qps"] / rate - 1) * 100
    return off, histogram_quantiles(outcome["classes"][0]["lag"], [0.99])[0]


def cost(bench: harness.Bench, asked: Requests, dim: int) -> None:
    """Processor time per request: alone at three depths, then beside each Python client."""
    with null_server("grpc", cores=[SERVER_CORE]) as server:
        for workers in (1, 8, 32):
            values = [closed_loop(server, asked, workers)[0] for _ in range(REPEATS)]
            goal = 12.0 if workers >= 8 and dim == 100 else None
            name = f"grpc {dim}-d, {workers} in flight, client cpu per request"
            bench.add(harness.figure(name, "us", values, goal=goal))
        ours = partial(closed_loop, server, asked, THREADS)
        for client, goal in CLIENTS:
            with ExitStack() as stack:
                search = stack.enter_context(client(SERVER_CORE))
                search(queries(dim)[0])
                theirs = partial(python_cpu_us, search, queries(dim))
                times = harness.interleave([lambda: ours()[0], theirs], REPEATS)
            name = f"grpc {dim}-d, {THREADS} in flight, client cpu per request"
            baseline = client.__name__
            bench.add(harness.compare(name, "us", *times, baseline=baseline, goal=goal))


CLIENTS: tuple[tuple[Callable[[int], Any], float], ...] = (
    (python_clients.grpcio, 1 / 10),
    (python_clients.pymilvus, 1 / 25),
    (python_clients.weaviate_client, 1 / 25),
    (python_clients.qdrant_client, 1 / 25),
)


def main() -> int:
    """Measure, print, and append to the file that was asked for."""
    bench = harness.start(__doc__)
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("client and server need a core each; this machine has one")
    os.sched_setaffinity(0, {CLIENT_CORE})
    for dim in (100, 768):
        cost(bench, requests(dim), dim)
    asked = requests(100)
    with null_server("grpc", cores=[SERVER_CORE]) as server:
        ours = [1e6 / closed_loop(server, asked, 32)[1] for _ in range(REPEATS)]
        theirs = [1e6 / pool_qps(server, 100) for _ in range(REPEATS)]
        name = "grpc 100-d, closed loop on one core, time per request"
        baseline = f"pool of {PROCESSES} grpcio processes"
        bench.add(harness.compare(name, "us", ours, theirs, baseline=baseline, goal=1 / 10))
        for rate, dedicated, limit in SCHEDULES:
            points = [open_loop(server, asked, rate, dedicated) for _ in range(REPEATS)]
            how = ", dedicated core" if dedicated else ""
            name = f"grpc 100-d, open loop {rate:,.0f}/s{how}"
            off, lag = zip(*points, strict=True)
            bench.add(harness.figure(f"{name}, off the offered rate", "%", off, goal=0.1))
            bench.add(harness.figure(f"{name}, schedule lag p99", "us", lag, goal=limit))
    return bench.finish()


SCHEDULES = (
    (1_000.0, False, 100.0),
    (5_000.0, False, 100.0),
    (20_000.0, False, 200.0),
    (1_000.0, True, 20.0),
    (5_000.0, True, 20.0),
    (20_000.0, True, 20.0),
)

if __name__ == "__main__":
    sys.exit(main())
