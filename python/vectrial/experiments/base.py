"""Base class of experiments.

An experiment is one file in this package with one frozen class: its fields are its parameters
(validated by pydantic when the plan is made), `points` expands it to operating points, and
`run` measures one of them on a store that is in the state `starts_from` names. It knows no
store by name, and writes nothing itself: it yields phases.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic import Field as Bound
from pydantic_core import PydanticUndefined

from vectrial.document.sheet import Sheet
from vectrial.model.capabilities import Capabilities, Index, Params, Returning
from vectrial.model.context import Context, Data, operating_point, search_params
from vectrial.model.errors import Unsupported, UserError
from vectrial.model.inputs import Clients, ExactModel, product_size
from vectrial.model.lane import Lane, refuse_returning, refuse_search_params, writes_natively
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Phase, State, TurnTime
from vectrial.model.placement import Limits
from vectrial.model.results_schema import MetricName
from vectrial.model.store import Searcher, Store
from vectrial.model.trial import Scope
from vectrial.workload.turn_load import TurnLoad

if TYPE_CHECKING:
    from vectrial.analysis.run_data import RunData
    from vectrial.document.blocks import Section
    from vectrial.document.charts.theme import Looks


def as_list(value: object) -> object:
    """A single value as a list of one; anything else is returned unchanged."""
    return [value] if isinstance(value, int | float | str) else value


#: Neighbours asked for when a row is looked for by its own vector.
_LOOKED_AT = 10
#: Points of one experiment on one index.
MOST_POINTS = 10_000
#: A number of at least 1, or a list of them to measure each.
Numbers = Annotated[tuple[Clients, ...], BeforeValidator(as_list), Bound(min_length=1)]
#: A value of a search parameter, or a list of them: a grid.
Values = list[int | float | str | bool] | int | float | str | bool
#: The parts of rows that searches return: one value, or a list to measure each.
Returns = Annotated[tuple[Returning, ...], BeforeValidator(as_list), Bound(min_length=1)]


@dataclass(frozen=True)
class Target:
    """A store with an index, the data it is loaded with, and the lane of its requests: everything
    that a plan knows of the place where an experiment runs. nodes: number of nodes of its cluster;
    hosts: each node is on a host of its own."""

    store: type[Store]
    index: Index
    data: Data
    lane: Lane
    nodes: int = 1
    hosts: bool = False

    @property
    def name(self) -> str:
        """The store's name."""
        return self.store.name

    @property
    def capabilities(self) -> Capabilities:
        """The store's capabilities under this index."""
        return self.store.capabilities.for_index(self.index.kind)

    @property
    def search_model(self) -> type[Params]:
        """The model of the index's search parameters."""
        return self.store.capabilities.indexes[self.index.kind].search

    def point(self, parameters: Mapping[str, Any]) -> OperatingPoint:
        """The operating point with these parameters.

        Raises:
            Unsupported: a value that the index does not take.
        """
        if isinstance(parameters, OperatingPoint):
            return parameters
        try:
            return OperatingPoint.parse(self.search_model, parameters)
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"]))
            raise Unsupported(f"{self.name}: search parameter {where}: {fault['msg']}") from error


