"""The native lane's call into the engine: plans with defaults, progress, and a way to stop."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge, LoadControl, run_load
from vectrial.engine.pem import der
from vectrial.engine.types import (
    LoadColumn,
    LoadOutcome,
    LoadRecord,
    LoadSettings,
    LoadSource,
)
from vectrial.model.errors import StoreError, UserError
from vectrial.model.store import LoadTarget, LoadTls
from vectrial.model.workload import IN_FLIGHT

#: Seconds between two calls of `progress`.
PROGRESS_S = 0.2
_READY_POLL_S = 0.002
WINDOW_NS = 1_000_000_000
#: Default settings of a plan; see `LoadSettings`.
_SETTINGS: LoadSettings = {
    "duration_s": None,
    "warmup_s": None,
    "warmup_count": None,
    "threads": 1,
    "cores": (),
    "connections": None,
    "timeout_s": 30.0,
    "seed": 0,
    "dedicated": False,
    "window_ns": WINDOW_NS,
}


@dataclass(frozen=True)
class MachineShare:
    """One machine's part of a load that several machines send together: every schedule, every
    number of clients and every order of requests is split among the threads of all of them.

    machine: its number, below `machines`. start: called when this machine has connected and warmed
        up; it waits for the others and returns the instant at which all measure, in ns of this
        machine's `time.perf_counter_ns`. began: is told when this machine's last thread began.
    """

    machine: int = 0
    machines: int = 1
    start: Callable[[], int] | None = None
    began: Callable[[int], None] = lambda at_ns: None


ALONE = MachineShare()


@dataclass(frozen=True)
class Requests:
    """Requests of one kind. Fields that an operation does not need are None or empty.

    operation: search, insert, upsert, get, delete or payload.
    vectors: float32 (q, d), the queries or the rows to write. ids: int64, rows of a write, get or
        delete, `batch` in each request.
    filters: distinct filters in the protocol's own words; filter_of: uint32 (q,), index of the
        filter for query i (None: the first for all, if there is one).
    options: the protocol's own (collection, names of fields, search parameters, …).
    judge: exact answers of the same queries. once: each request is sent once, in order.
    keep: keep every answer's first k rows, which takes 12·k bytes of memory each, and the instants
        of every request.
    """

    name: str
    operation: str = "search"
    vectors: NDArray[np.float32] | None = None
    ids: NDArray[np.int64] | None = None
    columns: Sequence[LoadColumn] = ()
    k: int = 10
    batch: int = 1
    filters: Sequence[bytes] = ()
    filter_of: NDArray[np.uint32] | None = None
    payloads: Sequence[bytes] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    judge: Judge | None = None
    once: bool = False
    keep: bool = False

    def plain(self) -> dict[str, Any]:
        """The fields by name, as the engine takes them."""
        return {
            **vars(self),
            "vectors": _contiguous(self.vectors, np.float32),
            "ids": _contiguous(self.ids, np.int64),
            "filter_of": _contiguous(self.filter_of, np.uint32),
            "options": dict(self.options),
        }


def _contiguous(values: NDArray[Any] | None, kind: type[np.generic]) -> NDArray[Any] | None:
    return None if values is None else np.ascontiguousarray(values, kind)


def target(
    protocol: str,
    host: str,
    port: int,
    *,
    tls: LoadTls | None = None,
    headers: Sequence[tuple[str, str]] = (),
    options: Mapping[str, str] | None = None,
    nodes: Sequence[tuple[str, int]] = (),
    primary: bool = False,
) -> LoadTarget:
    """A server; see `LoadTarget`."""
    return {
        "protocol": protocol,
        "host": host,
        "port": port,
        "tls": tls,
        "headers": list(headers),
        "options": dict(options or {}),
        "nodes": list(nodes),
        "primary": primary,
    }


def tls(name: str, ca: Path | None = None) -> LoadTls:
    """TLS to the server of that name (a domain or an IP address), whose certificate was signed by
    an authority in the PEM file `ca`, or else by one that this machine trusts.

    Raises:
        UserError: there is no certificate to trust.
    """
    if ca is not None:
        return {"roots": der(ca, "CERTIFICATE"), "name": name}
    roots = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not roots:
        raise UserError("this machine trusts no certificate", remedy="give a PEM file to trust")
    return {"roots": roots, "name": name}


def closed(
    clients: int,
    *,
    mix: Sequence[tuple[int, float]] = ((0, 1.0),),
    count: int | None = None,
    passes_s: float | None = None,
    background: bool = False,
) -> LoadSource:
    """Clients with one request each, who send the next when it is answered; with `passes_s` for
    whole passes over the requests, until this many seconds have passed."""
    return {
        "arrival": "closed",
        "clients": clients,
        "rate": 0.0,
        "offsets": None,
        "in_flight": clients,
        "mix": list(mix),
        "count": count,
        "passes_s": passes_s,
        "background": background,
    }


def arrivals(
    rate: float = 0.0,
    *,
    kind: str = "poisson",
    offsets: NDArray[np.int64] | None = None,
    mix: Sequence[tuple[int, float]] = ((0, 1.0),),
    count: int | None = None,
    in_flight: int = IN_FLIGHT,
    background: bool = False,
) -> LoadSource:
    """A schedule that does not wait for answers: "poisson" or "constant" at `rate` per second,
    or "trace" with `offsets` in ns from the start."""
    return {
        "arrival": kind,
        "clients": 0,
        "rate": rate,
        "offsets": None if offsets is None else np.ascontiguousarray(offsets, np.int64),
        "in_flight": in_flight,
        "mix": list(mix),
        "count": count,
        "passes_s": None,
        "background": background,
    }


def drive(
    target: LoadTarget,
    requests: Sequence[Requests],
    sources: Sequence[LoadSource],
    *,
    share: MachineShare = ALONE,
    progress: Callable[[LoadControl], None] | None = None,
    **settings: Unpack[LoadSettings],
) -> LoadOutcome:
    """Drive a server with requests, and report progress every fifth of a second.

    The engine runs in a thread beside this one, so that Ctrl-C and any exception that `progress`
    raises stop it: the run is cancelled, and the exception propagates.

    Args:
        target, requests, sources: from `target`, `Requests` and `closed` or `arrivals`.
        share: this machine's part, if several machines send the load together.
        settings: see `LoadSettings`.

    Raises:
        UserError: a plan or options that do not fit together.
    """
    run = _Run(target, requests, sources, share, settings)
    if share.start is not None:
        run.control.hold()
    run.start()
    try:
        if share.start is not None and run.is_ready():
            run.control.begin(share.start())
        while run.is_alive():
            run.join(PROGRESS_S)
            if progress is not None:
                progress(run.control)
    finally:
        run.end()
    share.began(run.control.began_ns())
    run.fail()
    assert run.outcome is not None, "it was not measured in turns"
    return run.outcome


class _Run(threading.Thread):
    """A run of the engine in a thread of its own."""

    def __init__(
        self,
        to: LoadTarget,
        requests: Sequence[Requests],
        sources: Sequence[LoadSource],
        share: MachineShare,
        settings: LoadSettings,
    ) -> None:
        super().__init__(name="load", daemon=True)
        self.control = LoadControl()
        self.outcome: LoadOutcome | None = None
        self._to = to
        self._plan: dict[str, Any] = {
            **_SETTINGS,
            "drain_s": settings.get("timeout_s", _SETTINGS["timeout_s"]) + 1.0,
            **settings,
            "classes": [one.plain() for one in requests],
            "sources": list(sources),
            "machine": share.machine,
            "machines": share.machines,
        }
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            self.outcome = run_load(self._to, self._plan, self.control)
        except BaseException as failure:  # noqa: BLE001 - raised in the calling thread
            self._failure = failure

    def is_ready(self) -> bool:
        """Wait until the run has connected and warmed up; False if it has ended."""
        while self.is_alive() and not self.control.is_ready():
            self.join(_READY_POLL_S)
        return self.is_alive()

    def end(self) -> None:
        """End the run now."""
        self.control.cancel()
        self.join()

    def fail(self) -> None:
        """Raise the error that the run has failed with, if any.

        Raises:
            UserError: the plan or its options do not fit together.
        """
        if isinstance(self._failure, ValueError):
            raise UserError(str(self._failure)) from self._failure
        if self._failure is not None:
            raise self._failure


class Session:
    """A load that is sent in turns, over connections that stay open in between. The `with` block
    begins when it is connected and warm.

    Args:
        to, requests, source: see `drive`. settings: see `LoadSettings`; each turn has its own
            duration.

    Raises:
        UserError: on entry, a plan or options that do not fit together.
    """

    def __init__(
        self,
        target: LoadTarget,
        requests: Requests,
        source: LoadSource,
        **settings: Unpack[LoadSettings],
    ) -> None:
        self._run = _Run(target, [requests], [source], ALONE, {**settings, "duration_s": 1.0})
        self._run.control.in_turns()

    def __enter__(self) -> Session:
        self._run.start()
        try:
            ready = self._run.is_ready()
        except BaseException:
            self._run.end()
            raise
        if not ready:
            self._run.fail()
        return self

    def __exit__(self, *exc: object) -> None:
        self._run.end()

    def take(self, length_ns: int, begin_ns: int = 0) -> LoadOutcome:
        """Send for this long, from an instant on (at once if it has passed), and wait for all
        answers. The first outcome includes the warm-up.

        Raises:
            StoreError: the run has ended.
        """
        outcome = self._run.control.take_turn(begin_ns, length_ns)
        if outcome is None:
            self._run.join()
            self._run.fail()
            raise StoreError("the load has ended before its time")
        return outcome


def record_or_raise(outcome: LoadOutcome, what: str) -> LoadRecord:
    """The record of the one class of a run without failed requests.

    Raises:
        StoreError: some did; the message says how many of `what`, and how.
    """
    (record,) = outcome["classes"]
    for kind, count, messages in record["recorder"].errors():
        raise StoreError(f"{count} {what} failed: {kind}: {'; '.join(messages)}")
    return record
