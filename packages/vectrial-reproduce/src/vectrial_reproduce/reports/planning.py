"""The suites that measure a report at a scale."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vectrial.datasets import catalog, library
from vectrial.model.errors import UserError
from vectrial.model.lane import Lane
from vectrial.model.store import Store
from vectrial.stores import registry
from vectrial.suite.model import DatasetRef, ExperimentRef, StoreRef, Suite
from vectrial.util.suggest import suggestion
from vectrial_reproduce.reports.memory import placement_of
from vectrial_reproduce.reports.model import Arm, Ask, Part, Reproduction, Scalar


@dataclass(frozen=True)
class Settings:
    """The options of a reproduction.

    scale: share of the report's rows. stores: only these stores; empty: all. faithful: use the
        report's own method where it differs from ours. only: names of parts; empty: all.
    memory_limit: servers have no more memory than the report's systems had.
    builds: only these values of a grid of build parameters, by name.
    """

    scale: float
    stores: tuple[str, ...] = ()
    faithful: bool = False
    repeats: int = 1
    only: tuple[str, ...] = ()
    memory_limit: bool = False
    builds: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class PartPlan:
    """A part with the suite that measures it; no suite if none of its stores is available."""

    part: Part
    dataset: str
    rows: int
    suite: Suite | None


def plan_parts(
    report: Reproduction, settings: Settings, kinds: dict[str, type[Store]]
) -> list[PartPlan]:
    """Every part of a report as a suite.

    kinds: the available stores, by name.

    Raises:
        UserError: a store that the report does not name, a part or a build that it lacks, a scale
            out of bounds, or a memory limit if the report does not say what its systems had.
    """
    if not 0 < settings.scale <= 1:
        raise UserError(
            f"a scale of {settings.scale:g} is not between 0 and 1", remedy="--scale 0.1"
        )
    _check_stores(report, settings.stores)
    _check_builds(report, settings.builds)
    names = [part.name for part in report.parts]
    for name in settings.only:
        if name not in names:
            raise UserError(f"{report.name} has no part '{name}'", remedy=suggestion(name, names))
    return [_plan(report, part, settings, kinds) for part in report.parts]


def _check_stores(report: Reproduction, stores: Iterable[str]) -> None:
    named = {arm.store for part in report.parts for arm in part.arms}
    for store in stores:
        if store not in named:
            raise UserError(
                f"{report.name} does not name a store '{store}'", remedy=suggestion(store, named)
            )


def _check_builds(report: Reproduction, builds: Mapping[str, Scalar]) -> None:
    grids: dict[str, set[Scalar]] = {}
    for arm in (arm for part in report.parts for arm in part.arms):
        for name, values in arm.params.items():
            if isinstance(values, list):
                grids.setdefault(name, set()).update(values)
    for name, value in builds.items():
        if value not in grids.get(name, ()):
            every = (f"{own}: {', '.join(map(str, sorted(grids[own])))}" for own in sorted(grids))
            raise UserError(
                f"{report.name} builds nothing with {name}={value}",
                where="--build",
                remedy="; ".join(every) or "leave --build out: the report has no grid of builds",
            )


def _plan(
    report: Reproduction, part: Part, settings: Settings, kinds: dict[str, type[Store]]
) -> PartPlan:
    dataset, rows, queries = _dataset(part, settings.scale)
    arms = [
        _with_builds(arm, settings.builds)
        for arm in part.arms
        if arm.store in kinds and is_requested(arm, settings.stores)
    ]
    if settings.faithful:
        through = {a.published for a in arms if a.through and _is_available(a.store, kinds)}
        arms = [arm for arm in arms if arm.through or arm.published not in through]
    if settings.only and part.name not in settings.only:
        arms = []
    if _is_available(part.instead_of, kinds):
        arms = []
    suite = None
    if arms:
        suite = Suite(
            name=f"{report.name}-{part.name}",
            description=f"{report.title}: {part.title}, at {settings.scale:g} of its size"
            + (", by its own method as far as that is repeated." if settings.faithful else "."),
            repeats=settings.repeats,
            k=part.k,
            batch_rows=min(part.batch_rows, rows),
            placement=placement_of(report, limited=settings.memory_limit),
            datasets=[DatasetRef(name=dataset, rows=rows, queries=queries, metadata=part.metadata)],
            stores=[
                ref
                for arm in arms
                for ref in _stores(part, arm, kinds[arm.store], settings.faithful)
            ],
            experiments=[
                ref
                for ask in part.asks
                for ref in _experiments(part, ask, rows, arms, settings.faithful)
            ],
        )
        if settings.faithful:  # a report measured one system after the other
            suite = suite.model_copy(update={"order": "suite"})
    return PartPlan(part, dataset, rows, suite)


def _is_available(store: str, kinds: Mapping[str, type[Store]]) -> bool:
    """True if the store exists and can run here."""
    return store in kinds and registry.availability(kinds[store]).works is not False


def _with_builds(arm: Arm, builds: Mapping[str, Scalar]) -> Arm:
    """The arm with only these values of its grid."""
    params = {
        name: builds.get(name, values) if isinstance(values, list) else values
        for name, values in arm.params.items()
    }
    return replace(arm, params=params)


def is_requested(arm: Arm, stores: Collection[str]) -> bool:
    """True if an arm is among the chosen stores."""
    return not stores or arm.store in stores


def _dataset(part: Part, scale: float) -> tuple[str, int, int]:
    """The dataset's name, and the numbers of its rows and queries that are used."""
    rows = min(part.rows, max(part.least, round(part.rows * scale)))
    here = set(library.names())
    name = _dataset_within_limit(part, rows, here)
    if not name:
        name = part.sources[-1]
        if "{rows}" in name:
            name = name.format(rows=rows)
        elif rows < catalog.entry(name).rows:
            name = f"{name}-{rows}"
    entry = library.load(name) if name in here else catalog.entry(name)
    there = len(entry.queries) if not isinstance(entry.queries, int) else entry.queries
    queries = min(part.queries, there, max(part.least_queries, round(part.queries * scale)))
    return name, min(rows, entry.rows), queries


