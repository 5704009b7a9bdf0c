"""The search for the measured point that belongs to a published figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vectrial.analysis.run_data import Point, RunData
from vectrial_reproduce.reports.model import Arm, Ask, Measure, Part
from vectrial_reproduce.reports.published import PublishedFigure


@dataclass(frozen=True)
class MeasuredPart:
    """A measured part: its run, and how many rows of which dataset were loaded."""

    run: RunData
    dataset: str
    rows: int

    @cached_property
    def stores(self) -> frozenset[str]:
        """Stores that have a trial in the run, measured or not."""
        return frozenset(trial.series.store for trial in self.run.trials)


def points_at(
    figure: PublishedFigure,
    part: Part,
    measure: Measure,
    arm: Arm,
    measured: MeasuredPart,
    faithful: bool,
) -> list[Point]:
    """The points measured at the figure's settings, the one preferred by `where` and `same_load`
    first. faithful: at the settings of the report's method, which may differ from the published
    ones."""
    rows = int(figure.params.get("rows", part.rows))
    asks = [ask for ask in part.asks if ask.experiment == measure.experiment]
    sizes, once = any(ask.sizes for ask in asks), any(ask.once for ask in asks)
    expected = part.size(rows, measured.rows) if sizes else measured.rows
    published = dict(figure.params)
    if faithful:
        for name in _differing_parameters(asks, arm):
            published.pop(name, None)
    select = measured.run.select
    points = [*select(measure.experiment, measure.phase)]
    if faithful and measure.faithful_phase:
        theirs = [*select(measure.experiment, measure.faithful_phase)]
        points = theirs if needs_their_phase(asks, measure, arm) else [*theirs, *points]
    fitting = [
        point
        for point in points
        if point.series.store == arm.store
        and point.dataset == measured.dataset
        and point.series.index_kind == arm.index
        and point.rows == expected
        and _are_equal(published, {**({} if once else point.index_params), **point.params})
    ]
    for name, wanted in measure.where.items():
        choices = wanted if isinstance(wanted, tuple) else (wanted,)
        fitting = next(
            (
                own
                for choice in choices
                if (own := [p for p in fitting if p.params.get(name) == choice])
            ),
            [],
        )
    together = _on_same_load(fitting, measure, measured.run)
    return [*together, *(point for point in fitting if point not in together)]


def _on_same_load(points: Sequence[Point], measure: Measure, run: RunData) -> list[Point]:
    """The points measured in one trial with the measure's `same_load`; empty if it has none."""
    if not measure.same_load:
        return []
    wanted = measure.same_load.items()
    loads = [
        {phase.phase_id for phase in trial.phases}
        for trial in run.trials
        if any(_has_values(phase.params, wanted) for phase in trial.phases)
    ]
    return [
        point
        for point in points
        if any(phase.phase_id in load for load in loads for phase in point.phases)
    ]


def _has_values(params: Mapping[str, Any], required: Iterable[tuple[str, Any]]) -> bool:
    """True if parameters have these values, or one of the values of a tuple."""
    return all(
        params.get(name) in (value if isinstance(value, tuple) else (value,))
        for name, value in required
    )


def needs_their_phase(asks: Sequence[Ask], measure: Measure, arm: Arm) -> bool:
    """True if the report's method needs a phase from a store that no other phase can replace."""
    return any(ask.faithful_of.get(arm.store, {}).get(measure.faithful_phase) for ask in asks)


def _differing_parameters(asks: Sequence[Ask], arm: Arm) -> Iterator[str]:
    """Parameters that the report's own method sets for a system unlike what it published."""
    if arm.faithful is not None:
        yield from arm.params
    for ask in asks:
        if "search" in ask.faithful_of.get(arm.store, {}):
            yield from ask.settings.get("search", {})


def _are_equal(published: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """True if all parameters that both have are equal; filters are equal if both are set."""
    return all(
        (bool(ours[name]) if name == "filter" else ours[name]) == value
        for name, value in published.items()
        if ours.get(name) is not None and name not in ("dataset", "rows", "queries")
    )
