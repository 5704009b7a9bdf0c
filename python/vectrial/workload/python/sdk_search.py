"""The sdk lane: searches by the store's official Python client, in processes and threads that are
connected and warm before the clock starts.

A Python process runs Python code in one thread at a time, so clients are spread over as many
processes as they have cores. The schedule of an open loop is drawn before the clock starts and
split between the processes. Each writes its own record; they are merged when all is over, and
nothing crosses a process boundary in between.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge
from vectrial.model.capabilities import Params, Returning
from vectrial.model.dataset import Truth
from vectrial.model.filters import Filters
from vectrial.model.fusion import Blend
from vectrial.model.phase import Phase
from vectrial.model.progress import Progress
from vectrial.model.store import Searcher, Store
from vectrial.model.workload import ClosedLoop, Load
from vectrial.workload.answer_log import AnswerCheck
from vectrial.workload.ndcg import Gains, NdcgScorer, RelevanceJudgments
from vectrial.workload.python.client_pool import ClientPool
from vectrial.workload.python.open_loop import (
    MAX_CLIENTS,
    Schedule,
    WorkerResult,
    phase_of_results,
    schedule_of,
)
from vectrial.workload.python.sdk_process import (
    Done,
    Opening,
    merge_answers,
    merge_recorders,
    run_together,
)
from vectrial.workload.queries import Queries
from vectrial.workload.record import PhaseStart, phase_of
from vectrial.workload.searchers import hybrid_searchers, searchers

T = TypeVar("T")

#: Seconds that the warm-up of a client may take.
_WARMUP_S = 5.0


class SearchTask(Protocol):
    """Searches that another process sends to a store."""

    @property
    def opening(self) -> Opening:
        """Opening of the store."""
        ...

    def searchers(self, store: Store) -> Searcher | Sequence[Searcher]:
        """A searcher for each query, or one for all."""
        ...


@dataclass(frozen=True)
class VectorSearchTask:
    """A question by vector: how to open the store, and the arguments of its searcher."""

    opening: Opening
    k: int
    params: Params
    where: Filters = None
    returning: Returning = Returning.IDS

    def searchers(self, store: Store) -> Searcher | Sequence[Searcher]:
        """A searcher for each query, or one for all."""
        return searchers(store, self.returning, self.k, self.params, self.where)


@dataclass(frozen=True)
class HybridSearchTask:
    """A question by vector and text: `texts` are of the queries, in their order."""

    opening: Opening
    k: int
    params: Params
    blend: Blend
    texts: Sequence[str]

    def searchers(self, store: Store) -> Sequence[Searcher]:
        """A searcher for each query."""
        return hybrid_searchers(store, self.k, self.params, self.blend, self.texts)


@dataclass(frozen=True)
class ClientShare:
    """The task of one process, or of all together: `clients` of the clients of `load`, numbered
    from `first`, on `cores`; in an open loop with the arrivals of `schedule`. judgments: grade the
    answers of a closed loop. logs_answers: some answers are logged, to be checked afterwards.
    in_turns: the process sends on request."""

    question: SearchTask
    queries: NDArray[np.float32] | Queries
    truth: Truth
    load: ClosedLoop
    cores: Sequence[int]
    warmup_queries: int
    seed: int
    name: str
    judgments: RelevanceJudgments | None = None
    logs_answers: bool = False
    in_turns: bool = False
    clients: int = 0
    first: int = 0
    schedule: Schedule | None = None

    def pool(self, searcher: Searcher | Sequence[Searcher], judge: Judge) -> ClientPool:
        """The clients in this process, all of them unless it has a share of them."""
        load, clients = self.load, self.clients or self.load.clients
        pool = ClientPool(
            searcher, self.queries, judge, clients, self.seed, load.min_s, load.max_s, None
        )
        pool.warmup, pool.logs_answers = (self.warmup_queries, _WARMUP_S), self.logs_answers
        pool.first, pool.client_count = self.first, load.clients
        if self.judgments is not None:
            pool.scorer = NdcgScorer.for_clients(self.judgments, clients)
        return pool


def clients_of(load: Load) -> ClosedLoop:
    """The clients of a load: an open loop has as many as may be in flight, up to `MAX_CLIENTS`."""
    if isinstance(load, ClosedLoop):
        return load
    return ClosedLoop(min(load.in_flight, MAX_CLIENTS), load.duration_s, load.duration_s)


def search(
    whole: ClientShare,
    load: Load,
    *,
    progress: Progress = lambda *_: None,
    check: AnswerCheck | None = None,
) -> Phase:
    """Search under `load` with clients in other processes. A closed loop runs as `closed_loop`
    does.

    Args:
        whole: the task of all processes, with `clients_of(load)`. Its `cores` are shared; empty:
            all. Its `warmup_queries` are for each client of a closed loop; in an open loop the
            total for all clients, each of which sends at least one.
        check: see `closed_loop`.

    Raises:
        StoreError: a process could not connect, or ended before its time.
    """
    name, truth, clients = whole.name, whole.truth, whole.load.clients
    width = len(whole.cores) or len(os.sched_getaffinity(0))
    before = PhaseStart.now()
    if isinstance(load, ClosedLoop):
        shares = split(whole, min(clients, width))
        started_ns, done = _run_shares(shares, Done, progress)
        phase = _closed_phase(name, replace(before, started_ns=started_ns, cpu_ns=0), done, whole)
    else:
        whole = replace(whole, warmup_queries=max(1, whole.warmup_queries // clients))
        schedule = schedule_of(load, whole.queries, whole.seed)
        shares = split(whole, min(clients, width), schedule)
        started_ns, results = _run_shares(shares, WorkerResult, progress)
        done = [one.done for one in results]
        phase = phase_of_results(
            name, load, schedule, clients, started_ns, results, truth, before.load_1m
        )
    seconds = (phase.ended_ns - phase.started_ns) / 1e9
    cpu_s = phase.metrics["cpu_s"] or 0.0
    phase.metrics["client_processes"] = len(shares)
    phase.metrics["client_cpu_share"] = cpu_s / seconds / len(shares) if seconds else None
    if not seconds:
        phase.missing["client_cpu_share"] = "nothing was measured"
    if check is not None:
        check(phase, merge_answers(done, truth))
    return phase


def _closed_phase(
    name: str, phase_start: PhaseStart, results: Sequence[Done], whole: ClientShare
) -> Phase:
    clients = whole.load.clients
    phase = phase_of(
        name,
        merge_recorders(results, whole.truth),
        phase_start,
        ended_ns=max(one.ended_ns for one in results),
        cpu_ns=sum(one.cpu_ns for one in results),
        issued=sum(one.issued for one in results),
        clients=clients,
        params={"loop": "closed", "clients": clients},
        no_recall="no ground truth was given",
    )
    phase.metrics |= {
        "warmup_count": sum(one.warmed for one in results),
        "warmup_errors": sum(one.warmup_errors for one in results),
    }
    if whole.judgments is not None:
        gains = Gains()
        for one in results:
            gains.add(one.gains or Gains())
        phase.metrics |= gains.metrics()
    return phase


def split(
    whole: ClientShare, processes: int, schedule: Schedule | None = None
) -> list[ClientShare]:
    """The shares of the processes, with the clients split as evenly as possible and the arrivals
    dealt out in turn."""
    clients = whole.load.clients
    counts = [clients // processes + (n < clients % processes) for n in range(processes)]
    parts = [None] * processes if schedule is None else schedule.split(processes)
    return [
        replace(whole, clients=count, first=sum(counts[:nth]), schedule=part)
        for nth, (count, part) in enumerate(zip(counts, parts, strict=True))
    ]


def _run_shares(
    shares: Sequence[ClientShare], kind: type[T], progress: Progress
) -> tuple[int, list[T]]:
    name, length_s = shares[0].name, shares[0].load.min_s

    def report(started_ns: int) -> None:
        elapsed = max(perf_counter_ns() - started_ns, 0) / 1e9
        progress(min(elapsed, length_s), length_s, name)

    return run_together(shares, kind, progress, f"{name}: connecting and warming up", report)
