"""Types that cross the boundary to the load engine and back: plain data, by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Recorder


class LoadColumn(TypedDict):
    """A metadata column of the rows to write; `valid` is False for a missing value."""

    name: str
    values: NDArray[np.int64] | NDArray[np.float64] | NDArray[np.bool_] | list[str]
    valid: NDArray[np.bool_] | None


class LoadSource(TypedDict):
    """Source of requests.

    arrival: "closed" (with `clients`), or "constant", "poisson" (`rate` a second) or "trace"
        (`offsets` from the start in ns) with at most `in_flight` at once.
    mix: (index of a class, weight) to draw from. count: it ends after this many requests.
    passes_s: in a closed loop: it ends with the first whole pass over its requests after so many
        seconds, so that every request weighs the same.
    background: the run does not wait for it, and it runs until all others are done.
    """

    arrival: str
    clients: int
    rate: float
    offsets: NDArray[np.int64] | None
    in_flight: int
    mix: list[tuple[int, float]]
    count: int | None
    passes_s: float | None
    background: bool


class LoadSettings(TypedDict, total=False):
    """Settings of a load: warm-up (skipped without a limit), then measurement, over the same
    connections. Every setting has a default.

    threads: client threads, each pinned to one of `cores` if these are given.
    connections: total if requests share them, by default one per thread; else the number per
        source of arrivals (a closed loop's clients have one each), by default 64, all of them open
        before the clock starts. Arrivals that find no idle connection wait, and
        `in_flight_limit_hits` counts them.
    timeout_s: time after which a request has failed. drain_s: how long answers are waited for at
        the end; unless given, until every request has been answered or has run out of time.
    dedicated: wait for arrivals in a loop that takes a core of its own.
    """

    duration_s: float | None
    warmup_s: float | None
    warmup_count: int | None
    threads: int
    cores: Sequence[int]
    connections: int | None
    timeout_s: float
    drain_s: float
    seed: int
    dedicated: bool
    window_ns: int


#: Of every request that ended: its number (n,), when it was sent and done in ns of
#: `time.perf_counter_ns` (n,), and whether it succeeded (n,).
LoadRequests = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]


class LoadRecord(TypedDict):
    """Observations of a class. recorder: finished. warmup: the recorder of the warm-up. lag: HDR
    histogram of actual minus intended send, of everything issued. in_flight: requests neither
    answered nor failed at the end. rows: written or read by successful requests. answers: answers
    if they were to be kept, queries (n,), ids (n, k) and scores (n, k), with -1 and nan where an
    answer was shorter. requests: likewise, the instants."""

    name: str
    recorder: Recorder
    warmup: Recorder
    lag: bytes
    issued: int
    in_flight: int
    rows: int
    answers: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]] | None
    requests: LoadRequests | None


class LoadWindow(TypedDict):
    """Activity of a class in the last full second; None for a figure without observations."""

    second: int
    count: int
    errors: int
    p50_us: float | None
    p99_us: float | None
    max_us: float | None
    recall: float | None


class LoadOutcome(TypedDict):
    """The counts and times of a run.

    busy_s: sum over the clients of a closed loop of the time from the start to the last answer.
        cpu_ns: processor time of the client threads in the measured stage. unsent: arrivals due
        before the end for which there was no room in flight. in_flight_limit_hits: arrivals that
        had to wait for room, by the plan or by the server's limit on requests in flight per
        connection; in a closed loop, clients for whom there was none. in_flight_s: requests in
        flight integrated over time, which by Little's law is the sum of service times. backlog: for
        schedules, the number of due arrivals neither answered nor failed at the end of each quarter
        of the duration; None without a schedule or a duration_s, which is the plan's.
    """

    classes: list[LoadRecord]
    started_ns: int
    ended_ns: int
    busy_s: float
    cpu_ns: int
    unsent: int
    in_flight_limit_hits: int
    peak_in_flight: int
    in_flight_s: float
    reconnects: int
    cancelled: bool
    duration_s: float | None
    backlog: list[int] | None


class NullSettings(TypedDict):
    """A null server; see `vectrial.engine.null_server.null_server`.

    replies: messages by path. faults: (name, interval in requests). stall_s: (every, for).
    identity: certificates and PKCS #8 key, all in DER, for TLS. room: requests in flight on one
        connection; 0: any."""

    family: str
    host: str
    port: int
    k: int
    replies: dict[str, bytes]
    faults: list[tuple[str, int]]
    late_s: float
    stall_s: tuple[float, float] | None
    identity: tuple[list[bytes], bytes] | None
    room: int
