"""Growth of a run's figures with the rows: laws, forecasts, checks of forecasts, and the nodes,
memory and monthly cost that follow from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from vectrial.analysis.analysis import TARGETS
from vectrial.analysis.deployment import Demand, Deployment, Sizing
from vectrial.analysis.growth_curves import Curve, curves
from vectrial.analysis.growths import TOO_WIDE, Outlook, holdout_checks, outlooks
from vectrial.analysis.run_data import RunData
from vectrial.document.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Row,
    Section,
    Table,
    absent_cell,
    columns,
    plain_cell,
    source_of,
)
from vectrial.document.charts import growth as charts
from vectrial.document.charts.theme import Looks
from vectrial.model.results_schema import METRICS
from vectrial.stats.growth import COVERAGE, LEAST_SIZES, Law
from vectrial.suite.model import Prices
from vectrial.util import formatting
from vectrial.util.file_names import slug

_HEAD = columns("store", "quantity", law="Grows as")
_INDEX = Column("index", "Index", numeric=False)
T = TypeVar("T")
#: A report forecasts this many times the largest measured number of rows.
_AHEAD = 10
#: Distance from the measured recall within which a forecast counts as near.
_NEAR = 0.01
_TOO_WIDE = "too wide to use"


def growth(run: RunData, looks: Looks) -> Section | None:
    """The forecasts of a run that measured enough sizes of a dataset; otherwise None."""
    found = [curve for curve in curves(run) if len(curve.sizes) >= LEAST_SIZES]
    if not found:
        return None
    blocks: list[Block] = []
    for dataset in dict.fromkeys(curve.build.dataset for curve in found):
        own = [curve for curve in found if curve.build.dataset == dataset]
        largest = max(curve.sizes[-1] for curve in own)
        blocks += check_tables(run, holdout_checks(own, largest), TARGETS[0])
        blocks += forecast_tables(run, own, largest * _AHEAD, TARGETS[0])
        blocks += _figures(run, own, largest * _AHEAD, looks)
    return Section("growth", "How it grows", forecast_introduction(TARGETS[0]), tuple(blocks))


def forecast_introduction(recall: float) -> str:
    """Introduction to the tables of forecasts."""
    return (
        f"Each quantity is fitted with the laws that its structure suggests, weighted by how well "
        f"they predict larger sizes from smaller ones. QPS and p99 are those at recall {recall:g}, "
        f"and those of an index that always finds everything. "
        f"An interval is meant to hold the value with a probability of {COVERAGE:.0%}; it grows "
        f"with the distance from the measured sizes, and where the laws disagree."
    )


def check_tables(run: RunData, checked: Sequence[Outlook], recall: float) -> Iterator[Table]:
    """Forecasts of the largest size from the smaller ones, next to the measured values: a table of
    recall, and one of the other quantities; no table without forecasts."""
    for own in _recall_apart(checked, lambda outlook: outlook.curve):
        yield _check_table(run, own, recall)


def _recall_apart(found: Sequence[T], curve_of: Callable[[T], Curve]) -> Iterator[list[T]]:
    """The entries of all quantities but recall, and those of recall, as far as there are any."""
    for is_recall in (False, True):
        own = [one for one in found if curve_of(one).quantity.is_recall is is_recall]
        if own:
            yield own


def _check_table(run: RunData, checked: Sequence[Outlook], recall: float) -> Table:
    rows = checked[0].forecast.rows
    of_recall = checked[0].curve.quantity.is_recall
    inside = sum(outlook.is_in_interval is True for outlook in checked)
    dataset = checked[0].curve.build.dataset
    heads = (
        *_HEAD,
        Column("measured_to", "Fitted up to", "rows"),
        Column("forecast", "Forecast", spread=True),
        *columns(measured=("Measured", ""), inside="Inside"),
        _INDEX,
    )
    note = (
        f"{inside} of {len(checked)} measured values lie in their {COVERAGE:.0%} intervals"
        f" ({inside / len(checked):.0%})."
    )
    notes = [note]
    if of_recall:
        near = sum(abs((one.measured or 0) - one.forecast.value) <= _NEAR for one in checked)
        notes.append(f"{near} of {len(checked)} lie within {_NEAR:g} of their forecast.")
    of = "Forecasts of recall at" if of_recall else "Forecasts of"
    title = f"{of} {formatting.rows(int(rows))}, held against the measurement: {dataset}"
    table_rows = [
        Row(
            (
                *_head(run, outlook),
                plain_cell(outlook.curve.sizes[-1], f"{outlook.curve.sizes[-1]:,}"),
                _forecast_cell(outlook),
                _measured_cell(outlook, recall),
                replace(
                    plain_cell(outlook.is_in_interval, "yes" if outlook.is_in_interval else "no"),
                    tone="ok" if outlook.is_in_interval else "wrong",
                ),
                plain_cell(formatting.params(dict(outlook.curve.build.index_params))),
            ),
            "ok",
            outlook.curve.build.series,
        )
        for outlook in checked
    ]
    name = f"{'recall-' if of_recall else ''}forecasts-held-{slug(dataset)}"
    return Table(name, title, heads, tuple(table_rows), tuple(notes), grouped_by=0)


def forecast_tables(
    run: RunData, found: Sequence[Curve], rows: float, recall: float
) -> Iterator[Table]:
    """Forecasts of the curves for a number of rows, next to the largest measured size: a table of
    recall, and one of the other quantities."""
    for own in _recall_apart(found, lambda curve: curve):
        yield _forecast_table(run, own, rows, recall)


def _forecast_table(run: RunData, found: Sequence[Curve], rows: float, recall: float) -> Table:
    dataset = found[0].build.dataset
    of_recall = found[0].quantity.is_recall
    heads = (
        *_HEAD,
        Column("sizes", "Sizes"),
        Column("largest", "Largest measured", "rows"),
        Column("measured", "Measured there"),
        Column("forecast", f"At {formatting.rows(int(rows))}", spread=True),
        _INDEX,
    )
    made = outlooks(found, rows)
    table_rows = [
        Row(
            (
                *_head(run, outlook),
                plain_cell(len(outlook.curve.sizes)),
                plain_cell(outlook.curve.sizes[-1], f"{outlook.curve.sizes[-1]:,}"),
                _measured_cell(_at_largest_size(outlook), recall),
                _forecast_cell(outlook),
                plain_cell(formatting.params(dict(outlook.curve.build.index_params))),
            ),
            series=outlook.curve.build.series,
        )
        for outlook in made
    ]
    what = "Recall at each setting, forecast" if of_recall else "Forecast"
    title = f"{what}, not measured: {dataset} · {formatting.rows(int(rows))}"
    notes = (*_missing(run, found), *_doubts(run, made))
    name = f"forecast-{'recall-' if of_recall else ''}{slug(dataset)}-{int(rows)}"
    return Table(name, title, heads, tuple(table_rows), notes, grouped_by=0)


def _figures(run: RunData, found: Sequence[Curve], rows: float, looks: Looks) -> Iterator[Figure]:
    """A figure for each quantity."""
    dataset = found[0].build.dataset
    sizes = [
        largest * step for largest in (rows / _AHEAD,) for step in (1.0, 1.8, 3.2, 5.6, _AHEAD)
    ]
    ahead = {
        (outlook.curve.build, outlook.curve.quantity, outlook.forecast.rows): outlook.forecast
        for size in sizes
        for outlook in outlooks(found, size)
    }
    for quantity in dict.fromkeys(c.quantity for c in found if not c.quantity.is_recall):
        own = [c for c in found if c.quantity == quantity and c.growth is not None]
        if not own:
            continue
        title, scale = _axis_of(own[0])
        drawn = [
            charts.Forecasts(
                curve.build.series,
                formatting.params(dict(curve.build.index_params)),
                list(zip(map(float, curve.sizes), curve.values, strict=True)),
                [
                    (one.rows, one.value, one.low, one.high)
                    for size in sizes
                    for one in [ahead[curve.build, quantity, size]]
                ],
            )
            for curve in own
        ]
        name = f"growth-{quantity.metric}-{quantity.clients or 0}-{slug(dataset)}"
        yield Figure(
            name,
            f"{quantity_title(own[0])}: {dataset}",
            "Marks are measured; the dashed line is the forecast, with its 80 % interval.",
            f"{quantity_title(own[0])} against rows on {dataset}, measured and forecast.",
            charts.forecasts(drawn, title, scale, looks),
            run.ordered([curve.points[0][0] for curve in own]),
        )


def _axis_of(curve: Curve) -> tuple[str, float]:
    """The axis title of a quantity with its unit, and the factor for its values."""
    metric = curve.quantity.metric
    match curve.quantity.unit:
        case "B":
            return f"{METRICS[metric].title} in MB", 1e-6
        case "us":
            return f"{METRICS[metric].title} in ms", 1e-3
        case "s":
            return f"{METRICS[metric].title} in s", 1.0
        case _:
            return METRICS[metric].title, 1.0


def quantity_title(curve: Curve) -> str:
    """Readable title of a quantity: the metric, and the number of clients."""
    title = METRICS[curve.quantity.metric].title
    clients = curve.quantity.clients
    if curve.quantity.is_recall:
        return f"{title} at {formatting.params(dict(curve.quantity.setting))}"
    return title if clients is None else f"{title}, {formatting.plural(clients, 'client')}"


def _at_largest_size(outlook: Outlook) -> Outlook:
    curve = outlook.curve
    return replace(outlook, measured=curve.values[-1], source=curve.points[-1])


def _head(run: RunData, outlook: Outlook) -> tuple[Cell, ...]:
    return (
        plain_cell(run.labels[outlook.curve.build.series]),
        plain_cell(quantity_title(outlook.curve)),
        plain_cell(_law(outlook)),
    )


def _law(outlook: Outlook) -> str:
    quantity = outlook.curve.quantity
    if quantity.is_recall:
        return f"odds of a miss: {outlook.law}"
    inverse = quantity.is_inverse and outlook.law is not Law.POWER
    return f"1 / ({outlook.law})" if inverse else str(outlook.law)


def _forecast_cell(outlook: Outlook) -> Cell:
    forecast, metric, unit = (
        outlook.forecast, outlook.curve.quantity.metric, outlook.curve.quantity.unit,
    )  # fmt: skip
    value, low, high = (
        formatting.figure(metric, one, unit)
        for one in (forecast.value, forecast.low, forecast.high)
    )
    text = _TOO_WIDE if outlook.too_wide else value
    return Cell(text, forecast.value, f"{low}–{high}", low=forecast.low, high=forecast.high)


def _measured_cell(outlook: Outlook, recall: float) -> Cell:
    assert outlook.measured is not None
    metric, unit = outlook.curve.quantity.metric, outlook.curve.quantity.unit
    at = recall if outlook.curve.quantity.clients is not None else None
    source = source_of(*outlook.source, metric=metric, recall=at)
    return Cell(formatting.figure(metric, outlook.measured, unit), outlook.measured, source=source)


def _doubts(run: RunData, made: Sequence[Outlook]) -> Iterator[str]:
    """Notes on intervals that are too wide, with what narrows them, and on sizes that other work
    disturbed."""
    remedies = dict.fromkeys(one.remedy for one in made if one.too_wide)
    for remedy in remedies:
        own = [one for one in made if one.too_wide and one.remedy == remedy]
        names = dict.fromkeys(
            f"{quantity_title(one.curve)} of {run.labels[one.curve.build.series]}" for one in own
        )
        which = formatting.list_in_words(list(names))
        yield (
            f"{_TOO_WIDE[0].upper()}{_TOO_WIDE[1:]} ({which}): the ends of the interval are more"
            f" than {TOO_WIDE:g}-fold apart; {remedy}."
        )
    disturbed: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for one in made:
        if one.curve.disturbed:
            disturbed[one.curve.disturbed].append(run.labels[one.curve.build.series])
    for sizes, stores in disturbed.items():
        which = formatting.list_in_words([f"{rows:,}" for rows in sizes])
        who = formatting.list_in_words(list(dict.fromkeys(stores)))
        yield f"Other work disturbed {who} at {which} rows: what was measured there weighs less."


def _missing(run: RunData, found: Sequence[Curve]) -> Iterator[str]:
    for curve in found:
        if curve.growth is None:
            store, title = run.labels[curve.build.series], quantity_title(curve)
            why = (
                "no growth was measured at some size"
                if len(curve.sizes) >= LEAST_SIZES
                else (f"it needs {LEAST_SIZES} sizes with a value")
            )
            yield f"No forecast of {title} of {store}: {why}."


_SIZING_NOTES = (
    "Nodes have the processors that were measured. Each holds one shard in memory and answers one "
    "part of every query.",
    "Fan-out is not forecast: with several shards a query waits for the slowest of them, and its "
    "answers have to be merged. A measured cluster tells what that takes (docs/servers.md).",
)


def sizing(
    run: RunData, sizings: Sequence[Sizing], demand: Demand, prices: Prices | None
) -> Section:
    """A table of the resources that each store would need."""
    currency = "" if prices is None else prices.currency
    heads = (
        *columns(
            "store", "by", nodes=("Nodes", ""), shards=("Shards", ""), replicas=("Replicas", "")
        ),
        Column("rows", "Rows", "rows", "Each node"),
        Column("memory", "Memory", "B", "Each node"),
        Column("disk", "Disk", "B", "Each node"),
        Column("qps", "QPS", "1/s", "Each node"),
        Column("p99", "p99", "us", "Each node"),
        Column("ready", "Ready", "s", "Each node"),
        *([] if prices is None else [Column("month", f"Per month, {currency}", currency)]),
    )
    rows = [
        Row(
            (
                plain_cell(run.labels[one.build.series]),
                plain_cell(by),
                *_cells(deployment, one.reason, prices is not None),
            ),
            "ok" if deployment is not None else "absent",
            one.build.series,
        )
        for one in sizings
        for by, deployment in (("median", one.expected), ("worse end", one.cautious))
    ]
    clients = sorted({one.clients for one in sizings if one.clients})
    loads = formatting.list_in_words([formatting.plural(count, "client") for count in clients])
    notes = list(_SIZING_NOTES)
    notes += [f"QPS and p99 are those of {loads} for each node."] if loads else []
    notes += [f"Prices of {prices.dated} ({prices.source})."] if prices is not None else []
    lead = (
        f"The fewest nodes for {formatting.rows(int(demand.rows))}, {demand.qps:,.0f} QPS and a p99"
        f" of at most {formatting.duration(demand.p99_us)}: by the medians of the forecasts, and by"
        f" the worse end of each {COVERAGE:.0%} interval."
    )
    table = Table("sizing", "Nodes, forecast", heads, tuple(rows), tuple(notes), grouped_by=0)
    return Section("sizing", "What it would take", lead, (table,))


def _cells(deployment: Deployment | None, reason: str, priced: bool) -> tuple[Cell, ...]:
    if deployment is None:
        return (absent_cell(reason),) * (10 if priced else 9)
    one = deployment
    cells = (
        plain_cell(one.nodes, f"{one.nodes:,}"),
        plain_cell(one.shards, f"{one.shards:,}"),
        plain_cell(one.replicas, f"{one.replicas:,}"),
        plain_cell(one.rows, f"{one.rows:,.0f}"),
        _measure(one.memory_bytes, "B"),
        _measure(one.disk_bytes, "B"),
        _measure(one.qps, "1/s"),
        _measure(one.p99_us, "us"),
        _measure(one.ready_s, "s"),
    )
    return (*cells, plain_cell(one.per_month, f"{one.per_month:,.0f}")) if priced else cells


def _measure(value: float | None, unit: str) -> Cell:
    return (
        absent_cell("no forecast")
        if value is None
        else plain_cell(value, formatting.measure(value, unit))
    )
