"""The open loop of Python callers, whether they share a process with the store or not.

One schedule is drawn before the clock starts. Callers (threads with a request each) take the next
arrival in turn, wait until it is due, and search. Who is free takes an arrival ahead of its time;
one that nobody is free for is sent late, and its latency counts from when it was due all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.engine.types import LoadOutcome
from vectrial.model.dataset import Truth
from vectrial.model.phase import Phase
from vectrial.model.workload import Open
from vectrial.workload.python.closed_loop import PROGRESS_S, Crew
from vectrial.workload.python.sdk_process import Done, done, merged
from vectrial.workload.python.timed import record_answer, timed_search
from vectrial.workload.queries import Queries
from vectrial.workload.record import phase_of_outcome
from vectrial.workload.timed import KEPT

#: Callers in all, where the load allows as many in flight: what the native lane has of connections
#: that carry one request at a time. Python runs in one of a process's threads at a time, and gains
#: nothing by more.
CALLERS = 64
_QUARTERS = 4
#: Until the next arrival, where progress is reported before it.
_SPARE_NS = 5_000_000


@dataclass(frozen=True)
class Turns:
    """The arrivals of one process: when each is due, ns from the start (int64, ascending), and
    which query of all rounds it asks (int64). length_ns: nothing is sent from then on."""

    due: NDArray[np.int64]
    queries: NDArray[np.int64]
    length_ns: int

    def dealt(self, parts: int) -> list[Turns]:
        """The arrivals dealt out to so many processes, one to each in turn."""
        return [
            Turns(self.due[nth::parts], self.queries[nth::parts], self.length_ns)
            for nth in range(parts)
        ]


@dataclass(frozen=True)
class Served:
    """What one process did. lag: a packed recorder of actual minus intended sends. late: arrivals
    that no client was free for when they were due. in_flight_ns: the time that requests took, in
    all. finished: those done in each quarter of the time."""

    done: Done
    lag: bytes
    unsent: int
    late: int
    in_flight_ns: int
    finished: tuple[int, ...]


class Counter:
    """The callers of a process at their work: who is free takes the next arrival.

    report: called by the first caller where it has time to spare, in place of a thread beside it.
    """

    def __init__(self, crew: Crew, turns: Turns, report: Callable[[], None] = lambda: None) -> None:
        self._crew, self._length_ns, self._report = crew, turns.length_ns, report
        # Taking from an iterator over a list is one step, whoever else takes.
        arrivals = zip(
            turns.due.tolist(), turns.queries.tolist(), _kept(len(turns.due)), strict=True
        )
        self._next = iter(list(arrivals))
        self.lags = [Recorder() for _ in range(crew.clients)]
        self.unsent, self.late = [0] * crew.clients, [0] * crew.clients
        self.in_flight_ns = [0] * crew.clients
        self.finished = [[0] * _QUARTERS for _ in range(crew.clients)]

    def work(self, client: int) -> None:
        """What one client does from the common start on."""
        crew, clock, length_ns = self._crew, perf_counter_ns, self._length_ns
        recorder, lag = crew.recorders[client], self.lags[client]
        start, report_at = crew.outset.started_ns, 0
        lag.start(start)
        for offset, number, keeps in self._next:
            due, now = start + offset, clock()
            if now >= start + length_ns or crew.halt:
                self.unsent[client] += 1
                continue
            self.late[client] += now > due
            if client == 0 and due - now > _SPARE_NS and now >= report_at:
                self._report()
                report_at = now + int(PROGRESS_S * 1e9)
            while (left_ns := due - clock()) > 0:
                time.sleep(left_ns / 1e9)
            query, vector, search = crew.requests[number]
            sample = timed_search(search, vector)
            sent, done = sample.sent_ns, sample.done_ns
            record_answer(recorder, query, sample, due)
            if sample.result is not None and keeps and crew.keeps:
                crew.kept[client].keep(query, vector, *sample.result)
            lag.operation(due, due, sent)
            crew.issued[client] += 1
            crew.ended[client] = done
            self.in_flight_ns[client] += done - sent
            if done - start < length_ns:
                self.finished[client][(done - start) * _QUARTERS // length_ns] += 1

    def served(self, done: Done) -> Served:
        """The whole of it."""
        lag, *others = self.lags
        for other in others:
            lag.merge(other)
        return Served(
            done,
            lag.pack(),
            sum(self.unsent),
            sum(self.late),
            sum(self.in_flight_ns),
            tuple(map(sum, zip(*self.finished, strict=True))),
        )


def turns_of(load: Open, queries: NDArray[np.float32] | Queries, seed: int) -> Turns:
    """All arrivals of a load, drawn from the seed: in each pass all queries of a round."""
    due = schedule(load, seed)
    asked = queries if isinstance(queries, Queries) else Queries.same(queries)
    rounds, count = asked.parts(), asked.count
    return Turns(due, _asked(len(due), rounds, count, seed), int(load.duration_s * 1e9))


def serve(crew: Crew, turns: Turns, report: Callable[[], None] = lambda: None) -> Served:
    """Have a crew, which is warm when it begins, serve its part of the arrivals."""
    alone = crew.clients == 1
    counter = Counter(crew, turns, report if alone else lambda: None)
    crew.loop = counter.work
    cpu_ns = crew.run(report, in_threads=not alone)
    return counter.served(done(crew, cpu_ns))


def phase_of_served(
    name: str,
    load: Open,
    turns: Turns,
    callers: int,
    started_ns: int,
    told: Sequence[Served],
    truth: Truth,
    load_1m: float,
) -> Phase:
    """The phase that the records of one process or several make, as one of the engine's would be.

    Args:
        turns: of all of them.
        callers: in all.
    """
    length_ns = turns.length_ns
    ended_ns = max(started_ns + length_ns, *(one.done.ended_ns for one in told))
    recorder = merged([one.done for one in told], truth)
    recorder.finish(ended_ns)
    lag, *others = [Recorder.unpack(one.lag) for one in told]
    for other in others:
        lag.merge(other)
    quarters = np.minimum(turns.due * _QUARTERS // length_ns, _QUARTERS - 1)
    come = np.bincount(quarters, minlength=_QUARTERS)
    finished = np.sum([one.finished for one in told], axis=0)
    issued = sum(one.done.issued for one in told)
    unsent = sum(one.unsent for one in told)
    outcome: LoadOutcome = {
        "classes": [
            {
                "name": name,
                "recorder": recorder,
                "warmup": Recorder(),
                "lag": lag.histogram("latency"),
                "issued": issued,
                "in_flight": 0,
                "rows": issued,
                "answers": None,
            }
        ],
        "started_ns": started_ns,
        "ended_ns": ended_ns,
        "cpu_ns": sum(one.done.cpu_ns for one in told),
        "unsent": unsent,
        # A caller who is late is what these lanes measure; a fault where arrivals were lost.
        "bound_met": sum(one.late for one in told) if unsent else 0,
        "peak_in_flight": callers,
        "in_flight_s": sum(one.in_flight_ns for one in told) / 1e9,
        "reconnects": 0,
        "cancelled": False,
        "duration_s": load.duration_s,
        "backlog": np.cumsum(come - finished).tolist(),
    }
    phase = phase_of_outcome(
        name,
        outcome,
        outcome["classes"][0],
        clients=None,
        load_1m=load_1m,
        params={"loop": "open", "arrivals": load.pattern, "rate": load.rate},
        no_recall="no ground truth was given",
    )
    phase.metrics |= {
        "concurrency": callers,
        "bound_met": sum(one.late for one in told),
        "warmup_count": sum(one.done.warmed for one in told),
        "warmup_errors": sum(one.done.warmup_errors for one in told),
    }
    # What happens within a library is not seen from here.
    for unknown in ("reconnects", "in_flight_peak"):
        phase.metrics[unknown], phase.missing[unknown] = None, "Python callers do not tell"
    return phase


def schedule(load: Open, seed: int) -> NDArray[np.int64]:
    """When requests are due, int64 ns from the start, ascending, all before the end; Poisson
    arrivals are drawn from the seed."""
    length_ns, gap_ns = int(load.duration_s * 1e9), 1e9 / load.rate
    rng, due = np.random.default_rng([seed, 1]), np.empty(0)
    if load.offsets is not None:
        due = load.offsets.astype(np.float64)
    elif load.arrivals == "constant":
        due = np.rint(np.arange(int(length_ns / gap_ns) + 2) * gap_ns)
    else:
        while not len(due) or due[-1] < length_ns:
            more = np.cumsum(rng.exponential(gap_ns, int(length_ns / gap_ns) + 100))
            due = np.concatenate([due, more + (due[-1] if len(due) else 0)])
    kept: NDArray[np.int64] = due[due < length_ns].astype(np.int64)
    return kept


def _kept(arrivals: int) -> list[bool]:
    """Which of the arrivals of a process have their answers kept, spread over all of them."""
    every = max(1, arrivals // KEPT)
    return [at % every == 0 for at in range(arrivals)]


def _asked(arrivals: int, rounds: int, queries: int, seed: int) -> NDArray[np.int64]:
    """Which query each arrival asks: all of a round in an order drawn anew for each pass."""
    rng = np.random.default_rng([seed, 2])
    passes = [
        rng.permutation(queries) + nth % rounds * queries for nth in range(arrivals // queries + 1)
    ]
    asked: NDArray[np.int64] = np.concatenate(passes)[:arrivals].astype(np.int64)
    return asked