class Experiment(ExactModel, ABC):
    """Base of all experiments; see the module's text."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: ClassVar[str]
    title: ClassVar[str]
    #: Experiments of earlier versions that this one includes, with the settings that repeat each.
    replaces: ClassVar[Mapping[str, str]] = {}
    starts_from: ClassVar[State] = State.LOADED
    #: Names of the parameters that `points` expands.
    axes: ClassVar[frozenset[str]] = frozenset()
    #: Its parameters, and its phases' parameters, that two measurements must have in common to be
    #: compared, with a name for people, beside those of every experiment (`compare.groups`). Every
    #: other parameter is a setting, which may differ.
    terms: ClassVar[Mapping[str, str]] = {}
    #: Terms that bear only on phases with the other one, too: the rest come before it matters.
    only_with: ClassVar[Mapping[str, str]] = {}
    #: Metrics of this experiment, in addition to those of `model.results_schema.METRICS`.
    metrics: ClassVar[tuple[MetricName, ...]] = ()
    #: Order of its sections among those of other experiments; the lowest comes first.
    place: ClassVar[int] = 100
    #: The module that makes its sections of a report: a function `sections` takes the run, the
    #: experiment's points in it, and the looks of series in figures (None: no figures). It is named
    #: and not imported, since the measuring process has no libraries for reports.
    report: ClassVar[str] = ""
    #: Its section of a report, where its figures fit one table; it comes after those of `report`.
    sheet: ClassVar[Sheet | None] = None
    #: It measures the loaded store before the gate has sent requests to it.
    before_gate: ClassVar[bool] = False
    #: It searches before what counts by itself: the server is not warmed up for it.
    warms_up: ClassVar[bool] = False
    #: It changes rows: it runs after those that do not, and nothing runs after it.
    mutates: ClassVar[bool] = False
    #: It searches under filters; it finds rows by condition.
    uses_filters: ClassVar[bool] = False
    uses_find: ClassVar[bool] = False
    #: Its loads may be sent by other machines than that of the store's server.
    from_client_machines: ClassVar[bool] = False
    #: It ends the store's server: one that does not come back is a result, and no failed trial.
    ends_server: ClassVar[bool] = False
    #: It asks for object stores.
    uses_objects: ClassVar[bool] = False
    #: True if a point that two entries of a suite share is measured once, for as long as the first
    #: entry asks. Points are different if settings other than those in `extent` differ.
    shares_points: ClassVar[bool] = False
    #: Settings that say how long a point is measured, and which points there are.
    extent: ClassVar[frozenset[str]] = frozenset()
    #: It sends requests. One that sends none runs once, with the lane that the suite names first.
    sends_requests: ClassVar[bool] = True
    #: The lanes that it can be measured through: its searches are those of `workload.dispatch`.
    #: None: it calls the store's own methods.
    lanes: ClassVar[frozenset[Lane] | None] = None

    @model_validator(mode="after")
    def _check_max_s(self) -> Self:
        """Raise if `max_s` would end a phase before the `min_s` that was asked for."""
        least, most = getattr(self, "min_s", None), getattr(self, "max_s", None)
        asked = "min_s" in self.model_fields_set
        if asked and least is not None and most is not None and least > most:
            raise ValueError(f"min_s = {least:g} is more than max_s = {most:g}")
        return self

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The experiment's parameters with their defaults; None for a parameter without a
        default."""
        values = {
            name: field.get_default(call_default_factory=True)
            for name, field in cls.model_fields.items()
        }
        return {name: None if v is PydanticUndefined else v for name, v in values.items()}

    @classmethod
    def summary(cls) -> str:
        """The summary of the experiment: the first paragraph of its class's docstring."""
        return " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())

    def supported_lanes(self) -> frozenset[Lane] | None:
        """Lanes that this experiment supports with these parameters; see `lanes`."""
        return self.lanes

    def _refuse_set(self, names: Iterable[str], why: str) -> None:
        """Raise `ValueError` if one of these parameters differs from its default."""
        for name in names:
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} {why}")

    @classmethod
    def depends_on(cls) -> frozenset[Scope]:
        """The scopes that the figures depend on: gate checks of other scopes do not affect them."""
        used = {
            Scope.EVERYTHING: True,
            Scope.FILTERS: cls.uses_filters,
            Scope.FINDS: cls.uses_find,
            Scope.CHANGES: cls.mutates,
        }
        return frozenset(scope for scope in Scope if used[scope])

    @classmethod
    def writes(cls) -> bool:
        """True if the experiment's figures include those of writes."""
        return cls.mutates or cls.starts_from is State.EMPTY

    def only_reads(self, point: Mapping[str, Any]) -> bool:
        """True if this point only searches the existing collection and needs no other: it can be
        measured on a collection that somebody else made."""
        return False

    def resolve(self, data: Data) -> Experiment:
        """The experiment on these data, with values for the parameters that were left open. Its
        class is a subclass if the parameters decide the values of class variables."""
        return self

    @classmethod
    def sections(cls, run: RunData, looks: Looks | None) -> list[Section]:
        """The experiment's sections of a report on a run, made by `report` and `sheet`; without
        either, a table of every value.

        looks: how series look in figures; None: the sections have no figures.
        """
        from vectrial.document import sections  # reads runs, which the measuring process cannot

        if not cls.report and cls.sheet is None:
            return sections.section_of_values(run, cls.name, cls.title)
        found: list[Section] = []
        if cls.report:
            found += import_module(cls.report).sections(run, run.select(cls.name), looks)
        if cls.sheet is not None:
            found += sections.sheet_sections(cls.name, cls.sheet, run, looks)
        return found

    @abstractmethod
    def points(self, target: Target) -> Sequence[Mapping[str, Any]]:
        """The operating points, each a flat mapping of parameters that defines one trial.

        A point with the key `rows` is measured on that many first rows of the dataset.

        Raises:
            Unsupported: the store cannot do what is asked.
        """

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Raise `Unsupported`, with the reason, if a point cannot be measured through this lane or
        on these data."""
        store, lane = target.store, target.lane
        if self.writes() and lane is Lane.NATIVE and not writes_natively(store):
            raise Unsupported(f"{store.name}: the engine does not write its rows over the wire")
        refuse_search_params(store, target.index, lane, point)
        returning, clients = target.point(point).returning, self.clients_at(point) or 1
        refuse_returning(store, target.index, target.data.schema, lane, returning, clients)

    def takes_turns(self, point: Mapping[str, Any], lane: Lane) -> bool:
        """True if the phases of a point come from `loads`, and can take turns with other stores'
        phases through this lane."""
        return False

    def turn_time(self, point: Mapping[str, Any]) -> TurnTime:
        """The time for which each load of a point takes turns."""
        own: float | None = getattr(self, "duration_s", None)
        return TurnTime(own or 1.5 * float(getattr(self, "min_s", 1.0)))

    def turns_at(self, point: Mapping[str, Any]) -> int:
        """Number of loads of a point that take turns, one after the other; for an estimate."""
        return 1

    def loads(self, context: Context, point: OperatingPoint) -> Generator[TurnLoad | Phase]:
        """The loads of a point, in order, if `run` is not overridden. Each load is measured, alone
        or in turns, before the next one is requested. A phase among them states why it has no
        figures."""
        raise NotImplementedError(f"{self.name} has neither `run` nor `loads`")

    def run(self, context: Context, point: OperatingPoint) -> Iterator[Phase]:
        """Measure one operating point."""
        for load in self.loads(context, point):
            yield load if isinstance(load, Phase) else load.measure_whole()

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """Number of clients of the closed loop at a point: the point's `clients`, or else the
        experiment's, the greatest if it has several; 1 without either. None if the loop is open."""
        clients = point.get("clients", getattr(self, "clients", None)) or 1
        return max(clients) if isinstance(clients, tuple) else int(clients)

    def limits_at(self, point: Mapping[str, Any]) -> Limits | None:
        """Limits of the server at a point, or of the measuring process if the store has no server.
        None: the server has the limits of the suite's placement."""
        return None

    def for_point(self) -> Self:
        """The experiment as the measuring process gets it with a point: without `search` if
        `points` expands it. Reading `search` there would be an error, which fails the trial."""
        experiment = self.model_copy()
        if "search" in self.axes:
            experiment.__dict__.pop("search", None)
        return experiment

    def settings(self) -> dict[str, Any]:
        """The parameters that define a trial in addition to its point; part of the trial's key."""
        return self.model_dump(mode="json", exclude=set(self.axes))

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """A rough estimate of the seconds that one point takes in addition to loads."""
        return 5.0

    def loads_at(self, point: Mapping[str, Any]) -> float:
        """Number of loads of all its rows that one point makes itself; for an estimate."""
        return float(self.starts_from is State.EMPTY)


