"""The section of `capacity`: the results, and every step of the search for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vectrial.analysis import capacity as capacities
from vectrial.analysis.analysis import by_facet
from vectrial.analysis.capacity import CapacityStep
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import PhaseResult, Trial
from vectrial.document.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Row,
    Section,
    Source,
    Table,
    plain_cell,
    spread_cell,
)
from vectrial.document.charts import search
from vectrial.document.charts.theme import Looks
from vectrial.experiments.capacity.metrics import OWN
from vectrial.model.phase import Role
from vectrial.util import formatting

_ANSWERS = (
    Column("store", "Store", numeric=False),
    Column.for_metric("sustained_qps"),
    Column.for_metric("latency_p99"),
    Column("recall", "Recall", "1", spread=True),
    Column.for_metric("errors"),
    Column.for_metric(OWN["recall_parameter_value"]),
    Column.for_metric(OWN["confirmations"]),
    Column.for_metric(OWN["steps_down"]),
    Column.for_metric(OWN["bracket_high"]),
    Column("repeats", "Repeats", "1"),
    Column("limits", "Within", numeric=False),
)
#: The columns of `_series_cells`.
_WHOSE = (
    Column("store", "Store", numeric=False),
    Column("dataset", "Dataset", numeric=False),
    Column("repeat", "Repeat"),
)
_TRIED = (
    *_WHOSE,
    Column("step", "Step"),
    Column("purpose", "Purpose", numeric=False),
    Column("rate", "Offered QPS", "1/s"),
    Column.for_metric("qps", "Achieved QPS", spread=False),
    Column.for_metric("latency_p99", spread=False),
    Column("recall", "Recall", "1"),
    Column.for_metric("errors", spread=False),
    Column("setting", "Setting", numeric=False),
    Column("verdict", "Passed", numeric=False),
)
_PASSES = (
    *_WHOSE,
    Column("setting", "Setting", numeric=False),
    Column("recall", "Recall", "1"),
    Column.for_metric("qps", spread=False),
    Column.for_metric("latency_p50", spread=False),
    Column.for_metric("latency_p99", spread=False),
)


def sections(run: RunData, points: Sequence[Point], looks: Looks | None) -> list[Section]:
    """The highest rate that each store sustains within limits."""
    blocks: list[Block] = []
    for facet, members in by_facet(points, with_k=True):
        answers = [point for point in members if point.role == Role.CAPACITY]
        looked = [point for point in members if "rate" in point.params]
        if looks is not None and any(point.spread("latency_p99") for point in looked):
            blocks.append(
                Figure(
                    f"capacity-looks-{facet.slug}",
                    f"Every step of the search: {facet.title}",
                    "p99 latency against the offered rate. Each marker is a phase. Hollow markers "
                    "are overloaded or client-bound.",
                    f"p99 latency against the offered rate on {facet.title}.",
                    search.chart_by_rate(looked, "latency_p99", looks),
                    run.ordered(looked),
                )
            )
        if answers:
            title = f"Highest load within limits: {facet.title}"
            rows = tuple(_answer_row(run, point) for point in answers)
            blocks.append(Table(f"capacity-{facet.slug}", title, _ANSWERS, rows))
    trials = capacities.trials(run)
    rows = tuple(_step_row(run, trial, one) for trial in trials for one in capacities.curve(trial))
    if rows:
        blocks.append(
            Table("capacity-looks", "Every rate that was measured", _TRIED, rows, grouped_by=0)
        )
    rows = tuple(_pass_row(run, trial, one) for trial in trials for one in capacities.passes(trial))
    if rows:
        title = "Search for the recall, one client"
        blocks.append(Table("capacity-passes", title, _PASSES, rows, grouped_by=0))
    lead = (
        "The highest arrival rate at which p99, recall and errors of the same requests stay "
        "within limits. Arrivals follow a schedule that does not wait for answers (open loop). "
        "The rate is found by a search and confirmed by new phases that all pass; the table shows "
        "the worst value of each figure. Where the client was the limit, the rate is 'at least'."
    )
    return (
        [Section("capacity", "Highest load within limits", lead, tuple(blocks))] if blocks else []
    )


def _answer_row(run: RunData, point: Point) -> Row:
    (first, *_) = point.phases
    rate = spread_cell(point, "sustained_qps", "1")
    cells = (
        plain_cell(run.labels[point.series]),
        rate,
        spread_cell(point, "latency_p99", "us"),
        spread_cell(point, "recall_mean", "1"),
        spread_cell(point, "errors", "1"),
        _recall_parameter(point, first),
        spread_cell(point, "confirmations", "1"),
        spread_cell(point, "steps_down", "1"),
        spread_cell(point, "bracket_high", "1"),
        plain_cell(point.repeats, note=(point.reason or "") if point.state == "ok" else ""),
        plain_cell(capacities.limits(first)),
    )
    return Row(cells, point.state, point.series)


def _recall_parameter(point: Point, phase: PhaseResult) -> Cell:
    parameter = phase.params.get("recall_parameter")
    if parameter is None:
        return Cell(formatting.NOTHING, note="no search parameter was varied")
    cell = spread_cell(point, "recall_parameter_value", "1")
    return replace(cell, text=f"{parameter} {cell.text}")


def _step_row(run: RunData, trial: Trial, tried: CapacityStep) -> Row:
    cells = (
        *_series_cells(run, trial),
        plain_cell(tried.number),
        plain_cell(tried.purpose),
        plain_cell(tried.rate, formatting.number(tried.rate)),
        _figure(tried.phase, "qps", "1"),
        _figure(tried.phase, "latency_p99", "us"),
        _figure(tried.phase, "recall_mean", "1"),
        _figure(tried.phase, "errors", "1"),
        plain_cell(formatting.params(tried.setting)),
        plain_cell(tried.verdict),
    )
    return Row(cells, "ok" if tried.phase.valid else "invalid", trial.series)


def _pass_row(run: RunData, trial: Trial, phase: PhaseResult) -> Row:
    cells = (
        *_series_cells(run, trial),
        plain_cell(formatting.params(capacities.setting(phase))),
        _figure(phase, "recall_mean", "1"),
        _figure(phase, "qps", "1"),
        _figure(phase, "latency_p50", "us"),
        _figure(phase, "latency_p99", "us"),
    )
    return Row(cells, "ok" if phase.valid else "invalid", trial.series)


def _series_cells(run: RunData, trial: Trial) -> tuple[Cell, ...]:
    data = f"{trial.dataset}, {formatting.rows(trial.rows)}"
    return plain_cell(run.labels[trial.series]), plain_cell(data), plain_cell(trial.repeat)


def _figure(phase: PhaseResult, metric: str, unit: str) -> Cell:
    value = phase.value(metric)
    if value is None:
        return Cell(formatting.NOTHING)
    shown = formatting.figure(metric, value, unit)
    return replace(plain_cell(value, shown), source=Source((phase.phase_id,), metric))
