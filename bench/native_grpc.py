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
import time

import harness
import python_clients
from native_load import (
    CLIENT_CORE,
    DURATION_S,
    QUERIES,
    REPEATS,
    SERVER_CORE,
    alone,
    beside,
    checked,
    closed_loop,
    queries,
    requests,
    start,
)
from vectrial._engine import histogram_quantiles
from vectrial.engine.client import Requests, arrivals, drive, target
from vectrial.engine.null_server import NullServer, null_server

PROTOCOL = "null-grpc"
PROCESSES = 8
#: Each with the goal for the engine's cost beside it.
CLIENTS = (
    (python_clients.grpcio, 1 / 10),
    (python_clients.pymilvus, 1 / 25),
    (python_clients.weaviate_client, 1 / 25),
    (python_clients.qdrant_client, 1 / 25),
)
#: Requests per second, whether a core is given away, and the most lag at p99 in µs.
SCHEDULES = (
    (1_000.0, False, 100.0),
    (5_000.0, False, 100.0),
    (20_000.0, False, 200.0),
    (1_000.0, True, 20.0),
    (5_000.0, True, 20.0),
    (20_000.0, True, 20.0),
)


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


def main() -> int:
    """Measure, print, and append to the file that was asked for."""
    bench = start(__doc__)
    asked = requests(100)
    with null_server("grpc", cores=[SERVER_CORE]) as server:
        alone(bench, PROTOCOL, server, asked, {1: None, 8: 12.0, 32: 12.0})
        alone(bench, PROTOCOL, server, requests(768), {1: None, 8: None, 32: None})
        for some in (asked, requests(768)):
            beside(bench, PROTOCOL, server, some, CLIENTS)
            beside(bench, PROTOCOL, server, some, CLIENTS[:1], in_flight=32)
        ours = [1e6 / closed_loop(PROTOCOL, server, asked, 32)[1] for _ in range(REPEATS)]
        theirs = [1e6 / pool_qps(server, 100) for _ in range(REPEATS)]
        name = f"{PROTOCOL} 100-d, closed loop on one core, time per request"
        baseline = f"pool of {PROCESSES} grpcio processes"
        bench.add(harness.compare(name, "us", ours, theirs, baseline=baseline, goal=1 / 10))
        for rate, dedicated, limit in SCHEDULES:
            points = [open_loop(server, asked, rate, dedicated) for _ in range(REPEATS)]
            how = ", dedicated core" if dedicated else ""
            name = f"{PROTOCOL} 100-d, open loop {rate:,.0f}/s{how}"
            off, lag = zip(*points, strict=True)
            bench.add(harness.figure(f"{name}, off the offered rate", "%", off, goal=0.1))
            bench.add(harness.figure(f"{name}, schedule lag p99", "us", lag, goal=limit))
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
