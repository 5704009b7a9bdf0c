"""The native lane in turns: the engine keeps its connections, and sends when it is told to."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge, Recorder
from vectrial.engine.client import Session
from vectrial.engine.types import LoadOutcome
from vectrial.model.placement import Certificate
from vectrial.model.workload import ClosedLoop, Load
from vectrial.workload.answer_log import AnswerLog
from vectrial.workload.native.search import WARMUP_S, load_source
from vectrial.workload.searchers import NativeSearches
from vectrial.workload.turn_load import LoadRemainder, Piece


class NativeTurns:
    """A `TurnSender` of the engine's clients, which are connected and warm once it is constructed.

    Args:
        queries: float32 (q, d), the dataset's queries. judge: judge of their truth.
        warmup_queries: warm-up queries of each client.
    """

    def __init__(
        self,
        search: NativeSearches,
        queries: NDArray[np.float32],
        judge: Judge,
        load: Load,
        certificate: Certificate,
        *,
        warmup_queries: int,
        seed: int,
        name: str,
    ) -> None:
        self.clients = load.clients if isinstance(load, ClosedLoop) else None
        self._judge = judge
        self._warmup: Recorder | None = None
        placement = certificate.placement
        settings: dict[str, Any] = {
            "warmup_count": warmup_queries * (self.clients or 1),
            "warmup_s": WARMUP_S if warmup_queries else None,
        }
        self._session = Session(
            search.native.target,
            search.requests(name, queries, judge=judge),
            load_source(load, by_clock=True),
            threads=placement.threads,
            cores=placement.pins,
            dedicated=placement.dedicated,
            seed=seed,
            **settings,
        )
        self._session.__enter__()

    def send(self, length_ns: int) -> Piece:
        """Send for this long; see `TurnSender.send`."""
        outcome = self._session.take(length_ns)
        (record,) = outcome["classes"]
        if self._warmup is None:
            self._warmup = record["warmup"]
        nothing = Recorder(self._judge)
        nothing.start(outcome["started_ns"])
        return Piece(
            outcome["started_ns"],
            outcome["ended_ns"],
            _seconds(outcome, self.clients),
            record["issued"] - record["in_flight"],
            outcome["cpu_ns"] / 1e9,
            nothing,
            record["recorder"],
            outcome,
        )

    def end(self) -> LoadRemainder:
        """Stop sending; see `TurnSender.end`."""
        self._session.__exit__()
        warmup = self._warmup if self._warmup is not None else Recorder(self._judge)
        return LoadRemainder(warmup, sum(count for _, count, _ in warmup.errors()), AnswerLog())


def _seconds(outcome: LoadOutcome, clients: int | None) -> float:
    """Seconds that were measured: in a closed loop, until the last answer of each client, mean over
    the clients; in a schedule, the time in which requests arrived."""
    if clients is None:
        return outcome["duration_s"] or 0.0
    return outcome["busy_s"] / clients
