"""The sdk lane: searches by the store's official Python client, in processes and threads that are
connected and warm before the clock starts.

One Python process runs Python in one thread at a time, so that clients are spread over as many
processes as there are cores for them. Every process writes its own record; they are merged when
all is over, and nothing crosses a process boundary in between.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from vectrial.model.dataset import Truth
from vectrial.model.filters import Filters
from vectrial.model.fusion import Blend
from vectrial.model.phase import Phase
from vectrial.model.progress import Progress
from vectrial.model.store import Params, Returning, Searcher, Store
from vectrial.model.workload import ClosedLoop
from vectrial.workload.answer_log import AnswerCheck
from vectrial.workload.ndcg import Gains, RelevanceJudgments
from vectrial.workload.python.open_loop import Schedule
from vectrial.workload.python.sdk_process import (
    Done,
    Opening,
    Ready,
    common_start_ns,
    expect,
    merged,
    merged_answers,
    processes,
)
from vectrial.workload.queries import Queries
from vectrial.workload.record import PhaseStart, phase_of
from vectrial.workload.searchers import hybrid_searchers, searchers

T = TypeVar("T")


class Asked(Protocol):
    """What is asked of a store by another process."""

    @property
    def opening(self) -> Opening:
        """How to open it."""
        ...

    def searchers(self, store: Store) -> Searcher | Sequence[Searcher]:
        """The searcher of every query, or one for all."""
        ...


@dataclass(frozen=True)
class Question:
    """What is asked of a store by another process: how to open it, and its searcher's arguments."""

    opening: Opening
    k: int
    params: Params
    where: Filters = None
    returning: Returning = Returning.IDS

    def searchers(self, store: Store) -> Searcher | Sequence[Searcher]:
        """The searcher of every query, or one for all."""
        return searchers(store, self.returning, self.k, self.params, self.where)


@dataclass(frozen=True)
class HybridQuestion:
    """A question by vector and text: `texts` are of the queries, in their order."""

    opening: Opening
    k: int
    params: Params
    blend: Blend
    texts: Sequence[str]

    def searchers(self, store: Store) -> Sequence[Searcher]:
        """The searcher of every query."""
        return hybrid_searchers(store, self.k, self.params, self.blend, self.texts)


@dataclass(frozen=True)
class Share:
    """What one process does: `clients` of all, numbered from `first`, on `cores`; in an open loop
    (`schedule`) with the arrivals that fall to it. judgments: by which answers of a closed loop are
    graded. logs_answers: some answers are logged, to be checked afterwards."""

    question: Asked
    queries: NDArray[np.float32] | Queries
    truth: Truth
    load: ClosedLoop
    clients: int
    first: int
    cores: Sequence[int]
    warmup_queries: int
    seed: int
    name: str
    schedule: Schedule | None = None
    judgments: RelevanceJudgments | None = None
    logs_answers: bool = False


def search(
    question: Asked,
    queries: NDArray[np.float32] | Queries,
    truth: Truth,
    load: ClosedLoop,
    *,
    cores: Sequence[int] = (),
    warmup_queries: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
    name: str = "search",
    judgments: RelevanceJudgments | None = None,
    check: AnswerCheck | None = None,
) -> Phase:
    """Search with the clients of `load`, as `closed_loop` does, in other processes.

    Args:
        cores: those the processes share; empty: all.
        check: as of `closed_loop`.

    Raises:
        StoreError: a process could not connect, or ended before its time.
    """
    width = len(cores) or len(os.sched_getaffinity(0))
    shared = parts(load.clients, min(load.clients, width))
    shares: list[Share] = []
    for clients in shared:
        first = sum(one.clients for one in shares)
        one = Share(
            question, queries, truth, load, clients, first, cores, warmup_queries, seed, name
        )
        shares.append(replace(one, judgments=judgments, logs_answers=check is not None))
    phase_start = replace(PhaseStart.now(), cpu_ns=0)
    started_ns, told = together(shares, Done, progress, load.min_s)
    phase = phase_of(
        name,
        merged(told, truth),
        replace(phase_start, started_ns=started_ns),
        ended_ns=max(one.ended_ns for one in told),
        cpu_ns=sum(one.cpu_ns for one in told),
        issued=sum(one.issued for one in told),
        clients=load.clients,
        params={"loop": "closed", "clients": load.clients},
        no_recall="no ground truth was given",
    )
    seconds = (phase.ended_ns - phase.started_ns) / 1e9
    share = (phase.metrics["cpu_s"] or 0) / seconds / min(len(shared), width) if seconds else None
    phase.metrics |= {
        "client_processes": len(shared),
        "client_cpu_share": share,
        "warmup_count": sum(one.warmed for one in told),
        "warmup_errors": sum(one.warmup_errors for one in told),
    }
    if share is None:
        phase.missing["client_cpu_share"] = "nothing was measured"
    if judgments is not None:
        gains = Gains()
        for process in told:
            gains.add(process.gains or Gains())
        phase.metrics |= gains.metrics()
    if check is not None:
        check(phase, merged_answers(told, truth))
    return phase


def parts(clients: int, processes: int) -> list[int]:
    """So many clients for each process, as evenly as can be."""
    return [clients // processes + (n < clients % processes) for n in range(processes)]


def together(
    shares: Sequence[Share], kind: type[T], progress: Progress | None, length_s: float
) -> tuple[int, list[T]]:
    """Let a process do each share, all from one instant on, when all clients are connected and
    warm. Returns that instant in ns, and what each tells at its end, which is of that kind."""
    tell, name = progress or (lambda *_: None), shares[0].name
    with processes(shares) as pipes:
        for pipe in pipes:
            expect(pipe, Ready, lambda: tell(0, 1, f"{name}: connecting and warming up"))
        started_ns = common_start_ns()
        for pipe in pipes:
            pipe.send(started_ns)

        def report() -> None:
            elapsed = max(perf_counter_ns() - started_ns, 0) / 1e9
            tell(min(elapsed, length_s), length_s, name)

        return started_ns, [expect(pipe, kind, report) for pipe in pipes]
