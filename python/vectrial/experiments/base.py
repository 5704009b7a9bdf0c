"""What an experiment is.

An experiment is one file in this package with one frozen class: its fields are its parameters
(validated by pydantic when the plan is made), `points` expands it to operating points, and
`run` measures one of them on a store that is in the state `starts_from` names. It knows no
store by name, and writes nothing itself: it yields phases.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic import Field as Bound

from vectrial.datasets.model import Dataset, Truth
from vectrial.errors import Unsupported, UserError
from vectrial.filters import Filters, operators
from vectrial.gate.checks import Scope
from vectrial.inputs import Clients, ExactModel, product_size
from vectrial.load.lane import Lane, refuse_returning, writes_natively
from vectrial.stores.base import (
    Address,
    Field,
    Index,
    Params,
    Returning,
    Schema,
    Searcher,
    Store,
)
from vectrial.stores.kinds import FileKind

if TYPE_CHECKING:
    from vectrial.load.ceiling import Certificate
    from vectrial.load.live import Live


class State(StrEnum):
    """What an experiment finds when it starts."""

    EMPTY = "empty"  # no collection yet: the experiment creates and loads it
    LOADED = "loaded"  # every row of the dataset, in the final index


def as_list(value: object) -> object:
    """One value as a list of it; anything else as it is."""
    return [value] if isinstance(value, int | float | str) else value


#: Neighbours asked for when a row is looked for by its own vector.
_LOOKED_AT = 10
#: Points of one experiment on one index.
MOST_POINTS = 10_000
#: A number of at least 1, or a list of them to measure each.
Numbers = Annotated[tuple[Clients, ...], BeforeValidator(as_list), Bound(min_length=1)]
#: A value of a search parameter, or a list of them: a grid.
Values = list[int | float | str | bool] | int | float | str | bool
#: What the searches of an experiment bring back: one, or a list to measure each.
Returns = Annotated[tuple[Returning, ...], BeforeValidator(as_list), Bound(min_length=1)]


@dataclass(frozen=True)
class Data:
    """What a plan knows of a dataset. own_filters: operators of the filters that it has for its
    queries; None when not every query has one. query_fields: names of the columns of what is known
    of each query."""

    schema: Schema
    own_filters: frozenset[str] | None = None
    query_fields: frozenset[str] = frozenset()


@dataclass
class Phase:
    """A timed part of a trial, as measured.

    metrics: name → value, or None with a reason in `missing`. Names are those of
        `vectrial.results.schema.METRICS`.
    histograms: name → HDR histogram in the V2 encoding, nanoseconds.
    windows: operation → columns second, count, errors, p50_us, p99_us, max_us, recall.
    errors: (kind, count, first messages).
    started_ns, ended_ns: `time.perf_counter_ns`. paused_ns: for how long its clock stood still in
        between: it really ended so much later.
    unsampled: why nobody knows what the server used in it; None where what is sampled from its
        start until it is yielded is its own.
    pending: what is to be judged of it when it has been sampled: see `look`.

    It is yielded when it has ended, before anything else is done; what is judged or read back
    afterwards is written into it then.
    """

    name: str
    started_ns: int
    ended_ns: int
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    histograms: dict[str, bytes] = field(default_factory=dict)
    windows: dict[str, Mapping[str, Sequence[float | int | None]]] = field(default_factory=dict)
    errors: list[tuple[str, int, list[str]]] = field(default_factory=list)
    valid: bool = True
    reason: str | None = None
    paused_ns: int = 0
    unsampled: str | None = None
    pending: Callable[[], None] | None = None

    def look(self) -> None:
        """Look at what is left to be judged, if anything; it is judged once."""
        pending, self.pending = self.pending, None
        if pending is not None:
            pending()

    def invalidate(self, why: str) -> None:
        """The phase may not be trusted, for this reason beside what there is."""
        self.valid = False
        self.remark(why)

    def remark(self, what: str) -> None:
        """Something to know of the phase, valid or not, beside what there is."""
        self.reason = "; ".join(filter(None, (self.reason, what)))


@dataclass(frozen=True)
class Context:
    """Everything an experiment may use.

    store: the instance under test, made but not created when the experiment starts empty.
    lane: how searches are issued.
    certificate: what the client of a native trial is held to, and where it runs.
    dataset: the rows of this trial and no others.
    data_dirs: the folders that hold the store's data; none when it keeps them elsewhere.
    address: of the store's server; None where it has none.
    resident_bytes: what the store's process holds in memory now: this one, or its server's; None
        when that runs elsewhere.
    baseline_rss_bytes: the same before anything was loaded.
    empty_disk: bytes by kind that `data_dirs` held before this load, as of `storage.on_disk`: the
        server's own files, and what earlier loads of the same server have left.
    progress: called with (done, of, what) outside timed samples.
    show: called with what a long phase is doing right now, as often.
    truth: exact neighbours for k under a filter.
    repeat_queries: timed searches ask the dataset's own queries again and again; else none twice,
        as far as there are enough: see `load.queries`.
    crash: kills the store's server, starts it again on the same data, and says where it listens;
        None where the store has none. Raises `Unsupported` where the server is somebody else's.
    beside: a store of the same kind, not created yet, for what needs another schema or other
        rows; it is gone when the block is left. Each name is a place of its own.
    """

    store: Store
    lane: Lane
    certificate: Certificate
    dataset: Dataset
    schema: Schema
    index: Index
    k: int
    seed: int
    batch_rows: int
    progress: Callable[[float, float, str], None]
    show: Callable[[Live], None]
    truth: Callable[[int, Filters], Truth]
    data_dirs: tuple[Path, ...]
    resident_bytes: Callable[[], int | None]
    baseline_rss_bytes: int | None
    beside: Callable[[str], AbstractContextManager[Store]]
    repeat_queries: bool = False
    address: Address | None = None
    empty_disk: Mapping[FileKind, int] = field(default_factory=dict)
    crash: Callable[[], Address] | None = None


class Experiment(ExactModel, ABC):
    """Base of all experiments; see the module's text."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: ClassVar[str]
    title: ClassVar[str]
    starts_from: ClassVar[State] = State.LOADED
    #: Names of the parameters that `points` expands.
    axes: ClassVar[frozenset[str]] = frozenset()
    #: It looks at what was loaded before the gate has put its questions to it.
    before_gate: ClassVar[bool] = False
    #: It changes rows: it runs after those that do not, and nothing runs after it.
    mutates: ClassVar[bool] = False
    #: It searches under filters; it finds rows by condition.
    uses_filters: ClassVar[bool] = False
    uses_find: ClassVar[bool] = False
    #: It sends requests. What sends none is told beside the lane that the suite names first.
    asks: ClassVar[bool] = True
    #: The lanes that it can be measured through: its searches are those of `load.lanes.search`.
    #: None: it calls the store's own methods.
    through: ClassVar[frozenset[Lane] | None] = None

    @model_validator(mode="after")
    def _ends_after_it_may(self) -> Self:
        """A phase that is asked to last `min_s` is not to be ended before, by `max_s`."""
        least, most = getattr(self, "min_s", None), getattr(self, "max_s", None)
        asked = "min_s" in self.model_fields_set
        if asked and least is not None and most is not None and least > most:
            raise ValueError(f"min_s = {least:g} is more than max_s = {most:g}")
        return self

    def lanes(self) -> frozenset[Lane] | None:
        """As `through`, of this experiment with these parameters."""
        return self.through

    @classmethod
    def rests_on(cls) -> frozenset[Scope]:
        """What its figures rest on: a gate check of another scope says nothing about them."""
        used = {
            Scope.EVERYTHING: True,
            Scope.FILTERS: cls.uses_filters,
            Scope.FINDS: cls.uses_find,
            Scope.CHANGES: cls.mutates,
        }
        return frozenset(scope for scope in Scope if used[scope])

    @classmethod
    def writes(cls) -> bool:
        """Its figures are those of writes, too."""
        return cls.mutates or cls.starts_from is State.EMPTY

    def on(self, data: Data) -> Experiment:
        """The experiment on these data: parameters that were left open, settled."""
        return self

    @abstractmethod
    def points(self, store: type[Store], index: Index, rows: int) -> list[dict[str, Any]]:
        """The operating points, each a flat dict of parameters that defines one trial.

        A point with the key `rows` is measured on the first so many of the dataset's `rows`.

        Raises:
            Unsupported: the store cannot do what is asked.
        """

    def refuse_point(
        self,
        store: type[Store],
        index: Index,
        data: Data,
        lane: Lane,
        point: Mapping[str, Any],
    ) -> None:
        """Raise `Unsupported`, with the reason, when one of the points cannot be measured through
        this lane or on these data."""
        if self.writes() and lane is Lane.NATIVE and not writes_natively(store):
            raise Unsupported(f"{store.name}: the engine does not write its rows over the wire")
        refuse_returning(
            store, index, data.schema, lane, returning_of(point), self.clients_at(point) or 1
        )

    @abstractmethod
    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        """Measure one operating point."""

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """Clients of the closed loop that is offered at a point; None when the loop is open."""
        return 1

    def settings(self) -> dict[str, Any]:
        """The parameters that define a trial beside its point; part of the trial's key."""
        return self.model_dump(mode="json", exclude=set(self.axes))

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """A rough guess of the seconds one point takes, for `--dry-run`."""
        return 5.0


