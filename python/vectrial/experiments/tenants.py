"""Many tenants in one store: searches of one while another loads, and rows of others in answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from vectrial.datasets.exact import exact_topk
from vectrial.document.sheet import LATENCY, SETTING, Sheet, metric
from vectrial.experiments.base import Experiment, Target, Values, as_list, search_points
from vectrial.experiments.common.builder import Builder
from vectrial.experiments.common.row_parts import insert, take_rows
from vectrial.model.context import Context
from vectrial.model.dataset import Dataset, Truth
from vectrial.model.errors import Unsupported
from vectrial.model.filters import Eq, Filter, Filters
from vectrial.model.inputs import Clients, PositiveSeconds, Share, Warmup
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase, State
from vectrial.model.results_schema import MetricName
from vectrial.model.schema import Field as Column
from vectrial.model.schema import FieldType, Schema
from vectrial.model.workload import ClosedLoop
from vectrial.workload import dispatch, ingest

_COLUMN = "tenant"
_METRICS = (
    MetricName("tenants", "1", None, "tenants in the store", "Tenants"),
    MetricName("tenant_rows", "1", None, "rows of the tenant that is searched", "Its rows"),
    MetricName("leaked_rows", "1", "lower", "rows of other tenants in answers", "Leaked rows"),
    MetricName(
        "p99_to_alone", "1", "lower",
        "99th percentile while another tenant loads, over that without", "p99",
    ),
    MetricName("qps_to_alone", "1", "higher", "QPS likewise", "QPS"),
    MetricName("loaded_rows_per_s", "1/s", "higher", "of the other tenant", "Loaded"),
)  # fmt: skip
_OWN = {one.name: one for one in _METRICS}

_SHEET = Sheet(
    "Tenants",
    "One tenant is searched: alone, then while rows of another are inserted and indexed. By "
    "collection each has one of its own; by filter and by partition all share one, and a condition "
    "on a column tells them apart, by which a partitioned one also stores them apart. A row of "
    "another tenant in an answer makes the phase invalid.",
    ("alone", "beside"),
    (("isolation", "Isolation"), (SETTING, "Setting"), ("phase", "When")),
    (
        metric(_OWN["tenants"], "Tenants"),
        metric(_OWN["tenant_rows"], "Its rows"),
        metric("qps", "QPS"),
        *LATENCY,
        metric("recall_mean", "Recall"),
        metric(_OWN["leaked_rows"], "Leaked rows"),
        metric(_OWN["p99_to_alone"], "p99", "To alone"),
        metric(_OWN["qps_to_alone"], "QPS", "To alone"),
        metric(_OWN["loaded_rows_per_s"], "Loaded"),
        metric("errors", "Errors"),
    ),
    sparse=True,
)


class Isolation(StrEnum):
    """Ways to separate the tenants."""

    COLLECTION = "collection"
    PARTITION = "partition"
    FILTER = "filter"


@dataclass(frozen=True)
class _TenantRows:
    """Rows (positions) of each tenant, the largest first."""

    rows: tuple[NDArray[np.int64], ...]

    @property
    def searched_index(self) -> int:
        """Index of the searched tenant, the one of middle size."""
        return len(self.rows) // 2


class Tenants(Experiment):
    """Load the rows of many tenants, search one of them alone, and then while rows of the largest
    are inserted and indexed.

    Sizes fall as 1/rank. The tenant of middle size is searched, by the dataset's queries.

    isolation: "collection", "partition" (where the store has them) or "filter". tenants: how many.
    added: share of the largest tenant's rows that come while the other is searched. search:
    search parameters; lists are grids. clients: closed-loop clients. duration_s: seconds of the
    phase alone. max_s: longest time of the other phase.
    """

    name: ClassVar[str] = "tenants"
    title: ClassVar[str] = "Tenants"
    place: ClassVar[int] = 78
    metrics: ClassVar[tuple[MetricName, ...]] = _METRICS
    terms: ClassVar[Mapping[str, str]] = {"isolation": "isolation of the tenants"}
    sheet: ClassVar[Sheet | None] = _SHEET
    starts_from: ClassVar[State] = State.EMPTY
    mutates: ClassVar[bool] = True  # what it leaves is not the whole dataset
    axes: ClassVar[frozenset[str]] = frozenset({"isolation", "search"})
    lanes: ClassVar[frozenset[Lane] | None] = frozenset({Lane.NATIVE})

    isolation: Annotated[tuple[Isolation, ...], BeforeValidator(as_list), Field(min_length=1)] = (
        Isolation.COLLECTION,
        Isolation.PARTITION,
        Isolation.FILTER,
    )
    tenants: int = Field(default=20, ge=3, le=10_000)
    added: Share = 0.5
    search: dict[str, Values] = Field(default_factory=dict)
    clients: Clients = 4
    duration_s: PositiveSeconds = 5.0
    max_s: PositiveSeconds = 300.0
    warmup_queries: Warmup = 1000

    def points(self, target: Target) -> list[OperatingPoint]:
        if not target.capabilities.inserts_after_build:
            raise Unsupported(f"{target.name} inserts nothing once its index is built")
        settings = search_points(target, self.search)
        return [
            point.with_parameters(isolation=str(one))
            for one in self.isolation
            for point in settings
        ]

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Apply the common checks, and refuse a store without the partitions, or filters on a
        column, that isolate the tenants."""
        super().check_point(target, point)
        can = target.capabilities
        isolation = Isolation(point["isolation"])
        filterable = FieldType.INT in can.field_types and "eq" in can.filters
        if isolation is not Isolation.COLLECTION and not filterable:
            raise Unsupported(f"{target.name} does not search under a filter on a whole number")
        if isolation is Isolation.PARTITION and can.partitions is None:
            raise Unsupported(f"{target.name} does not store the rows of a column's values apart")

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        shares = _draw_tenant_rows(context.dataset.rows, self.tenants, context.seed)
        largest = shares.rows[0]
        held = largest[: max(1, round(len(largest) * (1 - self.added)))]
        added = largest[len(held) :]
        isolation = Isolation(point["isolation"])
        partitions = isolation is Isolation.PARTITION
        apart = isolation is Isolation.COLLECTION
        place = self._separate_contexts if apart else partial(self._shared_contexts, partitions)
        with place(context, shares, held) as (quiet, noisy, where):
            own = frozenset(quiet.dataset.ids[shares.rows[shares.searched_index]].tolist())
            asked = _tenant_context(quiet, shares)
            alone = self._search_phase(asked, point, "alone", where, own)
            yield alone
            builder = Builder(noisy, take_rows(noisy.dataset, added))
            try:
                beside = self._search_phase(asked, point, "beside", where, own, builder.has_ended)
            finally:
                builder.join()
            _compare(beside, alone)
            beside.metrics["loaded_rows_per_s"] = len(added) / builder.added_s
            if not builder.has_finished_in_time:
                beside.remark("max_s was over before the rows were loaded")
            yield beside

    @contextmanager
    def _separate_contexts(
        self, context: Context, shares: _TenantRows, held: NDArray[np.int64]
    ) -> Iterator[tuple[Context, Context, Filter | None]]:
        """Contexts with each tenant in a collection of its own."""
        schema = Schema(context.dataset.dim, context.dataset.metric)
        bare = replace(context.dataset, metadata=None, filters=None)
        context = replace(context, schema=schema, dataset=bare)
        with ExitStack() as stack:
            found = []
            for tenant, rows in enumerate(shares.rows):
                store = stack.enter_context(context.second_store(f"tenant-{tenant}"))
                store.create(schema, context.index)
                insert(
                    store, context, take_rows(bare, held if tenant == 0 else rows), context.progress
                )
                ingest.finish(store, context.progress)
                found.append(replace(context, store=store))
            yield found[shares.searched_index], found[0], None

    @contextmanager
    def _shared_contexts(
        self, partitions: bool, context: Context, shares: _TenantRows, held: NDArray[np.int64]
    ) -> Iterator[tuple[Context, Context, Filter | None]]:
        """All tenants in one collection, with a column that names them and may partition it."""
        tenant_of = np.empty(context.dataset.rows, np.int64)
        for tenant, rows in enumerate(shares.rows):
            tenant_of[rows] = tenant
        dataset = replace(context.dataset, metadata=pa.table({_COLUMN: tenant_of}), filters=None)
        column = Column(_COLUMN, FieldType.INT, partitions=partitions)
        schema = Schema(dataset.dim, dataset.metric, (column,))
        context = replace(context, schema=schema, dataset=dataset)
        store = context.store
        store.create(schema, context.index)
        first = np.sort(np.concatenate([held, *shares.rows[1:]]))
        insert(store, context, take_rows(dataset, first), context.progress)
        ingest.finish(store, context.progress)
        yield context, context, Eq(_COLUMN, shares.searched_index)

    def _search_phase(
        self,
        context: Context,
        point: Mapping[str, Any],
        name: str,
        where: Filter | None,
        own: frozenset[int],
        until: Callable[[], bool] | None = None,
    ) -> Phase:
        """A phase of searches for one tenant, with a count of other tenants' rows in its
        answers."""
        seconds = self.duration_s if until is None else self.max_s
        load = ClosedLoop(self.clients, seconds, seconds)
        asked = {key: value for key, value in point.items() if key != "isolation"}
        phase = dispatch.search(
            context, asked, load, warmup_queries=self.warmup_queries, where=where, name=name,
            until=until,
        )  # fmt: skip
        answers = dispatch.answers(context, asked, where)
        leaked = sum(int(id_) not in own for ids in answers for id_ in ids)
        phase.params = {**phase.params, "isolation": point["isolation"]}
        phase.metrics |= {
            "tenants": float(self.tenants),
            "tenant_rows": float(len(own)),
            "leaked_rows": float(leaked),
        }
        if leaked:
            phase.invalidate(f"{leaked} rows of other tenants in {len(answers)} answers")
        return phase

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the phase alone."""
        return 5.0 + self.duration_s

    def loads_at(self, point: Mapping[str, Any]) -> float:
        """One load, part of which takes longer because of concurrent searches."""
        return 1.5


def _draw_tenant_rows(rows: int, tenants: int, seed: int) -> _TenantRows:
    """Rows of each tenant, drawn at random; sizes fall as 1/rank, and each tenant has at least
    ten."""
    weights = 1 / np.arange(1, tenants + 1)
    sizes = np.maximum(10, (weights / weights.sum() * (rows - 10 * tenants)).astype(int))
    order = np.random.default_rng([seed, tenants]).permutation(rows)
    ends = np.cumsum(sizes)
    return _TenantRows(
        tuple(np.sort(order[end - size : end]) for size, end in zip(sizes, ends, strict=True))
    )


def _tenant_context(context: Context, shares: _TenantRows) -> Context:
    """The context with the truth of the searched tenant."""
    rows = shares.rows[shares.searched_index]
    return replace(context, truth=partial(_truth, context.dataset, rows))


def _truth(dataset: Dataset, rows: NDArray[np.int64], k: int, where: Filters) -> Truth:
    vectors = np.ascontiguousarray(dataset.vectors[rows])
    return exact_topk(vectors, dataset.ids[rows], dataset.queries, dataset.metric, k)


def _compare(phase: Phase, idle: Phase) -> None:
    for ratio, of in (("p99_to_alone", "latency_p99"), ("qps_to_alone", "qps")):
        one, other = phase.metrics.get(of), idle.metrics.get(of)
        if one and other:
            phase.metrics[ratio] = one / other
