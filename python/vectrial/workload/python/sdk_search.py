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
from vectrial.model.workload import Closed
from vectrial.workload.ndcg import Gains, Judgement
from vectrial.workload.python.open_loop import Turns
from vectrial.workload.python.sdk_process import (
    Done,
    Opening,
    Ready,
    common_start_ns,
    expect,
    merged,
    processes,
    timed,
)
from vectrial.workload.queries import Queries
from vectrial.workload.record import Outset, phase_of
from vectrial.workload.searchers import hybrid_searchers, searchers
from vectrial.workload.timed import Look

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
    (`turns`) with the arrivals that fall to it. judgement: by which answers of a closed loop are
    graded. keeps: some answers are kept, to be looked at afterwards."""

    question: Asked
    queries: NDArray[np.float32] | Queries
    truth: Truth
    load: Closed
    clients: int
    first: int
    cores: Sequence[int]
    warmup_queries: int
    seed: int
    name: str
    turns: Turns | None = None
    judgement: Judgement | None = None
    keeps: bool = False


def search(
    question: Asked,
    queries: NDArray[np.float32] | Queries,
    truth: Truth,
    load: Closed,
    *,
    cores: Sequence[int] = (),
    warmup_queries: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
    name: str = "search",
    judgement: Judgement | None = None,
    look: Look | None = None,
) -> Phase:
    """Search with the clients of `load`, as `embedded.closed_loop` does, in other processes.

    Args:
        cores: those the processes share; empty: all.
        look: as of `embedded.closed_loop`.

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
        shares.append(replace(one, judgement=judgement, keeps=look is not None))
    outset = replace(Outset.now(), cpu_ns=0)
    started_ns, told = together(shares, Done, progress, load.min_s)
    phase = phase_of(
        name,
        merged(told, truth),
        replace(outset, started_ns=started_ns),
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
    if judgement is not None:
        gains = Gains()
        for process in told:
            gains.add(process.gains or Gains())
        phase.metrics |= gains.metrics()
    if look is not None:
        look(phase, timed(told, truth))
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
