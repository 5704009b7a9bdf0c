"""The data of a figure: each published series, and the measured one beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vectrial.document.charts.moments import MOMENTS
from vectrial.util import formatting
from vectrial_reproduce.reports import figure_text
from vectrial_reproduce.reports.collect import ComparedFigure
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.model import Arm, Drawing, DrawnSeries, Part, Reproduction
from vectrial_reproduce.reports.published import SECONDS, PublishedFigure

#: Of `Drawing.given`: only the most rows that a system has of a dataset.
_ALL = "all"


@dataclass(frozen=True)
class Dot:
    """A mark in a drawing.

    system: the series it belongs to; `published` tells whether it is the report's or this run's.
    at: name of x. x: x as a number; None if it is only a name.
    part: the metric of which it is the share; empty elsewhere. rows: rows that were loaded.
    here: the system that was measured, if it differs from the report's.
    """

    system: str
    published: bool
    at: str
    x: float | None
    value: float
    part: str = ""
    rows: int | None = None
    here: str = ""


@dataclass(frozen=True)
class Moment:
    """An event of a system, at x. metric: one of `charts.moments.MOMENTS`."""

    system: str
    metric: str
    x: float


@dataclass(frozen=True)
class Missing:
    """Points of a system that are not drawn, measured or published, with the reason."""

    system: str
    why: str
    at: tuple[str, ...]


@dataclass(frozen=True)
class Plot:
    """A drawing with its data.

    remarks: remarks of the figures' sources, each once. moments: moments of measured systems.
    """

    drawing: Drawing
    dots: tuple[Dot, ...]
    missing: tuple[Missing, ...]
    remarks: tuple[str, ...]
    moments: tuple[Moment, ...] = ()

    @property
    def systems(self) -> tuple[str, ...]:
        """The series, in the report's order."""
        return tuple(dict.fromkeys(dot.system for dot in self.dots))

    @property
    def measured(self) -> tuple[Dot, ...]:
        """The marks measured here."""
        return tuple(dot for dot in self.dots if not dot.published)

    def label(self, dot: Dot) -> str:
        """A mark's value. A recall is never rounded up; a published recall is shown as printed."""
        of_recall = all(map(figure_text.is_recall, self.drawing.metrics or ("",)))
        if of_recall and dot.published:
            return figure_text.published_text(dot.value)
        return formatting.recall(dot.value) if of_recall else formatting.number(dot.value)


def plot(
    drawing: Drawing,
    report: Reproduction,
    cells: Sequence[ComparedFigure],
    measured: Mapping[str, MeasuredPart],
) -> Plot:
    """The data of one drawing.

    cells: cells of the whole report. measured: measured parts by name.
    """
    held = [cell for cell in cells if _is_drawn(drawing, cell.figure)]
    if drawing.given.get("rows") == _ALL:
        most = {_subject(c.figure): 0 for c in held}
        for cell in held:
            key = _subject(cell.figure)
            most[key] = max(most[key], int(cell.figure.params["rows"]))
        held = [c for c in held if c.figure.params["rows"] == most[_subject(c.figure)]]
    dots: list[Dot] = []
    missing: dict[tuple[str, str], list[str]] = {}
    for group in _group_cells(drawing, held):
        dots += _published_dots(drawing, group)
        if drawing.curve is None:
            found, why = _measured_dots(drawing, group)
            dots += found
            if why:
                system, at = _system(drawing, group[0].figure), _x_name(drawing, group[0].figure)
                missing.setdefault((system, why), []).append(at)
    if drawing.curve is not None:
        curve_dots, curve_missing = _curve(drawing.curve, report, measured)
        dots += curve_dots
        missing |= curve_missing
    return Plot(
        drawing,
        tuple(_distinct_dots(dots)),
        tuple(Missing(system, why, tuple(at)) for (system, why), at in missing.items()),
        _remarks(held),
        () if drawing.curve is None else tuple(_moments(drawing.curve, report, measured)),
    )


def _is_drawn(drawing: Drawing, figure: PublishedFigure) -> bool:
    given = {n: v for n, v in drawing.given.items() if v != _ALL}
    return (
        figure.experiment == drawing.about
        and figure.metric in drawing.metrics
        and (not drawing.stores or figure.store in drawing.stores)
        and all(figure.params.get(name) == value for name, value in given.items())
        and all(name == "metric" or name in figure.params for name in drawing.x)
    )


