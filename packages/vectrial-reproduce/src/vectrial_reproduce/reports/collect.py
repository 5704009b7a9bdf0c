"""Cells of a reproduction: each published figure with the one measured here, or why it is
missing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vectrial.analysis.run_data import Point
from vectrial.analysis.trial import PhaseResult
from vectrial.experiments.registry import all_metrics
from vectrial.stats.intervals import Spread, spread_of
from vectrial.util import formatting
from vectrial_reproduce.reports import cell_notes
from vectrial_reproduce.reports.inconsistencies import inconsistencies
from vectrial_reproduce.reports.matching import MeasuredPart, needs_their_phase, points_at
from vectrial_reproduce.reports.model import Arm, Measure, NotYet, Part, Reproduction
from vectrial_reproduce.reports.published import SECONDS, PublishedFigure, figures

#: (our unit, published unit) → what our value is multiplied by.
_FACTORS = {
    ("us", "ms"): 1e-3, ("us", "s"): 1e-6, ("s", "s"): 1.0, ("s", "ms"): 1e3, ("s", "min"): 1 / 60,
    ("s", "h"): 1 / 3600,
    ("1", "1"): 1.0, ("1", "%"): 100.0, ("1", "x"): 1.0, ("B", "MB"): 1e-6, ("MB/s", "MB/s"): 1.0,
    ("1/s", "rows/s"): 1.0, ("1/s", "queries/s"): 1.0, ("1/s", "ops/s"): 1.0,
}  # fmt: skip
#: Published units of what falls as rows grow, where times grow.
_RATES = frozenset({"queries/s", "ops/s"})
#: Calls whose time is a figure, unless they are fewer that took as many seconds.
_CALLS, _CALLS_S = 100, 1.0
#: A scan compares with every row.
_SCANS = (
    "a scan looks at every row; the fixed part of a call weighs more the fewer the rows are, and"
    " few rows fit the processor's caches better: the ratio has both"
)


@dataclass(frozen=True)
class ComparedFigure:
    """One published figure and its measured counterpart.

    measured: value in the figure's unit. rows: rows loaded. published_rows: the report's.
    ratio: measured over published.
    valid: None if nothing was measured, and `notes` say why.
    notes: remarks for the reader, a sentence each.
    stand_in: the dataset that was loaded instead of the report's; empty for its own.
    why: only those `notes` that say why nothing was measured, or why the measurement is invalid.
    doubtful: the published figure is not credible; `notes` say why.
    spread: spread of the measured value over the repeats. store: store that it was measured on.
    here: what that store is, if not the system as the report had it. differs: how it differs.
    lacks: see `Arm`, if the figure is a time or a rate; otherwise empty.
    client: client through which the report called the system, if it was measured in this way.
        through: the same figure measured through that client, next to the system by its own client
        or on the wire; None if no store here does that. few_calls: it is the time of fewer than 100
        calls, which took less than a second: nothing is concluded from it.
    """

    figure: PublishedFigure
    measured: float | None
    ratio: float | None
    valid: bool | None
    notes: tuple[str, ...]
    rows: int | None = None
    stand_in: str = ""
    why: str = ""
    doubtful: bool = False
    spread: Spread | None = None
    store: str = ""
    here: str = ""
    differs: str = ""
    lacks: str = ""
    client: str = ""
    through: ComparedFigure | None = None
    published_rows: int | None = None
    few_calls: bool = False

    @property
    def is_full_size(self) -> bool:
        """True if the figure has a value, measured at the report's number of rows."""
        return (
            self.measured is not None and self.rows is not None and self.rows == self.published_rows
        )

    @property
    def cost(self) -> float | None:
        """Cost of a call through the report's client relative to a call without it; None unless
        both values are valid, and of many calls. For a rate, the ratio is inverted."""
        other = self.through
        if other is None or not (self.valid and other.valid and self.measured and other.measured):
            return None
        if self.few_calls or other.few_calls:
            return None
        ratio = other.measured / self.measured
        return 1 / ratio if self.figure.unit in _RATES else ratio

    @property
    def note(self) -> str:
        """All notes, as one sentence."""
        return "; ".join(self.notes)


def cells(
    report: Reproduction,
    measured: Mapping[str, MeasuredPart],
    *,
    known: Collection[str],
    stores: Collection[str] = (),
    faithful: bool = False,
) -> list[ComparedFigure]:
    """A cell for each published figure, in the report's order.

    Args:
        measured: measured parts by name.
        known: names of the available stores. stores: stores to compare; empty: all.
        faithful: whether the report's own method was repeated: a system that can be called through
            its client is.
    """
    found = []
    for figure, why in zip(figures(report.name), inconsistencies(report.name), strict=True):
        arguments = (report, figure, measured, known, stores, faithful)
        cell, client = _cell(*arguments), _client(report, figure, measured)
        if client:
            through = replace(_cell(*arguments, client), client=client)
            instead = faithful and through.measured is not None
            cell = through if instead else replace(cell, through=_with_doubts(through, why))
        found.append(_with_doubts(cell, why))
    return found


