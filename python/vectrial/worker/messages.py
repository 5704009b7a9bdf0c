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
from vectrial.model.client_limits import Certificate
from vectrial.model.existing import Existing
from vectrial.model.faults import Crash, Fault
from vectrial.model.gate import CheckResult
from vectrial.model.objects import ObjectsRequest
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase
from vectrial.model.slices import Slice, Turn
from vectrial.model.store import Address

#: Ends the current trial at its time limit. A signal, since nobody reads messages in a trial.
TIME_IS_UP = signal.SIGUSR1


@dataclass(frozen=True)
class TrialSpec:
    """One trial of a job: the experiment as `Experiment.at_point` has it, the point to measure, and
    the lane to measure it through. in_turns: its loads take turns with those of other jobs."""

    key: str
    experiment: Experiment
    point: OperatingPoint
    lane: str
    in_turns: bool = False


@dataclass(frozen=True)
class Serving:
    """The running server of a job's store.

    processes: ids on this machine by name, for telemetry; none when it runs elsewhere.
    data_dirs: its folders on this machine; none when it runs elsewhere.
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
    durability: of acknowledged writes; None where the store promises nothing.
    store: "module:Class", since a store's own environment has no entry points.
    server: of a store of kind "server". repeat_queries: as in `Context`. limited: the measuring
        process itself has limits.
    warm_up_s: seconds for which the server is searched before anything counts.
    existing: the collection that is opened in place of one that is created and loaded.
    """

    store: str
    index: Index
    dataset: str
    rows: int
    queries: int | None
    k: int
    seed: int
    batch_rows: int
    data_dir: Path
    certificate: Certificate
    trials: tuple[TrialSpec, ...]
    server: Serving | None = None
    durability: Durability | None = None
    metadata: bool = True
    repeat_queries: bool = False
    limited: bool = False
    warm_up_s: float = 0.0
    existing: Existing | None = None


@dataclass(frozen=True)
class Progress:
    """The current work; sent a few times a second at most."""

    done: float
    of: float
    what: str


@dataclass(frozen=True)
class Ack:
    """The answer to `Finished`: it is written, and the processors are free for the next trial."""


@dataclass(frozen=True)
class CrashServer:
    """End the server so and start it again on the same data. The answer is its `Serving`, or
    `NotBack`; or why it is impossible, as text."""

    how: Crash


@dataclass(frozen=True)
class NotBack:
    """The server did not start again; `why` it did not."""

    why: str


@dataclass(frozen=True)
class CutPower:
    """Leave of the data on the disk what a power cut would leave; there is no server. The answer is
    an `Ack`, or why it is impossible, as text."""


@dataclass(frozen=True)
class FillDisk:
    """Have the disk of the data full, or as it was before. The answer is an `Ack`, or why it is
    impossible, as text."""

    full: bool


@dataclass(frozen=True)
class Strike:
    """Make a fault of a node of the server's cluster, or end it. The answer is a `Serving` with the
    name of the node, or why it is impossible, as text.

    node: its number, from 0. back: end the fault.
    """

    node: int
    fault: Fault
    back: bool


@dataclass(frozen=True)
class LimitMemory:
    """Change the memory that the server may use while it runs, or the measuring process of a store
    without one. The answer is an `Ack`, or why it
    is impossible, as text.

    limit_bytes: None: what it was started with.
    """

    limit_bytes: int | None


@dataclass(frozen=True)
class Drive:
    """Have the client machines send a load. The answer is what they have `Sent`, or why they
    cannot, as text."""

    order: Order


@dataclass(frozen=True)
class OpenObjects:
    """Start an object store. The answer is its `ObjectsAccess`, or why there is none, as text.

    key: of the trial: the same trial finds its objects again.
    """

    request: ObjectsRequest
    key: str


@dataclass(frozen=True)
class CloseObjects:
    """Stop it. The answer is an `Ack`.

    done: its objects are needed no more.
    """

    done: bool


@dataclass(frozen=True)
class Waiting:
    """Loads are connected, warm, and wait for their turns: the name of the phase of each, by the
    key of its trial. Answers are `GiveTurn` again and again, and `NoMoreTurns`."""

    names: Mapping[str, str]


@dataclass(frozen=True)
class GiveTurn:
    """Have the load of a trial take a turn. The answer is `TurnResult`."""

    key: str
    turn: Turn


@dataclass(frozen=True)
class TurnResult:
    """The turn has been taken. slice: None where the load broke down, and `why` it did."""

    key: str
    slice: Slice | None
    why: str = ""


@dataclass(frozen=True)
class NoMoreTurns:
    """The phases of the loads that wait have ended."""


@dataclass(frozen=True)
class TrialStarted:
    """The trial with this key begins."""

    key: str


@dataclass
class Finished:
    """The outcome of a trial; `status` and `load` as in `results.writer.TrialRecord`. overdue: it
    reached its time limit, and nothing follows it."""

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