def _subject(figure: PublishedFigure) -> tuple[str, str]:
    return figure.store, str(figure.params.get("dataset"))


def _group_cells(drawing: Drawing, cells: Sequence[ComparedFigure]) -> list[list[ComparedFigure]]:
    """Groups of cells that make one mark: a single cell, or all cells with a share in a sum."""
    groups: dict[tuple[str, str, str], list[ComparedFigure]] = {}
    for at, cell in enumerate(cells):
        alone = "" if drawing.kind in ("share", "tradeoff") else str(at)
        key = (_system(drawing, cell.figure), _x_name(drawing, cell.figure), alone)
        groups.setdefault(key, []).append(cell)
    if drawing.kind == "tradeoff":
        order = drawing.metrics
        both = (sorted(g, key=lambda c: order.index(c.figure.metric)) for g in groups.values())
        return [group for group in both if len(group) == len(order)]
    return list(groups.values())


def _system(drawing: Drawing, figure: PublishedFigure) -> str:
    if drawing.split:
        value = figure.params[drawing.split]
        return drawing.names.get(value, f"{drawing.split} {value}")
    return figure.store


def _x_name(drawing: Drawing, figure: PublishedFigure) -> str:
    """The name of x."""
    if drawing.x == ("metric",):
        return drawing.names.get(figure.metric, figure.metric)
    named = []
    for name in drawing.x:
        value = figure.params[name]
        # Along a line x is a number, and the names are those of the series.
        known = drawing.names.get(value) if drawing.kind in ("bar", "share") else None
        named.append(known or (formatting.rows(int(value)) if name == "rows" else str(value)))
    return ", ".join(named)


def _value(drawing: Drawing, figure: PublishedFigure, value: float, rows: int) -> float:
    """A value, in the figure's unit and of its dataset, converted for the drawing."""
    if drawing.unit:
        value *= SECONDS[figure.unit] / SECONDS[drawing.unit]
    if drawing.rate and figure.unit in SECONDS:
        return 1 / (value * SECONDS[figure.unit]) if value else 0.0
    value *= drawing.times.get(str(figure.params.get("dataset")), 1.0)
    return value * 1000 / rows if drawing.per_row else value


def _published_dots(drawing: Drawing, group: Sequence[ComparedFigure]) -> list[Dot]:
    values = [
        _value(drawing, c.figure, c.figure.value, int(c.figure.params.get("rows", 1)))
        for c in group
    ]
    return _dots(drawing, group, values, published=True)


def _measured_dots(drawing: Drawing, group: Sequence[ComparedFigure]) -> tuple[list[Dot], str]:
    """The measured marks, or the reason why there are none."""
    for cell in group:
        if cell.measured is None or not cell.valid:
            return [], cell.why if cell.measured is None else f"invalid: {cell.why}"
    values = [_value(drawing, c.figure, c.measured or 0.0, c.rows or 1) for c in group]
    return _dots(drawing, group, values, published=False), ""


def _dots(
    drawing: Drawing, group: Sequence[ComparedFigure], values: Sequence[float], *, published: bool
) -> list[Dot]:
    if drawing.kind == "tradeoff":
        (first, _), (along, value) = group, values
        own_rows = None if published else first.rows
        here = "" if published else first.here
        at, system = _x_name(drawing, first.figure), _system(drawing, first.figure)
        return [Dot(system, published, at, along, value, rows=own_rows, here=here)]
    whole = sum(values)
    shares = drawing.kind == "share"
    if shares and not whole:
        return []
    found = []
    for cell, value in zip(group, values, strict=True):
        figure = cell.figure
        rows = figure.params.get("rows") if published else cell.rows
        part = drawing.names.get(figure.metric, figure.metric) if shares else ""
        at = _x_name(drawing, figure)
        if shares and drawing.x == ("rows",) and rows is not None:
            at = formatting.rows(int(rows))  # a separate bar: it can have its real name
        x = None
        if drawing.kind == "line":
            (name,) = drawing.x
            x = float(rows or 0) if name == "rows" else float(figure.params[name])
        found.append(
            Dot(
                _system(drawing, figure), published, at, x,
                100 * value / whole if shares else value, part,
                None if rows is None else int(rows),
                "" if published else cell.here,
            )
        )  # fmt: skip
    return found