def _client(
    report: Reproduction, figure: PublishedFigure, measured: Mapping[str, MeasuredPart]
) -> str:
    """The client through which the report called a figure's system, if that was tried here."""
    for part, _ in places(report, figure):
        stores = measured[part.name].stores if part.name in measured else frozenset()
        for arm in part.arms:
            if arm.through and arm.store in stores and is_figure_of(arm, figure):
                return arm.through
    return ""


def _with_doubts(cell: ComparedFigure, why: Sequence[str]) -> ComparedFigure:
    """The cell, with the reasons why the published figure is not credible."""
    said = (f"doubtful as published: {reason}" for reason in why)
    return replace(cell, notes=cell_notes.distinct_notes(*cell.notes, *said), doubtful=bool(why))


def places(report: Reproduction, figure: PublishedFigure) -> Iterator[tuple[Part, Measure]]:
    """The parts and measures that a figure belongs to, best first: a part comes before the parts
    that stand in for it."""
    for part in report.parts:
        about = {"dataset": part.dataset, **part.only}
        if any(figure.params.get(name) != value for name, value in about.items()):
            continue
        for measure in part.measures:
            given = all(figure.params.get(n) == value for n, value in measure.given.items())
            if measure.covers == (figure.experiment, figure.metric) and given:
                yield part, measure
                break


def is_figure_of(arm: Arm, figure: PublishedFigure) -> bool:
    """True if a figure belongs to an arm's system."""
    return arm.published == figure.store and arm.given.items() <= figure.params.items()


def why_not_measured(report: Reproduction, figure: PublishedFigure) -> NotYet:
    """Reason why nothing here measures a figure that no measure covers."""
    places = (f"{figure.experiment}.{figure.metric}", figure.experiment)
    found = (report.not_yet[place] for place in places if place in report.not_yet)
    return next(found, NotYet("nothing here measures it"))


def _cell(
    report: Reproduction,
    figure: PublishedFigure,
    measured: Mapping[str, MeasuredPart],
    known: Collection[str],
    stores: Collection[str],
    faithful: bool,
    client: str = "",
) -> ComparedFigure:
    """The cell of a published figure. client: that calls the system; empty for its own."""

    def fits(arm: Arm) -> bool:
        return is_figure_of(arm, figure) and arm.through == client

    def nothing(why: str) -> ComparedFigure:
        return _unmeasured_cell(figure, why)

    def in_part(part: Part, measure: Measure) -> ComparedFigure:
        arm = next(filter(fits, part.arms), None)
        if arm is None or arm.store not in known:
            return nothing(f"not yet: no store here stands for {figure.store}")
        if stores and arm.store not in stores:
            return nothing(f"skipped: {arm.store} was left out by --store")
        if part.name not in measured:
            return nothing("skipped: not measured in this run")
        return _measured_cell(figure, part, measure, arm, measured[part.name], faithful)

    found = list(places(report, figure))
    if not found:
        return nothing(f"not yet: {why_not_measured(report, figure).why}")
    named = [one for one in found if any(map(fits, one[0].arms))]
    found = named or found  # a part that stands in for some systems says nothing of the others
    every = [in_part(part, measure) for part, measure in found]
    # What stands in was measured because the other could not be: why it has nothing is the reason.
    last = every[-1] if found[-1][0].name in measured else every[0]
    return next((cell for cell in every if cell.measured is not None), last)


def _unmeasured_cell(figure: PublishedFigure, why: str) -> ComparedFigure:
    return ComparedFigure(
        figure,
        None,
        None,
        None,
        cell_notes.distinct_notes(why, *cell_notes.published_notes(figure)),
        why=why,
    )


