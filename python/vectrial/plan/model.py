"""Plans, jobs and trials."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from vectrial.experiments.base import Experiment
from vectrial.model.capabilities import Durability, Index
from vectrial.model.context import Data
from vectrial.model.existing import Existing
from vectrial.model.metric import Metric
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import State, TurnTime
from vectrial.model.placement import Limits, Provider
from vectrial.model.schema import Field, Schema
from vectrial.model.store import Store
from vectrial.model.trial import TrialRow
from vectrial.plan.estimate import start_s
from vectrial.suite.model import DatasetRef, Suite
from vectrial.util import variants
from vectrial.util.formatting import plural

#: Memory of a measuring process, and of a server with it, beside their vectors.
_LIBRARY_BYTES, _SERVER_BYTES = 300 << 20, 2 << 30


@dataclass(frozen=True)
class DatasetShape:
    """A dataset, fetched or not. own_filters, query_fields: see `experiments.base.Data`. metadata:
    load it. own_ids: the column with the user's own ids if rows are numbered, else empty. part: not
    all of its rows are used. queries_are_rows: each query has itself among its neighbours. norms:
    see `Schema`."""

    name: str
    rows: int
    dim: int
    metric: Metric
    fields: tuple[Field, ...] = ()
    own_filters: frozenset[str] | None = None
    query_fields: frozenset[str] = frozenset()
    metadata: bool = True
    own_ids: str = ""
    part: bool = False
    queries_are_rows: bool = False
    norms: tuple[float, float] | None = None

    def without_own_ids(self) -> DatasetShape:
        """The shape without the column of the user's own ids, which is not a column of a collection
        that has them as its ids."""
        left = tuple(field for field in self.fields if field.name != self.own_ids)
        return replace(self, fields=left)

    @property
    def data(self) -> Data:
        """The shape converted to what an experiment takes."""
        schema = Schema(self.dim, self.metric, self.fields, self.norms)
        return Data(schema, self.rows, self.own_filters, self.query_fields)


@dataclass(frozen=True)
class PlannedTrial:
    """One operating point of one experiment, once. own_s: estimated seconds beside the loads;
    loads: number of loads that it makes itself. identity: everything that its key is a hash of;
    trials with equal identities are the same. in_turns: its phases take turns with other jobs'."""

    row: TrialRow
    experiment: Experiment
    point: OperatingPoint
    own_s: float
    loads: float
    identity: Mapping[str, Any]
    in_turns: bool = False


#: Seconds of a load in turns beside the turns that count: warm-up, and those by which the length
#: of slices is found. What counts takes longer than asked for by this factor at most.
_BESIDE_S, _LONGER = 0.4, 1.1


def turns_s(time: TurnTime) -> float:
    """A rough estimate of a load's seconds in turns."""
    return _BESIDE_S + _LONGER * time.seconds