def search_points(
    store: type[Store],
    index: Index,
    search: Mapping[str, Any],
    returns: Sequence[Returning] = (),
) -> list[dict[str, Any]]:
    """Every combination of those search parameters that `index` has, with each of `returns`; of
    the parameters it may have none.

    Raises:
        Unsupported: a value that the index does not take.
        UserError: more than `MOST_POINTS` combinations.
    """
    model = store.capabilities.indexes[index.kind].search
    axes = {
        name: list(values) if isinstance(values, list | tuple) else [values]
        for name, values in search.items()
        if name in model.model_fields
    }
    if (size := product_size(list(axes.values()))) > MOST_POINTS:
        raise UserError(
            f"the lists of search parameters make {size:,} points, at most {MOST_POINTS:,} are"
            " measured",
            where="search",
            remedy="shorten them",
        )
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    for point in points:
        try:
            model.model_validate(point)
        except ValidationError as error:
            fault = error.errors()[0]
            raise Unsupported(
                f"{store.name}: search parameter {'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            ) from error
    if not returns:
        return points
    kinds = dict.fromkeys(returns)
    return [{**point, "returns": str(returning)} for returning in kinds for point in points]


def client_points(
    clients: Sequence[int], points: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Each of `points` at each number of clients."""
    every = list(points)
    return [{"clients": one, **point} for one in dict.fromkeys(clients) for point in every]


def refuse_threads(store: type[Store], index: Index, clients: int) -> None:
    """Raise `Unsupported` where several clients are to search a store that allows only one."""
    if clients > 1 and not store.capabilities.under(index.kind).concurrent_search:
        raise Unsupported(f"{store.name} must not be searched from several threads at once")


def returning_of(point: Mapping[str, Any]) -> Returning:
    """What the searches of a point bring back."""
    return Returning(point.get("returns", Returning.IDS))


def search_params(context: Context, point: Mapping[str, Any]) -> Params:
    """The validated search parameters among a point's."""
    model = context.store.capabilities.indexes[context.index.kind].search
    given = {name: value for name, value in point.items() if name in model.model_fields}
    return model.model_validate(given)


def looking_for(store: Store, context: Context, point: Mapping[str, Any]) -> Searcher:
    """A search to look for rows by their own vectors. Of these each is the nearest row, so that few
    are asked for, whatever the suite's k is: some stores refuse a k beyond their search effort."""
    return store.searcher(min(context.k, _LOOKED_AT), search_params(context, point))


def seeing_writes(context: Context, point: Mapping[str, Any]) -> dict[str, Any]:
    """A point, with what lets searches see every change that was acknowledged before them, where
    the store has a setting for it and the point does not say."""
    return {**context.store.capabilities.indexes[context.index.kind].fresh, **point}


def fields_of(dataset: Dataset) -> tuple[Field, ...]:
    """The metadata columns of a dataset as a store's schema fields."""
    from vectrial.stores.base import ARROW_TYPES

    if dataset.metadata is None:
        return ()
    kinds = {arrow: kind for kind, arrow in ARROW_TYPES.items()}
    return tuple(
        Field(
            column.name,
            kinds[column.type],
            missing=dataset.metadata.column(column.name).null_count > 0,
            longest=_longest(dataset.metadata.column(column.name)),
        )
        for column in dataset.metadata.schema
    )


def _longest(column: Any) -> int:
    """Bytes of the longest text of a column, as UTF-8; 0 of other columns."""
    if not pa.types.is_string(column.type):
        return 0
    return int(pc.max(pc.binary_length(column)).as_py() or 0)


def own_filters(dataset: Dataset) -> frozenset[str] | None:
    """Operators of the filters that a dataset has for its queries; see `Data`."""
    if dataset.filters is None:
        return None
    used = frozenset[str]()
    for one in dataset.filters:
        if one is None:
            return None
        used |= operators(one)
    return used