def _measured_cell(
    figure: PublishedFigure,
    part: Part,
    measure: Measure,
    arm: Arm,
    measured: MeasuredPart,
    faithful: bool,
) -> ComparedFigure:
    metric = measure.faithful if faithful and measure.faithful else measure.metric
    points = points_at(figure, part, measure, arm, measured, faithful)
    point = points[0] if points else None
    minus = measure.minus if metric == measure.metric else ()
    spread, lacks = _metric_spread(point, metric, minus)
    if point is None or spread is None:
        return _unmeasured_cell(
            figure, _why_missing(point, lacks, part, measure, arm, measured, faithful)
        )
    factor = _FACTORS[all_metrics()[metric].unit, figure.unit]
    spread = _scale_spread(spread, factor)
    published = figure.value
    by_client = point.phase == measure.faithful_phase
    by_their_method = metric != measure.metric
    rows = int(figure.params.get("rows", part.rows))
    linear = _why_linear(figure, measure, arm, by_client=by_client)
    if linear:
        share = point.rows / rows
        published *= 1 / share if figure.unit in _RATES else share
    own = list(cell_notes.point_notes(point, metric, measured.run))
    unlike = measure.unlike or ("" if faithful else arm.unlike_ours.get(figure.metric, ""))
    if point.rows != rows:
        unlike = unlike or arm.unlike.get(figure.metric, "")
        unlike = unlike or (measure.of_graphs if not linear else "")
    few = metric.startswith("latency_") and _has_few_calls(point)
    if few:
        calls = formatting.plural(round(point.value("count") or 0), "call")
        unlike = f"{calls} in less than a second, which says nothing of the next"
    if spread.median < 0:
        unlike = f"no {figure.metric.replace('_', ' ')} shown"
    if linear and point.rows != rows and not unlike:
        what = "of the time per row" if figure.unit in _RATES else "per row"
        own.append(f"the ratio is that {what}: {linear}")
    if point.rows != rows and not (point.rows == measured.rows and rows == part.rows):
        own.append(f"{point.rows:,} rows were loaded")
    if measure.same_load:
        own += cell_notes.other_load_notes(points[1:], metric, factor, figure.unit)
    if point.rows < rows:
        own += cell_notes.sentences(measure.fewer)
    own += [f"no ratio: {unlike}"] if unlike else []
    own += cell_notes.measure_notes(point, measure, by_their_method=by_their_method)
    differs = arm.of if by_their_method else {**arm.of_ours, **arm.of}
    if figure.params.get("filter", True) not in ("none", False):
        differs = {**differs, **arm.of_filtered}
    own += cell_notes.sentences(differs.get(figure.metric, ""))
    return ComparedFigure(
        figure,
        spread.median,
        spread.median / published if published and not unlike else None,
        point.state == "ok",
        cell_notes.distinct_notes(
            *own,
            *cell_notes.sentences(differs.get(figure.metric, "")),
            *cell_notes.published_notes(figure),
        ),
        point.rows,
        replacement_note(part, measured.dataset),
        "" if point.state == "ok" else own[0],
        spread=spread,
        store=arm.store,
        here=arm.here,
        differs=arm.note,
        lacks=arm.lacks if figure.unit in SECONDS or figure.unit in _RATES else "",
        published_rows=rows,
        few_calls=few,
    )


def _has_few_calls(point: Point) -> bool:
    count, mean_us = point.value("count"), point.value("latency_mean")
    if count is None or mean_us is None or count >= _CALLS:
        return False
    return count * mean_us * 1e-6 < _CALLS_S


def _why_linear(figure: PublishedFigure, measure: Measure, arm: Arm, *, by_client: bool) -> str:
    """Reason why a value is linear in the rows; empty if that is not known."""
    if measure.scans and (arm.index == "flat" or by_client):
        return _SCANS
    if figure.metric in arm.grows:
        return arm.of[figure.metric]
    return measure.per_row if arm.index == "flat" or not measure.of_graphs else ""


def _metric_spread(
    point: Point | None, metric: str, minus: Sequence[str]
) -> tuple[Spread | None, str]:
    """The metric over the repeats, minus the metrics to subtract in each repeat; or None, and the
    first of these metrics without a value."""
    names = (metric, *minus)
    lacks = next((name for name in names if point is None or point.value(name) is None), metric)
    if point is None or point.value(lacks) is None:
        return None, lacks
    if not minus:
        return point.spread(metric), metric
    each = [_values(phase, names, point.state == "ok") for phase in point.phases]
    whole = [values[0] - sum(values[1:]) for values in each if len(values) == len(names)]
    return (spread_of(whole) if whole else None), metric


def _values(phase: PhaseResult, names: Sequence[str], only_valid: bool) -> list[float]:
    """Values of the metrics that have one."""
    found = [phase.metrics[name] for name in names if name in phase.metrics]
    return [v.value for v in found if v.value is not None and (v.valid or not only_valid)]


def _scale_spread(spread: Spread, factor: float) -> Spread:
    return replace(
        spread,
        median=spread.median * factor,
        low=spread.low * factor,
        high=spread.high * factor,
    )


def replacement_note(part: Part, dataset: str) -> str:
    """The dataset, if it differs from the report's; empty if it is made in the same way."""
    first = part.sources[0]
    its_own = dataset == first and not part.instead_of
    return "" if its_own or "{rows}" in first else dataset


def _why_missing(
    point: Point | None,
    metric: str,
    part: Part,
    measure: Measure,
    arm: Arm,
    measured: MeasuredPart,
    faithful: bool,
) -> str:
    """Reason for a missing value."""
    if point is not None:
        return f"skipped: {point.why_missing(metric)}"
    trials = [
        trial
        for trial in measured.run.trials
        if trial.series.store == arm.store and trial.experiment == measure.experiment
    ]
    for trial in trials:
        if trial.status in ("failed", "skipped"):
            return f"{trial.status}: {trial.reason}"
    if not trials:
        return "skipped: not measured in this run"
    absent = measure.absent
    if faithful and needs_their_phase(part.asks, measure, arm):
        absent = measure.faithful_absent or absent
    return f"skipped: {absent or 'not measured at these settings'}"