@dataclass(frozen=True)
class Job:
    """The task of one measuring process, in the order of `trials`. durability: state of
    acknowledged writes; None if the store promises nothing. metadata: load the dataset's. nodes:
    size of its cluster. limits: limits of the server, or of the measuring process if the store has
    none; None: the placement's limits for the server. existing: the collection that is measured
    unchanged, without loading. load_s: estimated seconds of one load. warm_up_s: seconds for which
    its server is searched before anything counts. dim: dimension of the vectors. variant: variant
    of the store; may be empty."""

    store: type[Store]
    index: Index
    dataset: str
    rows: int
    queries: int | None
    repeat: int
    trials: tuple[PlannedTrial, ...]
    durability: Durability | None = None
    metadata: bool = True
    nodes: int = 1
    limits: Limits | None = None
    existing: Existing | None = None
    load_s: float = 0.0
    warm_up_s: float = 0.0
    dim: int | None = None
    variant: str = ""

    @property
    def name(self) -> str:
        """The store's name in results, with its variant."""
        return variants.full_name(self.store.name, self.variant)

    @property
    def need_bytes(self) -> int:
        """A rough estimate of the memory of the job's processes."""
        vectors = 0 if self.dim is None else 3 * self.rows * self.dim * 4
        return vectors + (_SERVER_BYTES if self.store.kind == "server" else _LIBRARY_BYTES)

    @property
    def takes_turns(self) -> bool:
        """True if any of its trials takes turns."""
        return any(trial.in_turns for trial in self.trials)

    @property
    def turns_s(self) -> float:
        """A rough estimate of the seconds of its turns."""
        return sum(trial.own_s for trial in self.trials if trial.in_turns)

    @property
    def estimates_s(self) -> tuple[float, ...]:
        """A rough estimate of each trial's seconds. Trials that start from loaded rows share the
        load before them, until one changes rows; the first also includes the start of the process
        and of its server."""
        first_s, found, loaded = start_s(self.store), [], self.existing is not None
        if not all(trial.experiment.warms_up for trial in self.trials):
            first_s += self.warm_up_s
        for trial in self.trials:
            loads = trial.loads + (trial.experiment.starts_from is State.LOADED and not loaded)
            found.append(first_s + loads * self.load_s + trial.own_s)
            first_s, loaded = 0.0, not trial.experiment.mutates
        return tuple(found)

    @property
    def estimate_s(self) -> float:
        """A rough estimate of the job's seconds."""
        return sum(self.estimates_s)

    @property
    def work_s(self) -> float:
        """How much of the estimate is work, such as loads, which takes longer on a busy machine;
        searches take the time that they are given."""
        return self.estimate_s - sum(trial.own_s for trial in self.trials) - self.warm_up_s

    @property
    def group(self) -> tuple[int, str, int]:
        """Key that jobs share if they may be measured together."""
        return self.repeat, self.dataset, self.rows

    @property
    def store_label(self) -> str:
        """The store, with the number of its nodes if there are several."""
        return self.name + (f" ({self.nodes} nodes)" if self.nodes > 1 else "")

    @property
    def index_label(self) -> str:
        """The index with its parameters, except those left to the store."""
        params = self.index.params.model_dump(
            exclude_none=True, exclude_unset=self.existing is not None
        )
        return " ".join([self.index.kind, *(f"{name}={value}" for name, value in params.items())])

    @property
    def label(self) -> str:
        """Store, index and data, for progress lines."""
        return f"{self.store_label} {self.index_label} on {self.dataset}, {self.rows:,} rows"


@dataclass(frozen=True)
class Refusal:
    """A trial that the store does not support, skipped in the results with the reason."""

    row: TrialRow
    reason: str


@dataclass(frozen=True)
class Plan:
    """Jobs in the order of execution, and refused trials."""

    suite: Suite
    jobs: tuple[Job, ...]
    refusals: tuple[Refusal, ...]

    @property
    def trials(self) -> list[PlannedTrial]:
        """Every trial of every job."""
        return [trial for job in self.jobs for trial in job.trials]

    @property
    def servers(self) -> dict[tuple[type[Store], str], Provider | None]:
        """The stores and variants of the plan's jobs, each with the provider that the suite names
        for its server."""
        return {(job.store, job.variant): self.suite.provider(job.name) for job in self.jobs}

    @property
    def datasets(self) -> tuple[DatasetRef, ...]:
        """The data of the jobs: each dataset at each number of rows, once."""
        used = ((job.dataset, job.rows, job.queries, job.metadata) for job in self.jobs)
        return tuple(
            DatasetRef(name=name, rows=rows, queries=queries, metadata=metadata)
            for name, rows, queries, metadata in dict.fromkeys(used)
        )

    @property
    def estimate_s(self) -> float:
        """A rough estimate of the run's seconds on a quiet machine."""
        return sum(job.estimate_s for job in self.jobs)

    def busy_estimate_s(self, slowdown: float) -> float:
        """The estimate where work takes `slowdown` times as long."""
        return self.estimate_s + (slowdown - 1) * sum(max(0.0, job.work_s) for job in self.jobs)

    @property
    def is_empty(self) -> bool:
        """True if the plan has nothing to measure and nothing refused."""
        return not (self.jobs or self.refusals)

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """Number of refused trials with their store, and the reason of each."""
        rows = [*(trial.row for trial in self.trials), *(one.row for one in self.refusals)]
        every = Counter(row.store for row in rows)
        counts = Counter(
            (one.row.store, one.row.index_kind, one.row.experiment, one.reason)
            for one in self.refusals
        )
        return tuple(
            (f"{count} of {plural(every[store], 'trial')} of {store} ({index} {experiment})", why)
            for (store, index, experiment, why), count in counts.items()
        )

    def for_stores(self, names: Collection[str]) -> Plan:
        """The plan of these stores alone."""
        return replace(
            self,
            jobs=tuple(job for job in self.jobs if job.store.name in names),
            refusals=tuple(
                one for one in self.refusals if variants.store_of(one.row.store) in names
            ),
        )

    def without_trials(self, keys: Set[str]) -> Plan:
        """The plan without the trials of `keys`, and without jobs that have no other trials."""
        left = (
            replace(job, trials=tuple(t for t in job.trials if t.row.key not in keys))
            for job in self.jobs
        )
        return replace(self, jobs=tuple(job for job in left if job.trials))