def search_points(
    target: Target, search: Mapping[str, Any], returns: Sequence[Returning] = ()
) -> list[OperatingPoint]:
    """Every combination of those search parameters that the index has, which may be none, with
    each of `returns`.

    Raises:
        Unsupported: a value that the index does not take.
        UserError: more than `MOST_POINTS` combinations.
    """
    settings = search_settings(target.search_model, search)
    if not returns:
        return [target.point(setting) for setting in settings]
    return [
        target.point({**setting, "returns": str(returning)})
        for returning in dict.fromkeys(returns)
        for setting in settings
    ]


def search_settings(model: type[Params], search: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of those search parameters that `model` has.

    Raises:
        UserError: more than `MOST_POINTS` combinations.
    """
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
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def client_points(clients: Sequence[int], points: Sequence[OperatingPoint]) -> list[OperatingPoint]:
    """Each of `points` at each number of clients."""
    return [
        point.with_parameters(clients=one) for one in dict.fromkeys(clients) for point in points
    ]


def refuse_threads(target: Target, clients: int) -> None:
    """Raise `Unsupported` if several clients are to search a store that allows only one."""
    if clients > 1 and not target.capabilities.concurrent_search:
        raise Unsupported(f"{target.name} must not be searched from several threads at once")


def refuse_library(target: Target, clients: int, work: str) -> None:
    """Raise `Unsupported` if several clients are to do `work` on a library."""
    if clients > 1 and target.lane is Lane.EMBEDDED:
        raise Unsupported(f"{target.name} is a library: one client {work}")


def row_searcher(store: Store, context: Context, point: Mapping[str, Any]) -> Searcher:
    """A search for rows by their own vectors. Each row is its own nearest neighbour, so only a few
    are requested, whatever the suite's k: some stores refuse a k beyond their search effort."""
    return store.searcher(min(context.k, _LOOKED_AT), search_params(context, point))


def point_with_fresh_reads(context: Context, point: Mapping[str, Any]) -> OperatingPoint:
    """The point, with the setting that lets searches see every change acknowledged before them, if
    the store has one and the point does not set it."""
    strong = context.store.capabilities.indexes[context.index.kind].strong_consistency_params
    return operating_point(context, {**strong, **point} if strong else point)
