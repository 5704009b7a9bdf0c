"""Messages between the runner and the measuring process."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from vectrial.engine.parts import Order
from vectrial.experiments.base import Experiment
from vectrial.model.capabilities import Durability, Index
from vectrial.model.existing import Existing
from vectrial.model.faults import Crash, Fault
from vectrial.model.objects import ObjectsRequest
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase, Slice, Turn
from vectrial.model.placement import Certificate
from vectrial.model.store import Address
from vectrial.model.trial import CheckResult

#: Ends the current trial at its time limit. A signal, since nobody reads messages in a trial.
TIME_IS_UP = signal.SIGUSR1


@dataclass(frozen=True)
class TrialSpec:
    """A trial of a job: the experiment (see `Experiment.for_point`), the point to measure, and the
    lane for measuring it. in_turns: its loads take turns with those of other jobs."""

    key: str
    experiment: Experiment
    point: OperatingPoint
    lane: str
    in_turns: bool = False


@dataclass(frozen=True)
class Serving:
    """The running server of a job's store.

    processes: process ids on this machine by name, for telemetry; empty if it runs elsewhere.
    data_dirs: its folders on this machine; empty if it runs elsewhere.
    struck: in the answer to a `Strike`, the name of the node.
    """

    address: Address
    processes: Mapping[str, int]
    data_dirs: tuple[Path, ...]
    struck: str = ""


@dataclass(frozen=True)
class JobSpec:
    """The task of the measuring process.

    certificate: with the placement resolved: its `server_cores` are those of the job's server.
    durability: durability of acknowledged writes; None if the store promises nothing.
    store: "module:Class", since a store's own environment has no entry points.
    server: for a store of kind "server". repeat_queries: see `Context`. limited: the measuring
        process itself has limits.
    warm_up_s: seconds for which the server is searched before anything counts.
    existing: the collection to open instead of creating and loading one.
    """

    store: str
    index: Index
    dataset: str
    k: int
    seed: int
    batch_rows: int
    data_dir: Path
    certificate: Certificate
    trials: tuple[TrialSpec, ...]
    server: Serving | None = None
    durability: Durability | None = None
    repeat_queries: bool = False
    limited: bool = False
    warm_up_s: float = 0.0
    existing: Existing | None = None


@dataclass(frozen=True)
class GetTruth:
    """Read a file of a truth, which the measuring process does not see. The answer is
    `TruthFile`."""

    name: str


@dataclass(frozen=True)
class PutTruth:
    """Keep a file of a truth. The answer is an `Ack`."""

    name: str
    content: bytes


@dataclass(frozen=True)
class TruthFile:
    """The content of a file of a truth; None if there is none."""

    content: bytes | None


@dataclass(frozen=True)
class Progress:
    """Progress of the current work; sent a few times a second at most."""

    done: float
    total: float
    what: str


@dataclass(frozen=True)
class Ack:
    """The answer to `Finished`: it is written, and the processors are free for the next trial."""


@dataclass(frozen=True)
class CrashServer:
    """End the server in this way and restart it on the same data. The answer is its `Serving`,
    `RestartFailed`, or the reason why it is impossible, as text."""

    how: Crash


@dataclass(frozen=True)
class RestartFailed:
    """The server did not start again; `why` gives the reason."""

    why: str


@dataclass(frozen=True)
class CutPower:
    """Leave on the disk what a power cut would leave of the data; there is no server. The answer is
    an `Ack`, or the reason why it is impossible, as text."""


@dataclass(frozen=True)
class FillDisk:
    """Fill the disk that holds the data, or undo that. The answer is an `Ack`, or the reason why it
    is impossible, as text."""

    full: bool


@dataclass(frozen=True)
class Strike:
    """Inject a fault into a node of the server's cluster, or end it. The answer is a `Serving` with
    the node's name, or the reason why it is impossible, as text.

    node: its number, from 0. back: end the fault.
    """

    node: int
    fault: Fault
    back: bool


@dataclass(frozen=True)
class LimitMemory:
    """Change the memory of the running server or, for a store without one, of the measuring
    process. The answer is an `Ack`, or the reason why it is impossible, as text.

    limit_bytes: the new limit; None restores the original one.
    """

    limit_bytes: int | None


@dataclass(frozen=True)
class SendLoad:
    """Have the client machines send a load. The answer is `Sent`, or the reason why they cannot
    send it, as text."""

    order: Order


@dataclass(frozen=True)
class OpenObjects:
    """Start an object store. The answer is its `ObjectsAccess`, or why there is none, as text.

    key: the trial's key: the same trial finds its objects again.
    """

    request: ObjectsRequest
    key: str


@dataclass(frozen=True)
class CloseObjects:
    """Stop the object store. The answer is an `Ack`.

    done: its objects are no longer needed.
    """

    done: bool


@dataclass(frozen=True)
class Waiting:
    """Loads are connected, warm, and wait for their turns. names: the phase of each load, by the
    key of its trial. The answers are any number of `GiveTurn`, then `NoMoreTurns`."""

    names: Mapping[str, str]


@dataclass(frozen=True)
class GiveTurn:
    """Have the load of a trial take a turn. The answer is `TurnResult`."""

    key: str
    turn: Turn


@dataclass(frozen=True)
class TurnResult:
    """The turn has been taken. slice: None if the load broke down, for the reason in `why`."""

    key: str
    slice: Slice | None
    why: str = ""


@dataclass(frozen=True)
class NoMoreTurns:
    """The phases of the waiting loads have ended."""


@dataclass(frozen=True)
class TrialStarted:
    """The trial with this key begins."""

    key: str


@dataclass(frozen=True)
class TrialEnded:
    """A trial has ended by the clock of the measuring process; its results follow later."""

    key: str


@dataclass
class Finished:
    """The outcome of a trial; for `status` and `load` see `results.writer.TrialRecord`. overdue: it
    reached its time limit, and no trial follows it."""

    key: str
    status: str
    reason: str | None
    store_version: str | None
    started_at: datetime
    started_ns: int
    duration_s: float
    phases: list[Phase] = field(default_factory=list)
    telemetry: Sequence[Mapping[str, Any]] = ()
    gate: list[CheckResult] = field(default_factory=list)
    notes: Sequence[str] = ()
    load: Mapping[str, float] | None = None
    overdue: bool = False
