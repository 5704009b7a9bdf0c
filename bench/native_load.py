"""What the benches of the native engine share: judged searches against a null server that answers
at once, and Python's clients beside them. Client and server have a core each."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

import harness
import python_clients
from vectrial._engine import Judge
from vectrial.engine.client import Requests, closed, drive, target
from vectrial.engine.null_server import NullServer

CLIENT_CORE, SERVER_CORE = 0, 1
QUERIES = 1000
K = 10
REPEATS = 5
DURATION_S = 1.0


def start(doc: str | None) -> harness.Bench:
    """A bench whose own process keeps to the client's core."""
    bench = harness.start(doc)
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("client and server need a core each; this machine has one")
    os.sched_setaffinity(0, {CLIENT_CORE})
    return bench


def queries(dim: int) -> np.ndarray:
    """Unit vectors (1000, dim)."""
    values = np.random.default_rng(dim).standard_normal((QUERIES, dim), dtype=np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def requests(dim: int, **options: str) -> Requests:
    """Searches whose answers are judged: ids 0 … 9 are what the null server says."""
    ids = np.tile(np.arange(K, dtype=np.int64), QUERIES)
    offsets = np.arange(0, QUERIES * K + 1, K, dtype=np.int64)
    judge = Judge(K, offsets, ids, np.full(QUERIES, K, np.int64))
    return Requests("search", vectors=queries(dim), k=K, judge=judge, options=options)


def closed_loop(
    protocol: str, server: NullServer, asked: Requests, clients: int
) -> tuple[float, float]:
    """(µs of processor time per request, requests per second)."""
    outcome = drive(
        target(protocol, server.host, server.port),
        [asked],
        [closed(clients)],
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


def python_cpu_us(search: python_clients.Search, asked: np.ndarray, count: int) -> float:
    """µs of processor time per request, with `count` requests in flight, each in a thread."""
    done = [0] * count
    end = time.perf_counter() + DURATION_S

    def work(thread: int) -> None:
        while time.perf_counter() < end:
            search(asked[done[thread] % QUERIES])
            done[thread] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    began = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.process_time() - began) * 1e6 / sum(done)


def alone(
    bench: harness.Bench,
    protocol: str,
    server: NullServer,
    asked: Requests,
    goals: Mapping[int, float | None],
) -> None:
    """Processor time per request at several numbers in flight, each with its goal in µs."""
    assert asked.vectors is not None
    for clients, goal in goals.items():
        values = [closed_loop(protocol, server, asked, clients)[0] for _ in range(REPEATS)]
        name = f"{protocol} {asked.vectors.shape[1]}-d, {clients} in flight, client cpu per request"
        bench.add(harness.figure(name, "us", values, goal=goal))


def beside(
    bench: harness.Bench,
    protocol: str,
    server: NullServer,
    asked: Requests,
    clients: Sequence[tuple[python_clients.Client, float | None]],
    in_flight: int = 8,
) -> None:
    """Processor time per request beside that of Python's clients, with the goals of the ratios."""
    assert asked.vectors is not None
    vectors = asked.vectors
    for client, goal in clients:
        with ExitStack() as stack:
            search = stack.enter_context(client(SERVER_CORE))
            search(vectors[0])
            times = harness.interleave(
                [
                    lambda: closed_loop(protocol, server, asked, in_flight)[0],
                    partial(python_cpu_us, search, vectors, in_flight),
                ],
                REPEATS,
            )
        name = f"{protocol} {vectors.shape[1]}-d, {in_flight} in flight, client cpu per request"
        bench.add(harness.compare(name, "us", *times, baseline=client.__name__, goal=goal))