def groups_of(jobs: Iterable[Job]) -> list[list[Job]]:
    """The jobs that are measured together, in turns; every other job is a group of its own."""
    found: list[list[Job]] = []
    for _, some in itertools.groupby(jobs, key=lambda job: job.group):
        turns: list[Job] = []
        for job in some:
            if job.takes_turns:
                turns.append(job)
            else:
                found.append([job])
        found += [turns] if turns else []
    return found


#: A setting whose text is longer is a parameter of a trial by its hash.
_LONGEST = 40


def key_of(identity: Mapping[str, Any]) -> str:
    """The key of a trial: the same for the same identity, in every run."""
    return hashlib.sha256(canonical(identity).encode()).hexdigest()[:24]


def add_trial(known: set[str], entry: int, trial: PlannedTrial) -> bool:
    """Add a trial; False if the same trial is there already. entry: number of its store."""
    settings = trial.identity["settings"].items()
    own = {name: value for name, value in settings if name not in trial.experiment.extent}
    one = f"{entry} {canonical({**trial.identity, 'settings': own})}"
    if one in known:
        return False
    known.add(one)
    return True


def distinct_rows(trials: Sequence[PlannedTrial]) -> dict[str, TrialRow]:
    """Rows of trials, by key. Trials that differ in settings only have these among their
    parameters, so that no report takes them for repeats of one trial."""
    alike: dict[tuple[Any, ...], list[PlannedTrial]] = defaultdict(list)
    for trial in trials:
        row = trial.row
        build = (row.store, row.lane, row.index_kind, canonical(row.index_params))
        point = (row.dataset, row.rows, row.experiment, canonical(row.params), row.repeat)
        alike[build, point].append(trial)
    rows = {}
    for group in (group for group in alike.values() if len(group) > 1):
        flat = [_identity_parts(trial) for trial in group]
        names = dict.fromkeys(name for one in flat for name in one)
        differ = [name for name in names if len({canonical(one.get(name)) for one in flat}) > 1]
        for trial, one in zip(group, flat, strict=True):
            more = {name: _shorten(one[name]) for name in differ if one.get(name) not in (None, [])}
            rows[trial.row.key] = replace(trial.row, params={**trial.row.params, **more})
    return rows


def _identity_parts(trial: PlannedTrial) -> dict[str, Any]:
    """All parts of a trial's identity by name, except those that do not make it another trial."""
    flat = {**trial.identity, **trial.identity["settings"]}
    hidden = {"settings", *trial.experiment.extent}
    return {name: value for name, value in flat.items() if name not in hidden}


def _shorten(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return value
    text = canonical(value)
    return text if len(text) <= _LONGEST else hashlib.sha256(text.encode()).hexdigest()[:8]


def canonical(value: Any) -> str:
    """A text that is the same for the same value, whatever the order of its keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
