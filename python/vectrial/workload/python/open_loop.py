"""The open loop of Python clients, whether they share a process with the store or not.

One schedule is drawn before the clock starts. Clients (threads with a request each) take the next
arrival in turn, wait until it is due, and search. A free client takes an arrival ahead of its time.
If no client is free, an arrival is sent late, but its latency still counts from the time when it
was due.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Recorder
from vectrial.engine.recorders import judge_of, merge
from vectrial.model.dataset import Truth
from vectrial.model.phase import Phase
from vectrial.model.progress import Progress
from vectrial.model.store import Searcher
from vectrial.model.workload import OpenLoop
from vectrial.workload.answer_log import MIN_LOGGED, AnswerCheck
from vectrial.workload.python.client_pool import ClientPool, ClientRecorders
from vectrial.workload.python.sdk_process import Done, done_message, merge_answers, merge_recorders
from vectrial.workload.python.threads import PROGRESS_S
from vectrial.workload.python.timed import record_answer, timed_search
from vectrial.workload.queries import Queries
from vectrial.workload.record import outcome_of_clients, phase_of_outcome

#: Clients in all, where the load allows as many in flight: what the native lane has of connections
#: that carry one request at a time. Python runs in one of a process's threads at a time, and gains
#: nothing by more.
MAX_CLIENTS = 64
_QUARTERS, _WARMUP_S = 4, 5.0
#: Until the next arrival, where progress is reported before it.
_SPARE_NS = 5_000_000


@dataclass(frozen=True)
class Schedule:
    """The arrivals of one process: when each is due, ns from the start (int64, ascending), and the
    number of its query among all rounds (int64). length_ns: nothing is sent from then on."""

    due: NDArray[np.int64]
    queries: NDArray[np.int64]
    length_ns: int

    def split(self, parts: int) -> list[Schedule]:
        """The arrivals dealt out to this many processes, one to each in turn."""
        return [
            Schedule(self.due[nth::parts], self.queries[nth::parts], self.length_ns)
            for nth in range(parts)
        ]


@dataclass(frozen=True)
class WorkerResult:
    """The result of one process.

    lag: a packed recorder of actual minus intended send times. late: arrivals for which no client
        was free when they were due. in_flight_ns: the time of all requests. finished: requests done
        in each quarter of the time.
    """

    done: Done
    lag: bytes
    unsent: int
    late: int
    in_flight_ns: int
    finished: tuple[int, ...]


class ArrivalQueue:
    """The arrivals that the clients of a process serve: a free client takes the next one.

    report: called by the first client when it has time to spare, which saves a separate thread.
    """

    def __init__(
        self, pool: ClientPool, schedule: Schedule, report: Callable[[], None] = lambda: None
    ) -> None:
        self._pool, self._length_ns, self._report = pool, schedule.length_ns, report
        # Taking from an iterator over a list is one step, even with several threads.
        arrivals = zip(
            schedule.due.tolist(),
            schedule.queries.tolist(),
            _logged_flags(len(schedule.due)),
            strict=True,
        )
        self._next = iter(list(arrivals))
        self.lags = ClientRecorders(None)
        self.unsent, self.late = [0] * pool.clients, [0] * pool.clients
        self.in_flight_ns = [0] * pool.clients
        self.finished = [[0] * _QUARTERS for _ in range(pool.clients)]

    def work(self, client: int) -> None:
        """Serve arrivals as one client, from the common start."""
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
        """The result of all clients."""
        return WorkerResult(
            done,
            merge([Recorder(), *self.lags]).pack(),
            sum(self.unsent),
            sum(self.late),
            sum(self.in_flight_ns),
            tuple(map(sum, zip(*self.finished, strict=True))),
        )


def open_loop(
    searcher: Searcher | Sequence[Searcher],
    queries: NDArray[np.float32] | Queries,
    truth: Truth,
    load: OpenLoop,
    *,
    single_thread: bool,
    warmup_queries: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
    name: str = "search",
    check: AnswerCheck | None = None,
) -> Phase:
    """Search under `load` with as many threads of this process as may be in flight, up to
    `MAX_CLIENTS`: waits for the library, and for each other, are in the latency.

    Args:
        searcher: one for all queries, or one for each.
        single_thread: the calling thread is the only client: the searcher allows only one thread.
        warmup_queries: total for all clients; each sends at least one.
        check: see `closed_loop`.

    Raises:
        StoreError: the searcher's ids are not what `Searcher` promises, a fault of the adapter.
    """
    clients = 1 if single_thread else min(load.in_flight, MAX_CLIENTS)
    length_s = load.duration_s
    pool = ClientPool(searcher, queries, judge_of(truth), clients, seed, length_s, length_s, None)
    pool.warmup = (max(1, warmup_queries // clients), _WARMUP_S)
    pool.logs_answers = check is not None
    schedule = schedule_of(load, queries, seed)
    result = serve(pool, schedule, pool.reporter(progress, name))
    started_ns, load_1m = pool.phase_start.started_ns, pool.phase_start.load_1m
    phase = phase_of_results(name, load, schedule, clients, started_ns, [result], truth, load_1m)
    if check is not None:
        check(phase, merge_answers([result.done], truth))
    return phase


def schedule_of(load: OpenLoop, queries: NDArray[np.float32] | Queries, seed: int) -> Schedule:
    """All arrivals of a load, drawn from the seed: in each pass all queries of a round."""
    due = due_times(load, seed)
    queries = queries if isinstance(queries, Queries) else Queries.constant(queries)
    order = _query_order(len(due), queries.round_count(), queries.count, seed)
    return Schedule(due, order, int(load.duration_s * 1e9))


def serve(
    pool: ClientPool, schedule: Schedule, report: Callable[[], None] = lambda: None
) -> WorkerResult:
    """Let a pool, which is warm when it begins, serve its part of the arrivals."""
    alone = pool.clients == 1
    queue = ArrivalQueue(pool, schedule, report if alone else lambda: None)
    pool.loop = queue.work
    cpu_ns = pool.run(report, in_threads=not alone)
    return queue.result(done_message(pool, cpu_ns))


def phase_of_results(
    name: str,
    load: OpenLoop,
    schedule: Schedule,
    clients: int,
    started_ns: int,
    results: Sequence[WorkerResult],
    truth: Truth,
    load_1m: float,
) -> Phase:
    """The phase made from the records of one or several processes, as for the engine.

    Args:
        schedule: the schedule of all processes.
        clients: number of clients in all.
    """
    length_ns = schedule.length_ns
    ended_ns = max(started_ns + length_ns, *(one.done.ended_ns for one in results))
    recorder = merge_recorders([one.done for one in results], truth)
    recorder.finish(ended_ns)
    lag = merge(Recorder.unpack(one.lag) for one in results)
    quarters = np.minimum(schedule.due * _QUARTERS // length_ns, _QUARTERS - 1)
    come = np.bincount(quarters, minlength=_QUARTERS)
    finished = np.sum([one.finished for one in results], axis=0)
    unsent, late = sum(one.unsent for one in results), sum(one.late for one in results)
    outcome = outcome_of_clients(
        [(name, recorder, lag, sum(one.done.issued for one in results))],
        started_ns,
        ended_ns,
        cpu_ns=sum(one.done.cpu_ns for one in results),
        unsent=unsent,
        late=late,
        clients=clients,
        in_flight_ns=sum(one.in_flight_ns for one in results),
        duration_s=load.duration_s,
        backlog=np.cumsum(come - finished).tolist(),
    )
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
        "in_flight_limit_hits": late,
        "warmup_count": sum(one.done.warmed for one in results),
        "warmup_errors": sum(one.done.warmup_errors for one in results),
    }
    # What happens within a library is not seen from here.
    for unknown in ("reconnects", "in_flight_peak"):
        phase.metrics[unknown], phase.missing[unknown] = None, "Python clients do not tell"
    return phase


def due_times(load: OpenLoop, seed: int) -> NDArray[np.int64]:
    """Due times of requests, int64 ns from the start, ascending, all before the end; Poisson
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
    in_time: NDArray[np.int64] = due[due < length_ns].astype(np.int64)
    return in_time


def _logged_flags(arrivals: int) -> list[bool]:
    """Flags that say whether each arrival's answer is logged, evenly spread over the arrivals of a
    process."""
    every = max(1, arrivals // MIN_LOGGED)
    return [at % every == 0 for at in range(arrivals)]


def _query_order(arrivals: int, rounds: int, queries: int, seed: int) -> NDArray[np.int64]:
    """The query of each arrival: in each pass all queries of a round, in a newly drawn order."""
    rng = np.random.default_rng([seed, 2])
    passes = [
        rng.permutation(queries) + nth % rounds * queries for nth in range(arrivals // queries + 1)
    ]
    order: NDArray[np.int64] = np.concatenate(passes)[:arrivals].astype(np.int64)
    return order
