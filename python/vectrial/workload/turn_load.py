"""A load that takes turns with the loads of other stores: it sends for a while, and then nothing
until its next turn. Every lane has its own `TurnSender`; `Turns` makes a phase of what it sends."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Protocol

from vectrial._engine import Judge, Recorder
from vectrial.engine.parts import join_outcomes
from vectrial.engine.recorders import merge
from vectrial.engine.types import LoadOutcome
from vectrial.model.errors import StoreError
from vectrial.model.phase import PARTS, Phase, Slice, Turn, serial
from vectrial.telemetry.scheduling import SchedulingTime
from vectrial.workload.answer_log import AnswerLog, PhaseAnswers
from vectrial.workload.ndcg import Gains
from vectrial.workload.record import phase_of_outcome, phase_of_slices


@dataclass(frozen=True)
class Piece:
    """Result of sending without a pause.

    began_ns: the start of the recorders. ended_ns: the last answer. seconds: time until the last
        answer of each client, mean over the clients. issued: requests sent. cpu_s: processor time
        of the clients.
    first: answers to queries that were new in the phase. later: other answers.
    outcome: the engine's outcome, which includes both.
    """

    began_ns: int
    ended_ns: int
    seconds: float
    issued: int
    cpu_s: float
    first: Recorder
    later: Recorder
    outcome: LoadOutcome | None = None


@dataclass(frozen=True)
class LoadRemainder:
    """Data of a load besides its pieces: the recorder of its warm-up, its failed requests, the
    logged answers, and the gains of all timed answers if they are graded."""

    warmup: Recorder
    warmup_errors: int
    log: AnswerLog
    gains: Gains | None = None


#: Processor time of client and store until now; None if it is unknown.
Spent = Callable[[], SchedulingTime | None]


class TurnSender(Protocol):
    """A connected and warm load that sends on request."""

    @property
    def clients(self) -> int | None:
        """Number of clients of a closed loop; None for a schedule, which does not wait for
        answers."""
        ...

    def send(self, length_ns: int) -> Piece:
        """Send for this long, and wait for all answers.

        Raises:
            StoreError: the load has broken down.
        """
        ...

    def end(self) -> LoadRemainder:
        """Stop sending, and close what was opened. May be called again."""
        ...


class Turns:
    """The turns of one load."""

    def __init__(self, sender: TurnSender, judge: Judge, params: Mapping[str, Any]) -> None:
        """params: how the load was offered."""
        self._sender, self._judge, self._params = sender, judge, params
        self._load_1m = os.getloadavg()[0]
        self._first, self._later = Recorder(judge), Recorder(judge)
        #: First answers of what does not count, since a query may be asked there first.
        self._aside: Recorder | None = None
        self._aside_ns = 0
        #: The longest latency of each slice.
        self._longest_us: list[float] = []
        self._started_ns, self._longest_ns = 0, 0
        self._seconds = self._cpu_s = 0.0
        self._issued = 0
        self._outcomes: list[LoadOutcome] = []

    def take(self, turn: Turn, spent: Spent) -> Slice:
        """Take a turn.

        Raises:
            StoreError: the load has broken down.
        """
        if turn.round < 0:  # those by which lengths are found do not count
            return self._take_in_parts(turn, spent)
        head = self._sender.send(turn.head_ns) if turn.head_ns else None
        if head is not None:
            self._set_aside(head)
        body, used = self._send_and_account(turn.length_ns - turn.head_ns, spent)
        both = merge([Recorder(self._judge), body.first, body.later])
        errors = _errors(both)
        count = both.samples() - errors
        self._add(body)
        told = both.summary()
        self._longest_us += filter(None, [told["latency_max"]])
        return Slice(
            turn,
            body.began_ns,
            body.seconds,
            count,
            errors,
            both.histogram("latency") if count else b"",
            0.0 if head is None else head.seconds,
            0 if head is None else _answers(head),
            told["recall_mean"],
            ran_s=None if used is None else used.ran_s,
            waited_s=None if used is None else used.waited_s,
        )

    def _take_in_parts(self, turn: Turn, spent: Spent) -> Slice:
        """A turn that is sent in parts, with the rate of each. If only one thread at a time had
        work, the time that client and store waited for a processor is left out."""
        found = [self._send_and_account(turn.length_ns // PARTS, spent) for _ in range(PARTS)]
        pieces = [piece for piece, _ in found]
        for piece in pieces:
            self._set_aside(piece)
        counts, seconds = [_answers(piece) for piece in pieces], [one.seconds for one in pieces]
        used = [part for _, part in found if part is not None]
        if len(used) == PARTS and serial(
            sum(seconds), sum(part.ran_s for part in used), sum(part.waited_s for part in used)
        ):
            seconds = [s - part.waited_s for s, part in zip(seconds, used, strict=True)]
        rates = tuple(n / s if s > 0 else 0.0 for n, s in zip(counts, seconds, strict=True))
        return Slice(turn, pieces[0].began_ns, sum(seconds), sum(counts), 0, b"", 0, 0, parts=rates)

    def _send_and_account(
        self, length_ns: int, spent: Spent
    ) -> tuple[Piece, SchedulingTime | None]:
        """Send a piece; returns it with the processor time and waits of client and store."""
        before = spent()
        piece = self._sender.send(length_ns)
        after = spent()
        return piece, None if before is None or after is None else after - before

    def _set_aside(self, piece: Piece) -> None:
        """Keep the first answers of a piece that does not count."""
        if self._aside is None:
            self._aside, self._aside_ns = piece.first, piece.began_ns
            return
        piece.first.shift(self._aside_ns - piece.began_ns)
        self._aside.merge(piece.first)

    def _add(self, body: Piece) -> None:
        """Add a piece as if it had followed the previous one: all begin at the same instant."""
        self._started_ns = self._started_ns or body.began_ns
        for whole, part in ((self._first, body.first), (self._later, body.later)):
            part.shift(self._started_ns - body.began_ns)
            whole.merge(part)
        self._longest_ns = max(self._longest_ns, body.ended_ns - body.began_ns)
        self._seconds += body.seconds
        self._cpu_s += body.cpu_s
        self._issued += body.issued
        if body.outcome is not None:
            self._outcomes.append(body.outcome)

    def close(self) -> None:
        """Close what was opened, without a phase."""
        self._sender.end()

    def phase(self, name: str) -> tuple[Phase, PhaseAnswers]:
        """End the load; returns the phase of all turns, as if they had followed one another, and
        its answers."""
        rest = self._sender.end()
        whole = merge([Recorder(self._judge), self._first, self._later])
        first = merge([Recorder(self._judge), self._first])
        if self._aside is not None and self._started_ns:
            self._aside.shift(self._started_ns - self._aside_ns)
            first.merge(self._aside)
        answers = PhaseAnswers(rest.warmup, first, self._later, rest.log, whole)
        clients = self._sender.clients
        if clients is None:
            return self._open_phase(name, whole, rest), answers
        if not self._started_ns:  # it never had a turn
            self._started_ns = perf_counter_ns()
            whole.start(self._started_ns)
        phase = phase_of_slices(
            name,
            whole,
            self._started_ns,
            max(self._seconds, self._longest_ns / 1e9),
            longest_us=self._longest_us,
            cpu_s=self._cpu_s,
            issued=self._issued,
            clients=clients,
            more={
                "load_1m": self._load_1m,
                "warmup_count": (rest.warmup.summary()["count"] or 0) + rest.warmup_errors,
                "warmup_errors": rest.warmup_errors,
            },
            params=self._params,
            no_recall="no ground truth was given",
        )
        if rest.gains is not None:
            phase.metrics |= rest.gains.metrics()
        return phase, answers

    def _open_phase(self, name: str, whole: Recorder, rest: LoadRemainder) -> Phase:
        """The phase of a schedule whose pieces are joined end to end.

        Raises:
            StoreError: it never had a turn.
        """
        if not self._outcomes:
            raise StoreError("it never had a turn")
        outcome = join_outcomes(self._outcomes, whole, rest.warmup, self._started_ns)
        return phase_of_outcome(
            name,
            outcome,
            outcome["classes"][0],
            clients=None,
            load_1m=self._load_1m,
            params=self._params,
            no_recall="no ground truth was given",
            by_second=False,
        )


class TurnLoad(ABC):
    """A load of an experiment that is measured alone by `measure_whole`, or in turns by `open`,
    repeated `take` and `close`. name: name of the phase."""

    name: str
    #: Once it was opened.
    _turns: Turns | None = None

    @abstractmethod
    def measure_whole(self) -> Phase:
        """Measure the load as a whole."""

    @abstractmethod
    def open(self) -> None:
        """Connect and warm up, to take turns.

        Raises:
            StoreError: a client could not connect.
        """

    def take(self, turn: Turn, spent: Spent) -> Slice:
        """Take a turn; see `Turns.take`.

        Raises:
            StoreError: the load has broken down.
        """
        assert self._turns is not None, "it was opened"
        return self._turns.take(turn, spent)

    @abstractmethod
    def close(self) -> Phase:
        """End the turns; returns the phase of all of them."""

    def discard(self) -> None:
        """Close what was opened, in any state."""
        if self._turns is not None:
            self._turns.close()


def _errors(recorder: Recorder) -> int:
    return sum(count for _, count, _ in recorder.errors())


def _answers(piece: Piece) -> int:
    return sum(one.samples() - _errors(one) for one in (piece.first, piece.later))


def mean_seconds(spans_ns: Sequence[tuple[int, int]]) -> float:
    """Mean length of the clients' spans (start, last answer)."""
    return sum(ended - began for began, ended in spans_ns) / len(spans_ns) / 1e9
