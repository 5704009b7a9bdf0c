"""The open loop of Python clients, whether they share a process with the store or not.

One schedule is drawn before the clock starts. Clients (threads with a request each) take the next
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
from vectrial.model.workload import OpenLoop
from vectrial.workload.answer_log import MIN_LOGGED
from vectrial.workload.python.closed_loop import PROGRESS_S, ClientPool
from vectrial.workload.python.sdk_process import Done, done, merged
from vectrial.workload.python.timed import record_answer, timed_search
from vectrial.workload.queries import Queries
from vectrial.workload.record import phase_of_outcome

#: Clients in all, where the load allows as many in flight: what the native lane has of connections
#: that carry one request at a time. Python runs in one of a process's threads at a time, and gains
#: nothing by more.
MAX_CLIENTS = 64
_QUARTERS = 4
#: Until the next arrival, where progress is reported before it.
_SPARE_NS = 5_000_000


@dataclass(frozen=True)
class Schedule:
    """The arrivals of one process: when each is due, ns from the start (int64, ascending), and
    which query of all rounds it asks (int64). length_ns: nothing is sent from then on."""

    due: NDArray[np.int64]
    queries: NDArray[np.int64]
    length_ns: int

    def split(self, parts: int) -> list[Schedule]:
        """The arrivals dealt out to so many processes, one to each in turn."""
        return [
            Schedule(self.due[nth::parts], self.queries[nth::parts], self.length_ns)
            for nth in range(parts)
        ]


@dataclass(frozen=True)
class WorkerResult:
    """What one process did. lag: a packed recorder of actual minus intended sends. late: arrivals
    that no client was free for when they were due. in_flight_ns: the time that requests took, in
    all. finished: those done in each quarter of the time."""

    done: Done
    lag: bytes
    unsent: int
    late: int
    in_flight_ns: int
    finished: tuple[int, ...]


class ArrivalQueue:
    """The clients of a process at their work: who is free takes the next arrival.

    report: called by the first client where it has time to spare, in place of a thread beside it.
    """

    def __init__(
        self, pool: ClientPool, schedule: Schedule, report: Callable[[], None] = lambda: None
    ) -> None:
        self._pool, self._length_ns, self._report = pool, schedule.length_ns, report
        # Taking from an iterator over a list is one step, whoever else takes.
        arrivals = zip(
            schedule.due.tolist(),
            schedule.queries.tolist(),
            _logged(len(schedule.due)),
            strict=True,
        )
        self._next = iter(list(arrivals))
        self.lags = [Recorder() for _ in range(pool.clients)]
        self.unsent, self.late = [0] * pool.clients, [0] * pool.clients
        self.in_flight_ns = [0] * pool.clients
        self.finished = [[0] * _QUARTERS for _ in range(pool.clients)]

    def work(self, client: int) -> None:
        """What one client does from the common start on."""
        pool, clock, length_ns = self._pool, perf_counter_ns, self._length_ns
        recorder, lag = pool.recorders[client], self.lags[client]
        start, report_at = pool.phase_start.started_ns, 0
        lag.start(start)
        for offset, number, logs in self._next:
            due, now = start + offset, clock()
            if now >= start + length_ns or pool.halt:
                self.unsent[client] += 1
                continue
            self.late[client] += now > due
            if client == 0 and due - now > _SPARE_NS and now >= report_at:
                self._report()
                report_at = now + int(PROGRESS_S * 1e9)
            while (left_ns := due - clock()) > 0:
                time.sleep(left_ns / 1e9)
            query, vector, search = pool.requests[number]
            sample = timed_search(search, vector)
            sent, done = sample.sent_ns, sample.done_ns
            record_answer(recorder, query, sample, due)
            if sample.result is not None and logs and pool.logs_answers:
                pool.answer_logs[client].append(query, vector, *sample.result)
            lag.operation(due, due, sent)
            pool.issued[client] += 1
            pool.ended[client] = done
            self.in_flight_ns[client] += done - sent
            if done - start < length_ns:
                self.finished[client][(done - start) * _QUARTERS // length_ns] += 1

    def result(self, done: Done) -> WorkerResult:
        """The whole of it."""
        lag, *others = self.lags
        for other in others:
            lag.merge(other)
        return WorkerResult(
            done,
            lag.pack(),
            sum(self.unsent),
            sum(self.late),
            sum(self.in_flight_ns),
            tuple(map(sum, zip(*self.finished, strict=True))),
        )


def schedule_of(load: OpenLoop, queries: NDArray[np.float32] | Queries, seed: int) -> Schedule:
    """All arrivals of a load, drawn from the seed: in each pass all queries of a round."""
    due = due_times(load, seed)
    asked = queries if isinstance(queries, Queries) else Queries.same(queries)
    rounds, count = asked.parts(), asked.count
    return Schedule(due, _asked(len(due), rounds, count, seed), int(load.duration_s * 1e9))


def serve(
    pool: ClientPool, schedule: Schedule, report: Callable[[], None] = lambda: None
) -> WorkerResult:
    """Have a pool, which is warm when it begins, serve its part of the arrivals."""
    alone = pool.clients == 1
    queue = ArrivalQueue(pool, schedule, report if alone else lambda: None)
    pool.loop = queue.work
    cpu_ns = pool.run(report, in_threads=not alone)
    return queue.result(done(pool, cpu_ns))


def phase_of_results(
    name: str,
    load: OpenLoop,
    schedule: Schedule,
    clients: int,
    started_ns: int,
    told: Sequence[WorkerResult],
    truth: Truth,
    load_1m: float,
) -> Phase:
    """The phase that the records of one process or several make, as one of the engine's would be.

    Args:
        schedule: of all of them.
        clients: in all.
    """
    length_ns = schedule.length_ns
    ended_ns = max(started_ns + length_ns, *(one.done.ended_ns for one in told))
    recorder = merged([one.done for one in told], truth)
    recorder.finish(ended_ns)
    lag, *others = [Recorder.unpack(one.lag) for one in told]
    for other in others:
        lag.merge(other)
    quarters = np.minimum(schedule.due * _QUARTERS // length_ns, _QUARTERS - 1)
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
        # A client who is late is what these lanes measure; a fault where arrivals were lost.
        "bound_met": sum(one.late for one in told) if unsent else 0,
        "peak_in_flight": clients,
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
        "concurrency": clients,
        "bound_met": sum(one.late for one in told),
        "warmup_count": sum(one.done.warmed for one in told),
        "warmup_errors": sum(one.done.warmup_errors for one in told),
    }
    # What happens within a library is not seen from here.
    for unknown in ("reconnects", "in_flight_peak"):
        phase.metrics[unknown], phase.missing[unknown] = None, "Python clients do not tell"
    return phase


def due_times(load: OpenLoop, seed: int) -> NDArray[np.int64]:
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


def _logged(arrivals: int) -> list[bool]:
    """Which of the arrivals of a process have their answers logged, spread over all of them."""
    every = max(1, arrivals // MIN_LOGGED)
    return [at % every == 0 for at in range(arrivals)]


def _asked(arrivals: int, rounds: int, queries: int, seed: int) -> NDArray[np.int64]:
    """Which query each arrival asks: all of a round in an order drawn anew for each pass."""
    rng = np.random.default_rng([seed, 2])
    passes = [
        rng.permutation(queries) + nth % rounds * queries for nth in range(arrivals // queries + 1)
    ]
    asked: NDArray[np.int64] = np.concatenate(passes)[:arrivals].astype(np.int64)
    return asked