def _dataset_within_limit(part: Part, rows: int, available: Collection[str]) -> str:
    """The first source in the library that has enough rows, or else the largest; empty if the last
    source, which can be made, has more."""
    held = {source: library.load(source).rows for source in part.sources if source in available}
    enough = next((source for source, its in held.items() if its >= rows), "")
    if enough or not held:
        return enough
    largest = max(held, key=lambda source: held[source])
    made = part.sources[-1]
    more = made not in held and "{rows}" not in made and catalog.entry(made).rows > held[largest]
    return "" if more else largest


def _stores(part: Part, arm: Arm, kind: type[Store], faithful: bool) -> Iterator[StoreRef]:
    """An arm with its grid. If some experiments are measured once, the grid's first combination
    stands alone, and the others leave these experiments out."""
    lane = Lane.SDK if faithful and kind.kind == "server" else None
    params: dict[str, Any] = dict(arm.params)
    if faithful and arm.faithful is not None:
        params = dict(arm.faithful)
    often = [ask.experiment for ask in part.asks if not ask.once]
    axes = {name: value for name, value in params.items() if isinstance(value, list)}
    if len(often) == len(part.asks) or not axes:
        yield StoreRef(store=arm.store, index=arm.index, params=params, lane=lane, nodes=arm.nodes)
        return
    first, *others = itertools.product(*axes.values())
    for held, experiments in ((first, None), *((one, often) for one in others)):
        own = {**params, **dict(zip(axes, held, strict=True))}
        yield StoreRef(
            store=arm.store,
            index=arm.index,
            params=own,
            lane=lane,
            experiments=experiments,
            nodes=arm.nodes,
        )


def _experiments(
    part: Part, ask: Ask, rows: int, arms: Iterable[Arm], faithful: bool
) -> Iterator[ExperimentRef]:
    """The experiments of an ask: one for all stores; if the report's method has settings for single
    stores, one for each of these and one for the others."""
    stores = [arm.store for arm in arms]
    own = [[store] for store in stores if faithful and store in ask.faithful_of]
    others = [store for store in stores if [store] not in own]
    for names in [others, *own] if others else own:
        settings = ask.settings_for(names[0], faithful=faithful)
        for name, sizes in ask.sizes.items():
            settings[name] = sorted({part.size(size, rows) for size in sizes})
        if own:
            settings["stores"] = names
        yield ExperimentRef.model_validate({"experiment": ask.experiment, **settings})
