"""The parent of a measuring process, as that process sees it: gets its messages, and does what only
the process that started the server can do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from time import perf_counter_ns
from typing import Any

from vectrial.engine.parts import Order, Sent
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.faults import Crash, Fault, FaultEvent
from vectrial.model.objects import ObjectsAccess, ObjectsRequest
from vectrial.model.phase import Live
from vectrial.worker.messages import (
    CloseObjects,
    CrashServer,
    Finished,
    GetTruth,
    GiveTurn,
    OpenObjects,
    Progress,
    PutTruth,
    RestartFailed,
    SendLoad,
    Serving,
    Strike,
    TrialEnded,
    TrialStarted,
    TruthFile,
    TurnResult,
    Waiting,
)

PROGRESS_EVERY_S = 0.2
SHOW_EVERY_S = 0.9


class Parent:
    """The other end of the pipe. One thread requests at a time; others may show progress."""

    def __init__(self, pipe: Connection, server_cores: Callable[[], float | None]) -> None:
        """server_cores: the number that the server keeps busy now, or None if unknown."""
        self._pipe = pipe
        self._server_cores = server_cores
        self._sending = threading.Lock()
        self._last_progress = self._last_shown = 0.0

    def is_sending(self) -> bool:
        """True while a message is being sent; an interrupt would leave half of it in the pipe."""
        return self._sending.locked()

    def started(self, key: str) -> None:
        """Report that a trial begins."""
        self._send(TrialStarted(key))

    def ended(self, key: str) -> None:
        """Report that a trial has ended."""
        self._send(TrialEnded(key))

    def finished(self, trials: Sequence[Finished]) -> None:
        """Send finished trials, and wait until they are written."""
        for trial in trials:
            self._send(trial)
        for _ in trials:
            self._pipe.recv()

    def progress(self, done: float, total: float, what: str) -> None:
        """Send progress, seldom enough to cost nothing."""
        now = time.monotonic()
        if now - self._last_progress >= PROGRESS_EVERY_S:
            self._last_progress = now
            self._send(Progress(done, total, what))

    def show(self, live: Live) -> None:
        """Send the state of a phase, once a second."""
        now = time.monotonic()
        if now - self._last_shown >= SHOW_EVERY_S:
            self._last_shown = now
            self._send(replace(live, server_cores=self._server_cores()))

    def ask(self, message: object) -> Any:
        """Send a request and return the answer.

        Raises:
            Unsupported: the request is impossible.
        """
        self._send(message)
        answer = self._pipe.recv()
        if isinstance(answer, str):
            raise Unsupported(answer)
        return answer

    def crash(self, how: Crash) -> Serving:
        """End and restart the server; see `Context.crash`.

        Raises:
            StoreError: it does not come back.
        """
        answer: Serving | RestartFailed = self.ask(CrashServer(how))
        if isinstance(answer, RestartFailed):
            raise StoreError(answer.why)
        return answer

    def strike(self, node: int, fault: Fault, back: bool) -> tuple[FaultEvent, Serving]:
        """Inject or end a fault of a node; see `Context.strike`. Another thread may call this while
        no message that expects an answer is sent."""
        at_ns = perf_counter_ns()
        serving: Serving = self.ask(Strike(node, fault, back))
        took_s = (perf_counter_ns() - at_ns) / 1e9
        return FaultEvent(serving.struck, fault, at_ns, took_s), serving

    def drive(self, order: Order) -> Sent:
        """Have the client machines send a load; see `Context.from_machines`.

        Raises:
            StoreError: they could not.
        """
        self._send(SendLoad(order))
        answer: Sent | str = self._pipe.recv()
        if isinstance(answer, str):
            raise StoreError(answer)
        return answer

    def get(self, name: str) -> bytes | None:
        """A file of a truth; see `TruthFiles`."""
        file: TruthFile = self.ask(GetTruth(name))
        return file.content

    def put(self, name: str, content: bytes) -> None:
        """Keep a file of a truth; see `TruthFiles`."""
        self.ask(PutTruth(name, content))

    @contextmanager
    def objects(self, key: str, request: ObjectsRequest) -> Iterator[ObjectsAccess]:
        """An object store that the parent starts and stops; see `Context.objects`."""
        access: ObjectsAccess = self.ask(OpenObjects(request, key))
        done = False
        try:
            yield access
            done = True
        finally:
            self._send(CloseObjects(done))
            self._pipe.recv()

    def turns(self, names: Mapping[str, str]) -> Iterator[GiveTurn]:
        """Announce the waiting loads, and yield the turns that they are given. Answer each turn
        with `turn_result`."""
        self._send(Waiting(names))
        while isinstance(message := self._pipe.recv(), GiveTurn):
            yield message

    def turn_result(self, message: TurnResult) -> None:
        """Send the result of a turn."""
        self._send(message)

    def _send(self, message: object) -> None:
        with self._sending:
            self._pipe.send(message)
