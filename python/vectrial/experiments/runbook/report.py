"""Collections that change: every search of a runbook, what changing rows costs, and the age of an
index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from vectrial.analysis.analysis import Facet, by_facet
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Row,
    Section,
    Table,
    absent_cell,
    count_cell,
    plain_cell,
    spread_cell,
    times_cell,
    value_cell,
)
from vectrial.document.charts import search as charts_search
from vectrial.document.charts.theme import Looks
from vectrial.experiments.runbook.experiment import METRICS
from vectrial.stats import student
from vectrial.stats.intervals import Spread
from vectrial.util import formatting

_LEAD = (
    "Rows are inserted, deleted and replaced step by step, and searched in between. Recall is of"
    " the exact neighbours among the rows that were live then. Anew: the same rows, loaded into a"
    " new collection at the end."
)
_MILLION = 1e6
#: Quantile of the two-sided 95 % interval.
_QUANTILE = 0.975
#: Searches that a line needs: with two there is no interval.
LEAST_SEARCHES = 3
_OWN = {one.name: one for one in METRICS}
_COLUMNS = (
    Column.for_metric(_OWN["live_rows"], spread=False),
    Column.for_metric(_OWN["replaced_rows"], spread=False),
    Column.for_metric("recall_mean"),
    Column.for_metric("qps"),
    Column.for_metric("latency_p99"),
    Column.for_metric("disk_bytes"),
    Column.for_metric(_OWN["bytes_per_row"]),
)
_RATES = (
    "These rates leave out what a store indexes only at the end of a load. Its first load looks"
    " faster for it, and so does every step after which its index is built anew."
)
_SLOPES = (
    ("recall_mean", "Recall points per million rows", 100.0),
    ("latency_p99", "p99, µs per million rows", 1.0),
    ("bytes_per_row", "Bytes per row per million rows", 1.0),
)


def sections(run: RunData, points: Sequence[Point], looks: Looks | None) -> list[Section]:
    """Sections for each dataset and runbook, with figure, slopes, rates and searches."""
    blocks: list[Block] = []
    for facet, members in by_facet(points):
        for script in dict.fromkeys(str(p.params["script"]) for p in members):
            own = [p for p in members if p.params["script"] == script]
            searches = [p for p in own if p.phase == "search"]
            changes = [p for p in own if p.phase != "search"]
            if looks is not None:
                blocks.append(_figure(run, facet, script, searches, looks))
            blocks += [
                _slopes(run, facet, script, searches),
                _rates(run, facet, script, changes),
                _searches(run, facet, script, searches),
            ]
    return [Section("runbook", "Collections that change", _LEAD, tuple(blocks))]


def _name(facet: Facet, script: str) -> str:
    return f"{script.rpartition('/')[2].replace('.', '-').replace('_', '-')}-{facet.slug}"


def _lines(points: Sequence[Point]) -> dict[object, list[Point]]:
    """The searches of each series at each setting, in the order of the steps."""
    found: dict[object, list[Point]] = {}
    left_out = {"step", "age"}
    for point in points:
        setting = {k: v for k, v in point.params.items() if k not in left_out}
        found.setdefault((point.series, formatting.params(setting)), []).append(point)
    return {key: sorted(own, key=lambda p: int(p.params["step"])) for key, own in found.items()}


def _figure(
    run: RunData, facet: Facet, script: str, points: Sequence[Point], looks: Looks
) -> Figure:
    aged = [p for p in points if p.params["age"] == "aged"]
    return Figure(
        f"runbook-{_name(facet, script)}",
        f"Recall against the rows that were replaced: {script}, {facet.title}",
        "A mark for each search of the runbook.",
        f"Recall against the rows that were replaced or deleted, {script}, on {facet.title}.",
        charts_search.chart_by_replaced(aged, "recall_mean", looks),
        run.ordered(aged),
    )


def _slopes(run: RunData, facet: Facet, script: str, points: Sequence[Point]) -> Table:
    heads = (
        Column("store", "Store", numeric=False),
        *(Column(f"{metric}_slope", title) for metric, title, _ in _SLOPES),
        Column("recall_anew", "Recall", group="Anew, over the aged"),
        Column("qps_anew", "QPS", group="Anew, over the aged"),
    )
    rows = []
    for line in _lines(points).values():
        aged = [p for p in line if p.params["age"] == "aged"]
        anew = next((p for p in line if p.params["age"] == "anew"), None)
        cells = [plain_cell(run.labels[line[0].series])]
        cells += (_slope_cell(aged, metric, times) for metric, _, times in _SLOPES)
        cells += (_ratio_cell(anew, aged, "recall_mean"), _ratio_cell(anew, aged, "qps"))
        rows.append(Row(tuple(cells), line[0].state, line[0].series))
    title = f"What replaced rows cost: {script}, {facet.title}"
    return Table(f"runbook-slopes-{_name(facet, script)}", title, heads, tuple(rows))


def _rates(run: RunData, facet: Facet, script: str, steps: Sequence[Point]) -> Table:
    """Table of the rates of the first load, and of the later steps by kind."""
    later = ("insert", "delete", "replace")
    heads = (
        Column("store", "Store", numeric=False),
        Column("first", "First load", "1/s"),
        *(Column(name, name.capitalize(), "1/s", group="Each step after it") for name in later),
    )
    rows = []
    for line in _lines(steps).values():
        first = line[0]
        others = [p for p in line if p.params["step"] != first.params["step"]]
        cells = [plain_cell(run.labels[first.series]), spread_cell(first, "step_rows_per_s", "1/s")]
        cells += (_median_cell([p for p in others if p.phase == name]) for name in later)
        rows.append(Row(tuple(cells), first.state, first.series))
    title = f"Rows acknowledged per second: {script}, {facet.title}"
    return Table(f"runbook-rates-{_name(facet, script)}", title, heads, tuple(rows), (_RATES,))


def _median_cell(steps: Sequence[Point]) -> Cell:
    """The median of the steps, with their range."""
    rates = [rate for p in steps if (rate := p.value("step_rows_per_s")) is not None]
    if not rates:
        return absent_cell("the runbook has no such step")
    return value_cell(Spread(len(rates), median(rates), min(rates), max(rates), "range"), "1/s")


def _slope_cell(aged: Sequence[Point], metric: str, times: float) -> Cell:
    pairs = [
        (rows, value)
        for point in aged
        if (rows := point.value("replaced_rows")) is not None
        and (value := point.value(metric)) is not None
    ]
    found = slope([rows for rows, _ in pairs], [value for _, value in pairs]) if pairs else None
    if found is None:
        return absent_cell("no line through fewer than three searches with rows replaced between")
    per, low, high = (each * times * _MILLION for each in (found.per_row, found.low, found.high))
    return Cell(f"{_signed_percent(per)} ({_signed_percent(low)} to {_signed_percent(high)})", per)


def _signed_percent(value: float) -> str:
    return f"{'+' if value > 0 else ''}{formatting.number(value)}"


def _ratio_cell(anew: Point | None, aged: Sequence[Point], metric: str) -> Cell:
    new = None if anew is None else anew.value(metric)
    old = aged[-1].value(metric) if aged else None
    if not new or not old:
        return absent_cell("one of the two was not measured")
    return times_cell(new / old)


def _searches(run: RunData, facet: Facet, script: str, points: Sequence[Point]) -> Table:
    heads = (
        Column("store", "Store", numeric=False),
        Column("step", "Step"),
        Column("age", "Index", numeric=False),
        *_COLUMNS,
        Column.for_metric("errors", spread=False),
    )
    rows = [
        Row(
            (
                plain_cell(run.labels[point.series]),
                plain_cell(point.params["step"]),
                plain_cell(point.params["age"]),
                *(spread_cell(point, column.key, column.unit) for column in _COLUMNS),
                count_cell(point, "errors"),
            ),
            point.state,
            point.series,
        )
        for line in _lines(points).values()
        for point in line
    ]
    title = f"Searches between the steps: {script}, {facet.title}"
    return Table(
        f"runbook-{_name(facet, script)}-searches", title, heads, tuple(rows), grouped_by=0
    )


@dataclass(frozen=True)
class Slope:
    """Change per row, and the ends of its 95 % interval."""

    per_row: float
    low: float
    high: float


def slope(rows: Sequence[float], values: Sequence[float]) -> Slope | None:
    """The slope of values over the rows replaced or deleted before them: least squares, with
    Student's interval of its standard error. None if there are fewer than three values, or if
    nothing was replaced between them."""
    if len(values) < LEAST_SEARCHES or min(rows) == max(rows):
        return None
    rounding = 1e-9 * max(map(abs, values))
    if max(values) - min(values) <= rounding:
        return Slope(0.0, 0.0, 0.0)
    from scipy import stats  # takes seconds to import, and every report imports this file

    fit = stats.linregress(rows, values)
    rise = float(fit.slope) * (max(rows) - min(rows))
    per_row = 0.0 if abs(rise) <= rounding else float(fit.slope)
    margin = student.quantile(_QUANTILE, len(values) - 2) * float(fit.stderr)
    return Slope(per_row, per_row - margin, per_row + margin)
