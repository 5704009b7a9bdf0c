"""Searching under filters: recall and speed against how many rows a filter keeps, and where."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from vectrial.datasets.truth import truth_of
from vectrial.document.sheet import LATENCY, SETTING, Sheet, metric
from vectrial.experiments.base import (
    Experiment,
    Numbers,
    Returns,
    Target,
    Values,
    client_points,
    refuse_threads,
    search_points,
)
from vectrial.experiments.common.predicates import (
    DEEPEST,
    PREDICATES,
    FilterProperties,
    PredicateColumns,
    Shape,
    condition,
    filter_properties,
    make_columns,
    shape_filter,
)
from vectrial.model.capabilities import Returning
from vectrial.model.context import Context, Data, fields_of
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.filters import Filters, to_json
from vectrial.model.inputs import PositiveSeconds, Seconds, Share, Warmup
from vectrial.model.lane import Lane
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase
from vectrial.model.refusals import refuse_filters_on, refuse_unindexed
from vectrial.model.schema import Field as Column
from vectrial.model.schema import FieldType, Schema
from vectrial.model.workload import ClosedLoop
from vectrial.workload import dispatch, ingest
from vectrial.workload.search import SearchLoad
from vectrial.workload.searchers import searchers

Predicate = Literal["column", "independent", "aligned", "opposed"]
Arm = Literal["on", "off"]

_NUMBERS = frozenset({FieldType.INT, FieldType.FLOAT})
#: The value of `selectivity` that means the dataset's own filters.
OWN: Literal["own"] = "own"


@dataclass(frozen=True)
class _Condition:
    """Condition of a phase's searches, and its description."""

    predicate: str
    selectivity: float | str
    where: Filters
    about: Mapping[str, Any]


_SHEET = Sheet(
    "Searching under filters",
    "The same queries without a filter, and under filters that keep shares of the rows: by a "
    "condition on the dataset's own columns; by its own filters, one for each query; and on "
    "made columns, of rows that are near the query (aligned), far from it (opposed), or "
    "neither (independent), also by several conditions at once. Correlation is 1 when all rows "
    "kept are nearer to the query than all others, and -1 when they are all farther. Recall is "
    "judged among the rows kept. Violations are answers, of those looked at, with a row that "
    "the filter does not keep.",
    ("search",),
    (
        ("predicate", "Predicate"),
        ("depth", "Conditions"),
        ("payload_index", "Indexed"),
        ("selectivity", "Share wanted"),
        ("clients", "Clients"),
        ("filter", "Filter"),
        (SETTING, "Setting"),
    ),
    (
        metric("selectivity", "Keeps"),
        metric("filter_correlation", "Correlation"),
        metric("recall_mean", "Recall"),
        metric("qps", "QPS"),
        *LATENCY,
        metric("incomplete_results", "Too short"),
        metric("violations", "Violations"),
        metric("errors", "Errors"),
    ),
    f"{__package__}.report:figures",
    hidden=("pivots",),
)


