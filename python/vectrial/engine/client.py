"""The native lane's call into the engine: plans with defaults, progress, and a way to stop."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge, LoadControl, run_load
from vectrial.engine.pem import der
from vectrial.engine.types import (
    LoadClass,
    LoadColumn,
    LoadOutcome,
    LoadPlan,
    LoadRecord,
    LoadSource,
)
from vectrial.model.errors import StoreError, UserError
from vectrial.model.target import (
    LoadTarget,
    LoadTls,
)
from vectrial.model.workload import IN_FLIGHT

#: Seconds between two calls of `progress`.
PROGRESS_S = 0.2
_READY_POLL_S = 0.002
WINDOW_NS = 1_000_000_000


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
    """One class of requests; see `LoadClass` for shapes and meaning."""

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

    def plain(self) -> LoadClass:
        """The class in the form that the engine takes."""
        vectors, ids, filter_of = self.vectors, self.ids, self.filter_of
        return {
            "name": self.name,
            "operation": self.operation,
            "vectors": None if vectors is None else np.ascontiguousarray(vectors, np.float32),
            "ids": None if ids is None else np.ascontiguousarray(ids, np.int64),
            "columns": list(self.columns),
            "k": self.k,
            "batch": self.batch,
            "filters": list(self.filters),
            "filter_of": None if filter_of is None else np.ascontiguousarray(filter_of, np.uint32),
            "payloads": list(self.payloads),
            "options": dict(self.options),
            "judge": self.judge,
            "once": self.once,
            "keep": self.keep,
        }


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
    to: LoadTarget,
    requests: Sequence[Requests],
    sources: Sequence[LoadSource],
    *,
    duration_s: float | None = None,
    warmup_s: float | None = None,
    warmup_count: int | None = None,
    threads: int = 1,
    share: MachineShare = ALONE,
    cores: Sequence[int] = (),
    connections: int | None = None,
    timeout_s: float = 30.0,
    drain_s: float | None = None,
    seed: int = 0,
    dedicated: bool = False,
    window_ns: int = WINDOW_NS,
    progress: Callable[[LoadControl], None] | None = None,
) -> LoadOutcome:
    """Drive a server with requests, and report progress every fifth of a second.

    The engine runs in a thread beside this one, so that Ctrl-C and any exception that `progress`
    raises stop it: the run is cancelled, and the exception propagates.

    Args:
        to, requests, sources: from `target`, `Requests` and `closed` or `arrivals`.
        share: this machine's part, if several machines send the load together.
        connections: total if requests share them, by default one per thread; else the number per
            source of arrivals (a closed loop's clients have one each), by default 64, all of them
            open before the clock starts. Arrivals that find no idle connection wait, and
            `in_flight_limit_hits` counts them.
        drain_s: how long answers are waited for at the end; unless given, until every request has
            been answered or has run out of time.

    Raises:
        UserError: a plan or options that do not fit together.
    """
    plan: LoadPlan = {
        "classes": [one.plain() for one in requests],
        "sources": list(sources),
        "duration_s": duration_s,
        "warmup_s": warmup_s,
        "warmup_count": warmup_count,
        "threads": threads,
        "machine": share.machine,
        "machines": share.machines,
        "cores": list(cores),
        "connections": connections,
        "timeout_s": timeout_s,
        "drain_s": timeout_s + 1.0 if drain_s is None else drain_s,
        "seed": seed,
        "dedicated": dedicated,
        "window_ns": window_ns,
    }
    run = _Run(to, plan)
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

    def __init__(self, to: LoadTarget, plan: LoadPlan) -> None:
        super().__init__(name="load", daemon=True)
        self.control = LoadControl()
        self.outcome: LoadOutcome | None = None
        self._to, self._plan = to, plan
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
        to, requests, source: see `drive`.
        warmup_s, warmup_count, threads, cores, timeout_s, seed, dedicated: see `drive`.

    Raises:
        UserError: on entry, a plan or options that do not fit together.
    """

    def __init__(
        self,
        to: LoadTarget,
        requests: Requests,
        source: LoadSource,
        *,
        warmup_s: float | None = None,
        warmup_count: int | None = None,
        threads: int = 1,
        cores: Sequence[int] = (),
        timeout_s: float = 30.0,
        seed: int = 0,
        dedicated: bool = False,
    ) -> None:
        plan: LoadPlan = {
            "classes": [requests.plain()],
            "sources": [source],
            "duration_s": 1.0,  # each turn has its own
            "warmup_s": warmup_s,
            "warmup_count": warmup_count,
            "threads": threads,
            "machine": 0,
            "machines": 1,
            "cores": list(cores),
            "connections": None,
            "timeout_s": timeout_s,
            "drain_s": timeout_s + 1.0,
            "seed": seed,
            "dedicated": dedicated,
            "window_ns": WINDOW_NS,
        }
        self._run = _Run(to, plan)
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


def unfailed(outcome: LoadOutcome, what: str) -> LoadRecord:
    """The record of the one class of a run without failed requests.

    Raises:
        StoreError: some did; the message says how many of `what`, and how.
    """
    (record,) = outcome["classes"]
    for kind, count, messages in record["recorder"].errors():
        raise StoreError(f"{count} {what} failed: {kind}: {'; '.join(messages)}")
    return record
