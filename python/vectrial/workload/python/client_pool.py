"""Clients in this process that begin together, each with one request at a time.

A timed sample contains the searcher's call and nothing else. Judging, recording, shuffling and
progress happen between two samples of a client, where they cost throughput (measured in
`bench/overhead.py`) but no latency.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import length_hint

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge, Recorder
from vectrial.engine.recorders import merge
from vectrial.model.errors import StoreError
from vectrial.model.progress import Progress
from vectrial.model.store import Searcher
from vectrial.workload.answer_log import MIN_LOGGED, AnswerLog, PhaseAnswers
from vectrial.workload.ndcg import NdcgScorer
from vectrial.workload.python.threads import PROGRESS_S, run_threads
from vectrial.workload.python.timed import FATAL, describe, timed_search
from vectrial.workload.queries import Queries
from vectrial.workload.record import PhaseStart

#: (index of the query, its vector, what searches for it)
Request = tuple[int, NDArray[np.float32], Searcher]

_FOREVER = 1 << 62
_clock = time.perf_counter_ns
#: Requests of all clients that are logged, or not, together.
_BLOCK = 250


@dataclass(frozen=True)
class RequestSpan:
    """Requests of a client in order. first: their queries are new in the phase. ends_pass: after
    the last of them, every query was sent as often as any other."""

    requests: list[Request]
    first: bool
    ends_pass: bool


class ClientRecorders:
    """A recorder of each client, made when it is first asked for: each takes half a MiB, which
    counts where memory is what is measured."""

    def __init__(self, judge: Judge | None) -> None:
        self._judge = judge
        self._made: dict[int, Recorder] = {}

    def __getitem__(self, client: int) -> Recorder:
        """The recorder of one client; only that client's thread makes it."""
        found = self._made.get(client)
        if found is None:
            found = self._made[client] = Recorder(self._judge)
        return found

    def __iter__(self) -> Iterator[Recorder]:
        """The recorders that were made."""
        return iter(list(self._made.values()))


