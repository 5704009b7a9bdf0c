"""Clients of a pool that take turns: each goes on among its requests where its last turn ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import length_hint
from time import perf_counter_ns

import numpy as np

from vectrial._engine import Recorder
from vectrial.engine.recorders import merge
from vectrial.model.errors import StoreError
from vectrial.workload.answer_log import AnswerLog
from vectrial.workload.python.client_pool import ClientPool, Request, RequestSpan
from vectrial.workload.python.threads import ThreadTeam
from vectrial.workload.turn_load import LoadRemainder, Piece, mean_seconds

_NEVER_NS = 1 << 62


@dataclass
class _ClientPosition:
    """A client's position among its requests. blocks: remaining blocks, each with whether its
    queries are new. rest: remaining requests of the current block; first, log: those of this
    block."""

    blocks: Iterator[tuple[list[Request], bool]]
    rest: Iterator[Request]
    first: bool = False
    log: AnswerLog | None = None


@dataclass(frozen=True)
class _ClientTurn:
    """Work of one client in a turn."""

    span_ns: tuple[int, int]
    first: Recorder
    later: Recorder


class PoolTurns:
    """A `TurnSender` of clients in this process, which are warm once it is constructed.

    Raises:
        StoreError: an answer cannot be judged.
    """

    def __init__(self, pool: ClientPool) -> None:
        self.clients = pool.clients
        self._pool = pool
        self._team = ThreadTeam(pool.clients)
        try:
            self._places = self._team.do(self._open)
        except BaseException:
            self._team.close()
            raise

    def _open(self, client: int) -> _ClientPosition:
        pool = self._pool
        rng = np.random.default_rng([pool.seed, pool.first + client])
        with _judging_errors():
            begins = pool.warm_up(client, rng)
        pool.report_at[client] = _NEVER_NS
        return _ClientPosition(_all_blocks(pool, pool.passes(client, begins, rng)), iter(()))

    def send(self, length_ns: int, begin_ns: int = 0) -> Piece:
        """Send for this long, see `TurnSender.send`; from `begin_ns` on, or now if that has
        passed."""
        while (left_ns := begin_ns - perf_counter_ns()) > 0:
            time.sleep(left_ns / 1e9)
        begin_ns = begin_ns or perf_counter_ns()
        issued, cpu_ns = sum(self._pool.issued), time.process_time_ns()
        done = self._team.do(lambda client: self._turn(client, begin_ns, length_ns))
        cpu_ns = time.process_time_ns() - cpu_ns
        return Piece(
            begin_ns,
            max(one.span_ns[1] for one in done),
            mean_seconds([one.span_ns for one in done]),
            sum(self._pool.issued) - issued,
            cpu_ns / 1e9,
            merge(one.first for one in done),
            merge(one.later for one in done),
        )

    def _turn(self, client: int, begin_ns: int, length_ns: int) -> _ClientTurn:
        pool, place = self._pool, self._places[client]
        first, later = Recorder(pool.judge), Recorder(pool.judge)
        for recorder in (first, later):
            recorder.start(begin_ns)
        stop, going = begin_ns + length_ns, True
        started = pool.ended[client] = perf_counter_ns()
        with _judging_errors():
            while going:
                if not length_hint(place.rest):
                    block, place.first = next(place.blocks)
                    place.rest, place.log = iter(block), pool.log(client)
                recorder = first if place.first else later
                going = pool.send(client, place.rest, recorder, place.log, stop, lambda: None)
        return _ClientTurn((started, pool.ended[client]), first, later)

    def end(self) -> LoadRemainder:
        """Stop sending; see `TurnSender.end`."""
        self._team.close()
        pool = self._pool
        gains = None if pool.scorer is None else pool.scorer.total()
        return LoadRemainder(
            pool.warm_up_recorder(), sum(pool.warmup_errors), pool.merged_log(), gains
        )


def _all_blocks(
    pool: ClientPool, parts: Iterator[RequestSpan]
) -> Iterator[tuple[list[Request], bool]]:
    for part in parts:
        for block in pool.blocks(part):
            yield block, part.first


@contextmanager
def _judging_errors() -> Iterator[None]:
    """Raise `StoreError` for a `ValueError`, which only a recorder raises here."""
    try:
        yield
    except ValueError as error:
        raise StoreError(f"an answer cannot be judged: {error}") from error