class Filtered(Experiment):
    """Search without a filter, and under filters that keep given shares of the rows: with payload
    indexes on the columns, and without, if the store lets one choose.

    selectivities: shares of the rows that each predicate keeps.
    predicates: "column" is the condition on one of the dataset's own columns that comes nearest to
        the share. "independent", "aligned" and "opposed" are conditions on generated columns that
        keep exactly the share: rows unrelated to the query, near it, or far from it (see
        `vectrial.experiments.common.predicates`). Default: all of them, but "column" only if the
        dataset has columns.
    own: also search under the dataset's own filters, one for each query. Default: if it has them.
    payload_index: "on", "off", or both. Filters on generated columns, or without indexes, are
        measured in a second store of the same kind.
    depths: number of conditions joined to each of `shapes`, which all keep the share
        `depth_selectivity`; none by default. shapes: "and", "or", "nested" (and and or in turn).
    pivots: pivots of aligned and opposed predicates; each of the three predicates has this many
        distinct filters.
    checks: queries that are sent once more, untimed, to check every row of their answers.
    search: search parameters; lists are grids. clients: closed-loop clients, a number or a list.
    returns: parts returned of each row: "ids", "metadata" or "vectors"; or a list of them.
    min_s, max_s: as of search.
    """

    name: ClassVar[str] = "filtered"
    title: ClassVar[str] = "Search under filters"
    place: ClassVar[int] = 40
    terms: ClassVar[Mapping[str, str]] = {
        "selectivity": "selectivity",
        "predicate": "predicate",
        "depth": "depth of the condition",
        "pivots": "filters of a predicate",
        "filter": "filter",
        "payload_index": "payload index",
    }
    sheet: ClassVar[Sheet | None] = _SHEET
    uses_filters: ClassVar[bool] = True
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    selectivities: tuple[Share, ...] = (0.001, 0.01, 0.1, 0.5)
    predicates: tuple[Predicate, ...] | None = None
    own: bool | None = None
    payload_index: tuple[Arm, ...] = Field(default=("on", "off"), min_length=1)
    depths: tuple[int, ...] = ()
    shapes: tuple[Shape, ...] = ("and", "or", "nested")
    depth_selectivity: float = Field(default=0.1, gt=0, lt=1)
    pivots: int = Field(default=8, ge=1, le=64)
    checks: int = Field(default=200, ge=0, le=1_000_000)
    search: dict[str, Values] = Field(default_factory=dict)
    clients: Numbers = (1,)
    returns: Returns = (Returning.IDS,)
    min_s: Seconds = 1.0
    max_s: PositiveSeconds = 20.0
    warmup_queries: Warmup = 100

    @field_validator("depths")
    @classmethod
    def _check_depths(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(not 1 <= depth <= DEEPEST for depth in value):
            raise ValueError(f"expected depths between 1 and {DEEPEST}")
        return value

    def resolve(self, data: Data) -> Filtered:
        """The experiment with the predicates and filters that the dataset supports, unless the
        suite sets them."""
        kinds: tuple[Predicate, ...] = ("independent", "aligned", "opposed")
        if data.schema.fields:
            kinds = ("column", *kinds)
        settled: dict[str, Any] = {}
        if self.predicates is None:
            settled["predicates"] = kinds
        if self.own is None:
            settled["own"] = data.own_filters is not None
        return self.model_copy(update=settled)

    # -- what is asked, of which store ---------------------------------------------------------

    @property
    def _selectivities(self) -> list[float]:
        return sorted(set(self.selectivities), reverse=True)

    @property
    def _made_columns(self) -> tuple[str, ...]:
        """The predicates on made columns."""
        return tuple(one for one in self.predicates or () if one in PREDICATES)

    def _data_conditions(self) -> list[float | str]:
        """Conditions on the dataset's own columns."""
        wanted: list[float | str] = []
        if "column" in (self.predicates or ()):
            wanted += self._selectivities
        return [*wanted, OWN] if self.own else wanted

    def _arms(self, target: Target) -> tuple[str, ...]:
        return (
            tuple(dict.fromkeys(self.payload_index))
            if target.capabilities.payload_index
            else ("fixed",)
        )

    def points(self, target: Target) -> list[Mapping[str, Any]]:
        """A point for each condition on the dataset's own columns, which the loaded store has
        indexed; and a point for each arm that needs a separate store, with all its conditions."""
        if not target.capabilities.filters:
            raise Unsupported(f"{target.name} has no search under a filter")
        arms = self._arms(target)
        loaded = [1.0, *(() if arms == ("off",) else self._data_conditions())]
        points: list[Mapping[str, Any]] = [
            asked.with_parameters(selectivity=share)
            for share in loaded
            for asked in self._search_points(target)
        ]
        for arm in arms:
            if self._made_columns or self.depths or (arm == "off" and self._data_conditions()):
                points.append({"payload_index": arm})
        return points

    def _search_points(self, target: Target) -> list[OperatingPoint]:
        """Every combination of clients and search parameters."""
        return client_points(self.clients, search_points(target, self.search, self.returns))

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Apply the common checks, and refuse filters that the store does not honour."""
        can = target.capabilities
        for asked in [point] if "selectivity" in point else self._search_points(target):
            super().check_point(target, asked)
            refuse_threads(target, asked["clients"])
        if point.get("payload_index") == "off":
            refuse_unindexed(target.store)
        if "selectivity" in point:
            refuse_filters_on(target.store, _filterable_columns(point["selectivity"], target.data))
            missing = _needed_operators(point["selectivity"], target.data) - can.filters
        elif (self._made_columns or self.depths) and FieldType.INT not in can.field_types:
            raise Unsupported(f"{target.name} keeps no integers to make conditions on")
        else:
            missing = self._operators(target.data, point["payload_index"]) - can.filters
        if missing:
            raise Unsupported(
                f"{target.name} cannot filter with '{min(missing)}'",
                remedy=f"it can: {', '.join(sorted(can.filters))}",
            )

    def _operators(self, data: Data, arm: str) -> frozenset[str]:
        """Operators of all filters that an arm's store receives."""
        used = {"range"} if self._made_columns or self.depths else set()
        if max(self.depths, default=1) > 1:
            used |= {"and"} if set(self.shapes) - {"or"} else set()
            used |= {"or"} if set(self.shapes) - {"and"} else set()
        if arm == "off":
            for share in self._data_conditions():
                used |= _needed_operators(share, data)
        return frozenset(used)

    def only_reads(self, point: Mapping[str, Any]) -> bool:
        return "selectivity" in point

    # -- measuring -----------------------------------------------------------------------------

    def takes_turns(self, point: Mapping[str, Any], lane: Lane) -> bool:
        return True

    def loads(self, context: Context, point: OperatingPoint) -> Generator[SearchLoad]:
        if "selectivity" in point:
            can = context.store.capabilities.for_index(context.index.kind)
            arm = "on" if can.payload_index else "fixed"
            yield from self._searches(
                context, point, arm, _data_condition(context, point["selectivity"])
            )
            return
        arm = str(point["payload_index"])
        made = make_columns(
            context.dataset,
            orders=max((*self.depths, int("independent" in self._made_columns))),
            pivots=self.pivots,
            ranks=bool({"aligned", "opposed"} & set(self._made_columns)),
        )
        dataset = made.with_columns(context.dataset)
        fields = tuple(replace(field, indexed=arm != "off") for field in fields_of(dataset))
        schema = Schema(context.schema.dim, context.schema.metric, fields)

        def truth(k: int, where: Filters) -> Any:
            return context.truth(k, None) if where is None else truth_of(dataset, k, where)

        with context.second_store(f"filtered-{arm}") as store:
            there = replace(context, store=store, schema=schema, dataset=dataset, truth=truth)
            store.create(schema, context.index)
            loaded = dispatch.load(there, stop=dataset.rows)
            if not loaded.valid:
                raise StoreError(f"the store beside could not be loaded: {loaded.reason}")
            ingest.finish(store, context.progress)
            target = Target(type(store), context.index, Data(schema, dataset.rows), context.lane)
            for one in self._conditions(context, made, arm):
                for asked in self._search_points(target):
                    yield from self._searches(there, asked, arm, one)

    def _conditions(
        self, context: Context, columns: PredicateColumns, arm: str
    ) -> Iterator[_Condition]:
        """The conditions of searches in an arm's store, after the search without a filter."""
        yield _data_condition(context, 1.0)
        if arm == "off":
            for wanted in self._data_conditions():
                yield _data_condition(context, wanted)
        for name in self._made_columns:
            for share in self._selectivities:
                each = PREDICATES[name](columns, share)
                yield _Condition(name, share, each, {"pivots": columns.pivots})
        share = self.depth_selectivity
        for shape in dict.fromkeys(self.shapes):
            for depth in sorted(set(self.depths)):
                where = shape_filter(columns, shape, depth, share)
                yield _Condition(shape, share, where, {"depth": depth})

    def _searches(
        self, context: Context, point: OperatingPoint, arm: str, condition: _Condition
    ) -> Iterator[SearchLoad]:
        """The searches under a condition. Their answers are checked after they have ended."""
        where = condition.where
        load = ClosedLoop(int(point["clients"]), min_s=self.min_s, max_s=self.max_s)
        about = {
            "predicate": condition.predicate,
            "selectivity": condition.selectivity,
            **condition.about,
        }
        about["payload_index"] = arm
        if condition.predicate == "column" and not isinstance(where, Sequence | None):
            about["filter"] = to_json(where)
        searches = SearchLoad(
            context,
            point,
            load,
            warmup_queries=self.warmup_queries,
            where=where,
            about=about,
        )
        yield searches
        phase = searches.phase
        if where is None:
            phase.metrics |= {"selectivity": 1.0, "filter_correlation": None, "violations": None}
            phase.missing |= dict.fromkeys(("filter_correlation", "violations"), "no filter")
            return
        answers: dict[int, NDArray[np.int64]] = {}
        try:
            self._collect_answers(context, point, where, answers)
        except Exception as error:  # noqa: BLE001 - whatever a store raises is its answer
            phase.invalidate(f"answers could not be looked at: {type(error).__name__}: {error}")
        _record_filters(phase, filter_properties(context.dataset, where, answers), len(answers))

    def _collect_answers(
        self,
        context: Context,
        point: OperatingPoint,
        where: Filters,
        answers: dict[int, NDArray[np.int64]],
    ) -> None:
        """Send a sample of the queries once more, by the store's own method, and keep their answers
        in `answers`."""
        queries = context.dataset.queries
        each = searchers(context.store, point.returning, context.k, point.search, where)
        chosen = np.linspace(0, len(queries) - 1, min(self.checks, len(queries))).astype(int)
        for at in chosen.tolist():
            search = each if callable(each) else each[at]
            answers[at] = search(queries[at])[0]

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the filtered truth, and one and a half times the least time of the phases."""
        return self.turns_at(point) * (1.0 + self.min_s * 1.5)

    def turns_at(self, point: Mapping[str, Any]) -> int:
        """Number of loads, one for each condition."""
        if "selectivity" in point:
            return 1
        made = len(self._made_columns) * len(self._selectivities)
        return 1 + made + len(self.depths) * len(self.shapes)

    def loads_at(self, point: Mapping[str, Any]) -> float:
        """Number of additional loads, for generated columns."""
        return 0.0 if "selectivity" in point else 2.0


def _needed_operators(selectivity: float | str, data: Data) -> frozenset[str]:
    """Operators used by filters on the dataset's own columns.

    Raises:
        Unsupported: there is nothing to filter by.
    """
    if selectivity == OWN:
        if data.own_filters is None:
            raise Unsupported("the dataset has no filter of its own for every query")
        return data.own_filters
    if selectivity == 1.0:
        return frozenset()
    if not data.schema.fields:
        raise Unsupported("the dataset has no metadata to filter by")
    numeric = any(field.type in _NUMBERS for field in data.schema.fields)
    return frozenset({"range" if numeric else "eq"})


def _filterable_columns(selectivity: float | str, data: Data) -> Sequence[Column]:
    """The dataset's own columns that can be filtered."""
    if selectivity == 1.0:
        return ()
    numeric = [field for field in data.schema.fields if field.type in _NUMBERS]
    return numeric if numeric and selectivity != OWN else data.schema.fields


def _data_condition(context: Context, selectivity: float | str) -> _Condition:
    """The condition on the dataset's own columns; no condition at 1."""
    if selectivity == 1.0:
        return _Condition("none", 1.0, None, {})
    if selectivity != OWN:
        assert context.dataset.metadata is not None, "the plan refuses it"
        where = condition(context.dataset.metadata, float(selectivity))
        return _Condition("column", selectivity, where, {})
    kept = [one for one in context.dataset.filters or () if one is not None]
    if len(kept) != len(context.dataset.queries):
        raise StoreError("the dataset has no filter of its own for every query")
    return _Condition(OWN, OWN, kept, {})


def _record_filters(phase: Phase, properties: FilterProperties, looked_at: int) -> None:
    """Record in a phase the properties of its filters, and whether its answers satisfy them."""
    timed, violated = (phase.metrics.get(one) or 0 for one in ("checked_answers", "violations"))
    phase.metrics |= {
        "checked_answers": timed + looked_at,
        "violations": violated + properties.violations if timed + looked_at else None,
    }
    if not timed + looked_at:
        phase.missing["violations"] = "no answer was looked at"
    for name, values in (
        ("selectivity", properties.selectivity),
        ("filter_correlation", properties.correlation),
    ):
        for suffix, of in (("", np.mean), ("_min", np.min), ("_max", np.max)):
            phase.metrics[name + suffix] = float(of(values)) if len(values) else None
            if not len(values):
                phase.missing[name + suffix] = "every filter keeps all rows, or none"
    if properties.violations:
        wrong = (
            f"{properties.violations} of {looked_at} answers looked at have rows that the filter"
            " does not keep"
        )
        phase.invalidate(wrong)