class ClientPool:
    """The clients of one phase in this process, the data of each, and their common start.

    first, of: the number of the first client, and how many there are in all, if others are in other
        processes.
    logs_answers: some answers are logged, to be checked after the phase.
    begin: called when all are warm; returns at the instant of their start.
    loop: what each client does from then on, instead of passes over all queries.
    """

    def __init__(
        self,
        searcher: Searcher | Sequence[Searcher],
        queries: NDArray[np.float32] | Queries,
        judge: Judge | None,
        clients: int,
        seed: int,
        min_s: float,
        max_s: float | None,
        count: int | None,
    ) -> None:
        self.clients, self.seed = clients, seed
        queries = queries if isinstance(queries, Queries) else Queries.constant(queries)
        each = [searcher] * queries.count if callable(searcher) else searcher
        self.rounds = [_requests(one, each) for one in queries.rounds]
        self.requests = [one for requests in self.rounds for one in requests]
        self._before = _requests(queries.warmup, each)
        self.min_s, self.max_s, self.count = min_s, max_s, count
        self.warmup = (0, 0.0)
        # Of each client: what it records in the open loop, and of passes that were made before.
        self.recorders = ClientRecorders(judge)
        self._firsts = ClientRecorders(judge)
        self._warm_answers = ClientRecorders(judge)
        self.judge, self.answer_logs = judge, [AnswerLog() for _ in range(clients)]
        self._blocks = [0] * clients
        self.warmed, self.warmup_errors = [0] * clients, [0] * clients
        self.issued, self.ended = [0] * clients, [0] * clients
        self.report_at = [0] * clients
        self.barrier = threading.Barrier(clients, action=self._begin)
        self.halt = False
        self.first, self.client_count = 0, clients
        self.logs_answers = False
        self.begin: Callable[[], PhaseStart] = PhaseStart.now
        self.loop: Callable[[int], None] | None = None
        self.scorer: NdcgScorer | None = None

    def run(self, report: Callable[[], None], *, in_threads: bool) -> int:
        """Warm up, begin together and search to the end; without threads, as a single client in the
        calling thread. Returns `time.process_time_ns` right after the last answer."""
        # What exists now is not looked at again: a collection within the phase stays short. This
        # one walks over the whole heap, so it comes before the warm-up, which fills the caches.
        # Where part of it was set aside before (`vectrial.util.program`), all stays so: to walk
        # over that part before every phase takes longer than many a phase.
        ours = gc.get_freeze_count() == 0
        gc.collect()
        gc.freeze()
        try:
            if in_threads:
                run_threads(self.clients, lambda at: self.work(at, lambda: None), self.stop, report)
            else:
                self.work(0, report)
            cpu_ns = time.process_time_ns()
        finally:
            if ours:
                gc.unfreeze()
        return cpu_ns

    def merged_recorder(self) -> Recorder:
        """Combined record of all clients."""
        return merge([Recorder(self.judge), *self._firsts, *self.recorders])

    def answers(self) -> PhaseAnswers:
        """Recorders of the answers by pass, and the logged answers."""
        first, later = (
            merge([Recorder(self.judge), *recorders])
            for recorders in (self._firsts, self.recorders)
        )
        return PhaseAnswers(self.warm_up_recorder(), first, later, self.merged_log())

    def warm_up_recorder(self) -> Recorder:
        """Recorder of the answers before the clock started."""
        return merge([Recorder(self.judge), *self._warm_answers])

    def merged_log(self) -> AnswerLog:
        """The answers that were logged."""
        logged = AnswerLog()
        for log in self.answer_logs:
            logged.extend(log)
        return logged

    def _begin(self) -> None:
        """Start the phase; run by the last client that is warm, while all others wait."""
        self.phase_start = self.begin()
        for recorder in (*self.recorders, *self._firsts):
            recorder.start(self.phase_start.started_ns)

    def work(self, client: int, report: Callable[[], None]) -> None:
        """Work as one client: warm up, wait for the others, search."""
        rng = np.random.default_rng([self.seed, self.first + client])
        try:
            begins = self.warm_up(client, rng)
            self.barrier.wait()
            started = self.phase_start.started_ns
            stop = _FOREVER if self.max_s is None else started + int(self.max_s * 1e9)
            self.ended[client] = started
            if self.loop is not None:
                self.loop(client)
                return
            for part in self._parts(client, begins, rng):
                if not self._search(client, part, stop, report):
                    break
        except ValueError as error:
            # Only the recorder raises here: what the searcher raises is caught and counted.
            raise StoreError(f"an answer cannot be judged: {error}") from error

    def warm_up(self, client: int, rng: np.random.Generator) -> list[RequestSpan]:
        """Warm a client up, with the recorders that it will use; returns its first pass."""
        self._warm(client, rng)
        _ = self.recorders[client]
        if self.loop is None:
            _ = self._firsts[client]
        return list(self._first_pass(self.first + client, rng))

    def _first_pass(self, number: int, rng: np.random.Generator) -> Iterator[RequestSpan]:
        """The first pass of client `number` among all clients: its share of the queries, then those
        with which others begin."""
        requests = self.rounds[number % len(self.rounds)]
        # All draw the same shares, so that no two of them begin with the same query.
        together = _order(requests, np.random.default_rng([self.seed, 1]))
        others = [one for at, one in enumerate(together) if at % self.client_count != number]
        yield RequestSpan(_order(together[number :: self.client_count], rng), True, not others)
        if others:
            yield RequestSpan(_order(others, rng), False, True)

    def passes(
        self, client: int, begins: list[RequestSpan], rng: np.random.Generator
    ) -> Iterator[RequestSpan]:
        """Endless passes over all queries, each round in a newly drawn order."""
        yield from begins
        turn, rounds = self.first + client, len(self.rounds)
        while True:
            turn += self.client_count
            # Each goes on with rounds that are its own, every so many-th, until they end.
            yield RequestSpan(_order(self.rounds[turn % rounds], rng), False, True)

    def _parts(
        self, client: int, begins: list[RequestSpan], rng: np.random.Generator
    ) -> Iterator[RequestSpan]:
        """Passes until this client has done its share."""
        if self.count is None:
            end = self.phase_start.started_ns + int(self.min_s * 1e9)
            for part in self.passes(client, begins, rng):
                yield part
                if part.ends_pass and _clock() >= end:
                    return
            return
        left = self.count // self.clients + (client < self.count % self.clients)
        for part in self.passes(client, begins, rng):
            if left <= 0:
                return
            yield RequestSpan(part.requests[:left], part.first, part.ends_pass)
            left -= len(part.requests)

    def _warm(self, client: int, rng: np.random.Generator) -> None:
        count, max_s = self.warmup
        if not count:
            return
        end = _clock() + int(max_s * 1e9)
        seen = self._warm_answers[client]
        seen.start(0)
        while self.warmed[client] < count and not self.halt:
            for query, vector, search in _order(self._before, rng)[: count - self.warmed[client]]:
                sample = timed_search(search, vector)
                if sample.result is None:
                    self.warmup_errors[client] += 1
                else:
                    seen.answer(query, 0, 0, 0, sample.result[0])
                self.warmed[client] += 1
                if _clock() >= end:
                    return

    def _answer_sink(
        self, client: int, recorder: Recorder
    ) -> Callable[[int, int, int, int, NDArray[np.int64]], None]:
        """The function that records an answer of a client, and scores it if there is a scorer."""
        record, scorer = recorder.answer, self.scorer
        if scorer is None:
            return record

        def take(query: int, due: int, sent: int, done: int, ids: NDArray[np.int64]) -> None:
            record(query, due, sent, done, ids)
            scorer.add_answer(client, query, ids)

        return take

    def _search(
        self, client: int, part: RequestSpan, stop: int, report: Callable[[], None]
    ) -> bool:
        """Send the requests of a part, block by block; True if there is time for more."""
        for block in self.blocks(part):
            recorder = (self._firsts if part.first else self.recorders)[client]
            if not self.send(client, iter(block), recorder, self.log(client), stop, report):
                return False
        return True

    def blocks(self, part: RequestSpan) -> Iterator[list[Request]]:
        """The requests of a part in blocks; a block is logged entirely or not at all."""
        length = max(1, _BLOCK // self.client_count) if self.logs_answers else len(part.requests)
        for begin in range(0, len(part.requests), max(1, length)):
            yield part.requests[begin : begin + length]

    def log(self, client: int) -> AnswerLog | None:
        """Log for the answers of a client's next block; None if they are not logged."""
        return self.answer_logs[client] if self._is_logged(client) else None

    def _is_logged(self, client: int) -> bool:
        """True if the answers of a client's next block are logged: the first `MIN_LOGGED` of all
        clients are, and then fewer and fewer blocks (the 2nd, 4th, 8th …), so that every part of a
        phase of any length is sampled. Decided before the queries are sent."""
        self._blocks[client] += 1
        nth = self._blocks[client]
        early = len(self.answer_logs[client]) < MIN_LOGGED / self.client_count
        return self.logs_answers and (early or nth & (nth - 1) == 0)

    def send(
        self,
        client: int,
        rest: Iterator[Request],
        recorder: Recorder,
        log: AnswerLog | None,
        stop: int,
        report: Callable[[], None],
    ) -> bool:
        """Send the remaining requests of a list; True if there is time for more."""
        clock, before = _clock, length_hint(rest)
        answer, done = self._answer_sink(client, recorder), self.ended[client]
        going = clock() < stop  # a client delayed on the way here sends nothing
        try:
            while going:
                pause = min(stop, self.report_at[client])
                for query, vector, search in rest:
                    # `timed_search` and `record_answer` inlined: calling them would cost 0.5 us per
                    # request, as much as the whole loop. test_timed.py keeps both alike.
                    sent = clock()
                    try:
                        ids, scores = search(vector)
                    except FATAL:
                        raise
                    except BaseException as failure:  # noqa: BLE001 - recorded, as the design says
                        done = clock()
                        recorder.error(sent, sent, done, *describe(failure))
                    else:
                        done = clock()
                        answer(query, sent, sent, done, ids)
                        if log is not None:
                            log.append(query, vector, ids, scores)
                    if done >= pause:
                        break
                else:
                    break
                report()
                now = clock()
                going = now < stop and not self.halt
                self.report_at[client] = now + int(PROGRESS_S * 1e9)
        finally:
            self.issued[client] += before - length_hint(rest)
            self.ended[client] = done
        return going and done < stop and not self.halt

    def stop(self) -> None:
        """Let every client end after its current request."""
        self.halt = True
        self.barrier.abort()

    def reporter(self, progress: Progress | None, name: str) -> Callable[[], None]:
        """A function that reports the pool's progress, by time or else by requests."""
        if progress is None:
            return lambda: None
        samples = self.count or len(self.rounds[0]) * self.clients

        def report() -> None:
            if not hasattr(self, "phase_start"):
                progress(0, 1, f"{name}: warming up")
            elif self.count is None and self.min_s > 0:
                elapsed = (_clock() - self.phase_start.started_ns) / 1e9
                progress(min(elapsed, self.min_s), self.min_s, name)
            else:
                every = (*self.recorders, *self._firsts)
                progress(sum(one.samples() for one in every), samples, name)

        return report


def _requests(queries: NDArray[np.float32], searchers: Sequence[Searcher]) -> list[Request]:
    return [
        (at, query, search)
        for at, (query, search) in enumerate(zip(queries, searchers, strict=True))
    ]


def _order(requests: list[Request], rng: np.random.Generator) -> list[Request]:
    return [requests[i] for i in rng.permutation(len(requests)).tolist()]
