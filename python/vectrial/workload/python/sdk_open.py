"""The open loop of the sdk lane: the Python client under a load that does not wait for it.

One schedule is drawn before the clock starts and dealt out to processes, in each of which clients
take turns (see `open_loop`). That is how users of the Python client wait.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vectrial.model.dataset import Truth
from vectrial.model.phase import Phase
from vectrial.model.progress import Progress
from vectrial.model.workload import ClosedLoop, OpenLoop
from vectrial.workload.answer_log import AnswerCheck
from vectrial.workload.python import sdk_search
from vectrial.workload.python.closed_loop import ClientPool
from vectrial.workload.python.open_loop import (
    MAX_CLIENTS,
    WorkerResult,
    phase_of_results,
    schedule_of,
    serve,
)
from vectrial.workload.python.sdk_process import merged_answers
from vectrial.workload.python.sdk_search import Question, Share
from vectrial.workload.queries import Queries
from vectrial.workload.record import PhaseStart


def search(
    question: Question,
    queries: NDArray[np.float32] | Queries,
    truth: Truth,
    load: OpenLoop,
    *,
    cores: Sequence[int] = (),
    warmup_queries: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
    name: str = "search",
    check: AnswerCheck | None = None,
) -> Phase:
    """Search under `load` with as many clients as may be in flight, up to `MAX_CLIENTS`.

    Args:
        cores: those the processes share; empty: all.
        warmup_queries: of all clients together; each has at least one.
        check: as of `closed_loop`.

    Raises:
        StoreError: a process could not connect, or ended before its time.
    """
    clients = min(load.in_flight, MAX_CLIENTS)
    width = len(cores) or len(os.sched_getaffinity(0))
    parts = sdk_search.parts(clients, min(clients, width))
    schedule = schedule_of(load, queries, seed)
    shares = [
        Share(
            question,
            queries,
            truth,
            ClosedLoop(clients, load.duration_s, load.duration_s),
            number,
            sum(parts[:nth]),
            cores,
            max(1, warmup_queries // clients),
            seed,
            name,
            dealt,
            logs_answers=check is not None,
        )
        for nth, (number, dealt) in enumerate(zip(parts, schedule.split(len(parts)), strict=True))
    ]
    load_1m = PhaseStart.now().load_1m
    started_ns, told = sdk_search.together(shares, WorkerResult, progress, load.duration_s)
    phase = phase_of_results(name, load, schedule, clients, started_ns, told, truth, load_1m)
    seconds = (phase.ended_ns - phase.started_ns) / 1e9
    phase.metrics |= {
        "client_processes": len(parts),
        "client_cpu_share": (phase.metrics["cpu_s"] or 0) / seconds / min(len(parts), width),
    }
    if check is not None:
        check(phase, merged_answers([one.done for one in told], truth))
    return phase


def measure(share: Share, pool: ClientPool) -> WorkerResult:
    """In a process: its part of the arrivals."""
    assert share.schedule is not None
    return serve(pool, share.schedule)
