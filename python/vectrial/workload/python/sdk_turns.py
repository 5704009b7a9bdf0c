"""The sdk lane in turns: the processes of a load stay connected, and send when they are told to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from time import perf_counter_ns

from vectrial._engine import Judge, Recorder
from vectrial.engine.recorders import merge
from vectrial.model.progress import Progress
from vectrial.workload.answer_log import AnswerLog
from vectrial.workload.ndcg import Gains
from vectrial.workload.python.client_pool import ClientPool
from vectrial.workload.python.pool_turns import PoolTurns
from vectrial.workload.python.sdk_process import Ready, processes, receive
from vectrial.workload.python.sdk_search import ClientShare, split
from vectrial.workload.turn_load import LoadRemainder, Piece

#: Time between granting a turn and its start, so that every process knows of it before.
_LEAD_NS = 2_000_000


@dataclass(frozen=True)
class _PackedPiece:
    """A `Piece` of one process. seconds: sum over all its clients."""

    began_ns: int
    ended_ns: int
    seconds: float
    issued: int
    cpu_s: float
    first: bytes
    later: bytes


@dataclass(frozen=True)
class PackedRemainder:
    """A `LoadRemainder` of one process."""

    warmup: bytes
    warmup_errors: int
    log: AnswerLog
    gains: Gains | None = None


class SdkTurns:
    """A `TurnSender` of clients in other processes, which are connected and warm once it is
    constructed.

    Args:
        whole: the combined share of all processes. judge: judge of its truth.

    Raises:
        StoreError: a process could not connect.
    """

    def __init__(self, whole: ClientShare, judge: Judge, progress: Progress) -> None:
        self.clients, self._judge = whole.load.clients, judge
        width = len(whole.cores) or len(os.sched_getaffinity(0))
        shares = split(replace(whole, in_turns=True), min(self.clients, width))
        self._rest: LoadRemainder | None = None
        with ExitStack() as opened:
            self._pipes = opened.enter_context(processes(shares))
            for pipe in self._pipes:
                receive(pipe, Ready, lambda: progress(0, 1, f"{whole.name}: warming up"))
            self._opened = opened.pop_all()

    def send(self, length_ns: int) -> Piece:
        """Send for this long; see `TurnSender.send`."""
        begin_ns = perf_counter_ns() + _LEAD_NS
        for pipe in self._pipes:
            pipe.send((begin_ns, length_ns))
        parts = [receive(pipe, _PackedPiece, _report_nothing) for pipe in self._pipes]
        return Piece(
            begin_ns,
            max(one.ended_ns for one in parts),
            sum(one.seconds for one in parts) / self.clients,
            sum(one.issued for one in parts),
            sum(one.cpu_s for one in parts),
            self._merge([one.first for one in parts]),
            self._merge([one.later for one in parts]),
        )

    def _merge(self, packed: Sequence[bytes]) -> Recorder:
        return merge(Recorder.unpack(one, self._judge) for one in packed)

    def end(self) -> LoadRemainder:
        """Stop sending; see `TurnSender.end`."""
        if self._rest is None:
            with self._opened:
                for pipe in self._pipes:
                    pipe.send(None)
                parts = [_receive_remainder(pipe) for pipe in self._pipes]
            log = AnswerLog()
            for one in parts:
                log.extend(one.log)
            errors = sum(one.warmup_errors for one in parts)
            warmup = self._merge([one.warmup for one in parts])
            self._rest = LoadRemainder(warmup, errors, log, _all_gains(parts))
        return self._rest


def _all_gains(parts: Sequence[PackedRemainder]) -> Gains | None:
    """Gains of all processes; None if nothing was graded."""
    graded = [one.gains for one in parts if one.gains is not None]
    whole = Gains()
    for gains in graded:
        whole.add(gains)
    return whole if graded else None


def _receive_remainder(pipe: Connection) -> PackedRemainder:
    """The rest of a process, after any pieces that it has already sent."""
    while isinstance(message := receive(pipe, object, _report_nothing), _PackedPiece):
        pass
    assert isinstance(message, PackedRemainder), "the last thing that it sends"
    return message


def _report_nothing() -> None:
    """Report nothing during a turn."""


def take_turns(pool: ClientPool, pipe: Connection) -> PackedRemainder:
    """Warm up in this process, and send on request until there are no more turns."""
    turns = PoolTurns(pool)
    pipe.send(Ready())
    while (asked := pipe.recv()) is not None:
        begin_ns, length_ns = asked
        piece = turns.send(length_ns, begin_ns)
        pipe.send(
            _PackedPiece(
                piece.began_ns,
                piece.ended_ns,
                piece.seconds * pool.clients,
                piece.issued,
                piece.cpu_s,
                piece.first.pack(),
                piece.later.pack(),
            )
        )
    rest = turns.end()
    return PackedRemainder(rest.warmup.pack(), rest.warmup_errors, rest.log, rest.gains)