def _curve(
    curve: DrawnSeries, report: Reproduction, measured: Mapping[str, MeasuredPart]
) -> tuple[list[Dot], dict[tuple[str, str], list[str]]]:
    """Marks of a series that is not in the cells, and its points that are not drawn."""
    dots: list[Dot] = []
    missing: dict[tuple[str, str], list[str]] = {}
    part = next(part for part in report.parts if part.name == curve.part)
    if part.name not in measured:
        return [], {("", "skipped: not measured in this run"): []}
    run = measured[part.name].run
    arms = _drawn_arms(part, measured[part.name])
    for point in run.select(curve.experiment, curve.phase):
        arm = arms.get((point.series.store, point.series.index_kind))
        if arm is None:
            continue
        system = arm.published
        x = float(point.rows) if curve.x == "rows" else point.value(curve.x)
        value = point.value(curve.metric)
        at = formatting.rows(point.rows) if curve.x == "rows" else formatting.number(x or 0.0)
        if point.state != "ok" or value is None or x is None:
            why = point.reason or point.why_missing(curve.metric)
            missing.setdefault((system, f"{point.state}: {why}"), []).append(at)
            continue
        value *= curve.times
        dots.append(Dot(system, False, at, x, value, rows=point.rows, here=arm.here))
    for trial in run.trials:
        arm = arms.get((trial.series.store, trial.series.index_kind))
        if arm is None or trial.experiment != curve.experiment:
            continue
        if trial.status in ("failed", "skipped"):
            missing.setdefault((arm.published, f"{trial.status}: {trial.reason}"), [])
    if not dots and not missing:
        missing["", "skipped: not measured in this run"] = []
    return sorted(dots, key=lambda dot: (dot.system, dot.x or 0.0)), missing


def _moments(
    curve: DrawnSeries, report: Reproduction, measured: Mapping[str, MeasuredPart]
) -> Iterator[Moment]:
    """Moments at which a measured series finished the steps of a load; only moments that count."""
    part = next(part for part in report.parts if part.name == curve.part)
    if part.name not in measured or not curve.moments:
        return
    run = measured[part.name].run
    arms = _drawn_arms(part, measured[part.name])
    for point in run.select(curve.experiment, curve.moments):
        arm = arms.get((point.series.store, point.series.index_kind))
        for metric in MOMENTS:
            value = point.value(metric)
            if arm is not None and point.state == "ok" and value is not None:
                yield Moment(arm.published, metric, value)


def _drawn_arms(part: Part, measured: MeasuredPart) -> dict[tuple[str, str], Arm]:
    """The arm that stands for each system in a drawing, by store and index: an arm called through
    the report's client only if the run has no other."""
    there = measured.stores
    others = {arm.published for arm in part.arms if not arm.through and arm.store in there}
    return {
        (arm.store, arm.index): arm
        for arm in part.arms
        if not arm.through or arm.published not in others
    }


def _distinct_dots(dots: Sequence[Dot]) -> Iterator[Dot]:
    """Every mark once: small loads can have the same size although the report's did not."""
    seen = set()
    for dot in dots:
        place = (dot.system, dot.published, dot.part, dot.at if dot.x is None else dot.x)
        if place not in seen:
            seen.add(place)
            yield dot


def _remarks(cells: Sequence[ComparedFigure]) -> tuple[str, ...]:
    """Remarks of the sources on the published figures."""
    said = [f"Published values: {c.figure.source}." for c in cells if "read off" in c.figure.source]
    noted: dict[str, dict[str, None]] = {}
    for cell in cells:
        if cell.figure.note:
            noted.setdefault(cell.figure.note, {})[cell.figure.store] = None
    said += [f"{formatting.list_in_words(list(stores))}: {note}." for note, stores in noted.items()]
    count = sum(cell.doubtful for cell in cells)
    if count:
        said.append(
            f"{formatting.plural(count, 'published figure')} in it cannot be believed as printed;"
            " the notes of the table say why."
        )
    return tuple(dict.fromkeys(said))
