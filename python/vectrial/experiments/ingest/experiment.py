"""Loading: how fast rows are taken, made durable, indexed, and found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from vectrial._engine import Recorder
from vectrial.document.sheet import STEPS, Sheet, metric
from vectrial.experiments.base import Experiment, Numbers, Target, refuse_library, row_searcher
from vectrial.experiments.common import generated_columns
from vectrial.experiments.common.disk_usage import settled_phase
from vectrial.experiments.common.payload_arms import PAIRS, load_arm, overhead_phase, own_columns
from vectrial.experiments.common.readiness import cold_searches, finish_steps
from vectrial.experiments.common.sizes import Size, check_sizes, resolve_sizes
from vectrial.model.context import Context, Data
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.inputs import Count, PositiveSeconds, Seconds
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase, Role, State
from vectrial.model.results_schema import MetricName
from vectrial.workload import dispatch
from vectrial.workload import ingest as bulk
from vectrial.workload.readback import read_back

#: Rows that are read back after a load.
VERIFIED = 100
#: Seconds, and a share of the time until ready: probing for longer than both is reported beside it.
_UNTOLD_S, _UNTOLD = 0.1, 0.02


Arm = Literal["none", "off", "on"]


_SHEET = Sheet(
    "Cost of metadata indexes when loading",
    "The same rows in the same batches: without columns (none), with columns and no index on "
    "them (off), with all of them indexed (on), or as the store alone decides (fixed).",
    ("arm",),
    (("payload_index", "Index"), ("fields", "Columns")),
    (
        *STEPS,
        metric("ready_s", "together", "Seconds"),
        metric("rows_per_s", "Rows/s"),
    ),
    notes=f"{__package__}.report:overheads",
    slug="metadata-indexes",
)


_METRICS = (
    MetricName(
        "load_overhead",
        "1",
        "lower",
        "load time with over load time without, less 1",
        "Load overhead",
    ),
    MetricName(
        "ready_overhead",
        "1",
        "lower",
        "ready time with over ready time without, less 1",
        "Ready overhead",
    ),
)


class Ingest(Experiment):
    """Load growing parts of the dataset, each into an empty store.

    checkpoints: fractions of the rows (at most 1), or numbers of rows; all rows are loaded in any
        case, and a number beyond them is the same as all.
    concurrency: clients with one batch in flight each: a number, or a list to measure each.
    batch_rows: rows of a batch; unless given, the suite's.
    probes: rows at the end that are inserted one by one, by the store's own client in every lane,
        each searched for until found: between load and flush, and not part of the time until
        ready, though a store may index meanwhile. 0 where that time is what is asked for.
    probe_limit_s: probing stops after so long.
    settle_s: bytes on disk are counted as well, as `storage` does, when the store has come to rest;
        no longer is waited for that. None: they are not.
    payload_index: loads to compare instead, each into an empty store beside: "none" has no
        metadata, "off" columns that are not indexed, "on" the same columns indexed. They
        take turns, in the opposite order every other time. Where a store leaves no choice, its own
        ("fixed") stands for "off" and "on". Of `checkpoints`, only those in the suite are loaded.
    fields: of `payload_index`: number of columns. columns: whether these are generated, or the
        first of the dataset's own. rounds: how often everything is loaded.
    """

    name: ClassVar[str] = "ingest"
    title: ClassVar[str] = "Loading and indexing"
    place: ClassVar[int] = 20
    report: ClassVar[str] = f"{__package__}.report"
    sheet: ClassVar[Sheet | None] = _SHEET
    metrics: ClassVar[tuple[MetricName, ...]] = _METRICS
    starts_from: ClassVar[State] = State.EMPTY
    axes: ClassVar[frozenset[str]] = frozenset({"checkpoints", "concurrency", "batch_rows"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)
    terms: ClassVar[Mapping[str, str]] = {
        "payload_index": "payload index",
        "fields": "columns",
        "of": "of",
    }
    replaces: ClassVar[Mapping[str, str]] = {
        "scalar_index_overhead": 'payload_index = ["none", "off", "on"]'
    }

    checkpoints: tuple[Size, ...] = (0.25, 0.5, 1.0)
    concurrency: Numbers = (1,)
    batch_rows: Count | None = None
    probes: int = Field(default=20, ge=0, le=1000)
    probe_limit_s: PositiveSeconds = 5.0
    settle_s: Seconds | None = None
    payload_index: tuple[Arm, ...] | None = Field(default=None, min_length=1)
    fields: int = Field(default=24, ge=1, le=100)
    columns: Literal["generated", "own"] = "generated"
    rounds: int = Field(default=1, ge=1, le=20)

    _sizes = field_validator("checkpoints")(check_sizes)

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.payload_index is None:
            only = ["fields", "columns", "rounds"]
            self._refuse_set(only, "applies to loads with `payload_index` only")
        else:
            others = ["concurrency", "batch_rows", "probes", "probe_limit_s", "settle_s"]
            self._refuse_set(others, "does not apply to loads with `payload_index`")
        return self

    def resolve(self, data: Data) -> Ingest:
        """The experiment that compares payload indexes if `payload_index` is set; otherwise this
        one."""
        return (
            self if self.payload_index is None else PayloadIngest.model_validate(self.model_dump())
        )

    def points(self, target: Target) -> list[dict[str, Any]]:
        rows = target.data.rows
        if rows <= self.probes:
            raise Unsupported(f"{rows} rows are all probes: set fewer `probes` than rows")
        own = {} if self.batch_rows is None else {"batch_rows": self.batch_rows}
        return [
            {"rows": size, "concurrency": clients, **own}
            for size in resolve_sizes(self.checkpoints, rows)
            for clients in dict.fromkeys(self.concurrency)
            if size > self.probes
        ]

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Apply the common checks, and refuse several clients of a library."""
        super().check_point(target, point)
        refuse_library(target, point["concurrency"], "inserts its rows")

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """Clients that insert."""
        return int(point["concurrency"])

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        rows = {"batch_rows": point.get("batch_rows") or context.batch_rows}
        for phase in self._phases(context, point):
            phase.params = {**rows, **phase.params}
            yield phase

    def _phases(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        store, dataset = context.store, context.dataset
        store.create(context.schema, context.index)
        bulk_rows = dataset.rows - self.probes
        load = dispatch.load(
            context,
            stop=bulk_rows,
            clients=int(point["concurrency"]),
            batch_rows=point.get("batch_rows"),
        )
        yield load
        if load.metrics["count"] != bulk_rows:
            raise StoreError(f"the load was not taken whole: {load.reason}")
        freshness = self._freshness(context, bulk_rows)
        yield freshness
        parts, steps = [load, freshness], list[bulk.Step]()
        for step in finish_steps(context, {}):
            steps.append(step)
            phase = Phase(step.name, step.started_ns, step.ended_ns)
            phase.metrics[f"{step.name}_s"] = step.seconds
            if step.name == "wait" and step.note:
                phase.params = {"known_by": step.note}
            parts.append(phase)
            yield phase
        times = bulk.load_times(load, steps)
        ready_s = times["ready_s"]
        probing_s = (freshness.ended_ns - freshness.started_ns) / 1e9
        total = Phase("ingest", load.started_ns, steps[-1].ended_ns, role=Role.LOAD)
        total.metrics |= {
            **times,
            "ready_rows_per_s": bulk_rows / ready_s,
            "probing_s": probing_s,
        }
        if probing_s > max(_UNTOLD_S, _UNTOLD * ready_s):
            total.remark(
                f"between load and flush rows were probed for {probing_s:.1f} s, in which the store"
                " may have indexed, and which are not in the time until ready: set probes = 0"
            )
        if not load.valid:
            total.invalidate(load.reason or "the load is not valid")
        yield total  # what follows is not its time
        cold = cold_searches(context, steps[-1])
        yield cold
        total.metrics["count"] = float(store.count())
        if fault := _fault(context, total):
            for phase in (*parts, total, cold):  # each is of the rows that were acknowledged
                phase.invalidate(fault)
        if self.settle_s is not None and store.capabilities.persistent:
            yield settled_phase(context, self.settle_s)

    def _freshness(self, context: Context, first: int) -> Phase:
        """Insert the last rows one by one; search for each until an answer contains it."""
        phase = Phase("freshness", perf_counter_ns(), perf_counter_ns())
        recorder = Recorder()
        recorder.start(phase.started_ns)
        lost = None
        context.store.auto_refresh = False  # when rows are seen is the question
        for row in range(first, context.dataset.rows):
            if lost is not None or _seconds_since(phase.started_ns) > self.probe_limit_s:
                self._insert_rest(context, row)
                break
            lost = self._probe(context, row, recorder)
        context.store.auto_refresh = True
        phase.ended_ns = perf_counter_ns()
        recorder.finish(phase.ended_ns)
        count = int(recorder.summary()["count"] or 0)
        phase.metrics["count"] = float(count)
        if count and lost is None:
            phase.metrics["time_to_searchable"] = recorder.summary()["latency_p50"]
            phase.histograms["latency"] = recorder.histogram("latency")
        else:
            phase.missing["time_to_searchable"] = lost or "no row was probed"
        return phase

    def _probe(self, context: Context, row: int, recorder: Recorder) -> str | None:
        """Record the time from acknowledged to found; returns the reason if the row is not
        found."""
        dataset, store = context.dataset, context.store
        store.insert(bulk.batch(dataset, context.schema, np.array([row])))
        acknowledged = perf_counter_ns()
        vector, wanted = dataset.vectors[row], int(dataset.ids[row])
        while True:
            try:
                found, _ = row_searcher(store, context, {})(vector)
            except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
                return f"not searchable before the index is built: {error}"
            now = perf_counter_ns()
            if wanted in found:
                recorder.operation(acknowledged, acknowledged, now)
                return None
            if _seconds_since(acknowledged) > self.probe_limit_s:
                return f"a row was not found within {self.probe_limit_s:g} s of its insert"

    @staticmethod
    def _insert_rest(context: Context, row: int) -> None:
        rest = np.arange(row, context.dataset.rows)
        context.store.insert(bulk.batch(context.dataset, context.schema, rest))

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the checks of the store."""
        return 0.5


class PayloadIngest(Ingest):
    """`Ingest` with `payload_index`."""

    starts_from: ClassVar[State] = State.LOADED
    lanes: ClassVar[frozenset[Lane] | None] = None

    @classmethod
    def writes(cls) -> bool:
        """True, because every figure is of an additional load."""
        return True

    def points(self, target: Target) -> list[dict[str, Any]]:
        if not target.capabilities.field_types:
            raise Unsupported(f"{target.name} keeps no metadata")
        if self.columns == "own":
            own_columns(target.data.schema, target.capabilities.field_types, self.fields)
        rows, default = target.data.rows, type(self).model_fields["checkpoints"].default
        if self.checkpoints == default:
            return [{"rows": rows}]
        return [{"rows": size} for size in resolve_sizes(self.checkpoints, rows, whole=False)]

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        Experiment.check_point(self, target, point)

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """One client inserts."""
        return 1

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        chosen = context.store.capabilities.for_index(context.index.kind).payload_index
        named = self.payload_index or ()
        arms = list(dict.fromkeys(a if chosen or a == "none" else "fixed" for a in named))
        columns = self._columns(context)
        phases: dict[str, list[Phase]] = defaultdict(list)
        started = perf_counter_ns()
        for turn in range(self.rounds):
            for arm in arms if (context.seed + turn) % 2 else reversed(arms):
                phase = load_arm(context, arm, columns)
                phases[arm].append(phase)
                yield phase
        for of, (more, less) in PAIRS.items():
            if more in phases and less in phases:
                phase = overhead_phase(of, phases[more], phases[less], started)
                about = {"fields": self.fields, "batch_rows": context.batch_rows}
                phase.params = {**phase.params, **about}
                yield phase

    def _columns(self, context: Context) -> pa.Table:
        types = context.store.capabilities.for_index(context.index.kind).field_types
        if self.columns == "generated":
            return generated_columns.columns(context.dataset.rows, self.fields, types)
        names = own_columns(context.schema, types, self.fields)
        assert context.dataset.metadata is not None, "a schema with fields goes with metadata"
        return context.dataset.metadata.select(names)

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time to generate the columns of each load."""
        return self.loads_at(point) * rows * self.fields * 4e-6

    def loads_at(self, point: Mapping[str, Any]) -> float:
        """One load for each arm and round."""
        return float(self.rounds * len(self.payload_index or ()))


def _fault(context: Context, total: Phase) -> str | None:
    """Count the rows, and read a sample back into the metrics of `total`; returns the fault, if
    any."""
    store, dataset, faults = context.store, context.dataset, []
    count = int(total.metrics["count"] or 0)
    if count != dataset.rows:
        faults.append(f"the store counts {count:,} rows, {dataset.rows:,} were acknowledged")
    if store.capabilities.for_index(context.index.kind).get:
        rng = np.random.default_rng(context.seed)
        rows = rng.permutation(dataset.rows)[:VERIFIED]
        metadata = None if dataset.metadata is None else dataset.metadata.take(rows)
        right = read_back(
            store,
            context.schema,
            context.index,
            dataset.ids[rows],
            dataset.vectors[rows],
            metadata,
        )
        lost = len(rows) - right
        total.metrics |= {"verified": float(len(rows)), "ineffective": float(lost)}
        if lost:
            faults.append(f"{lost} of {len(rows)} rows are not as they were written")
    else:
        reason = "it has no get by id"
        total.missing |= {"verified": reason, "ineffective": reason}
    return "; ".join(faults) or None


def _seconds_since(at_ns: int) -> float:
    return (perf_counter_ns() - at_ns) / 1e9
