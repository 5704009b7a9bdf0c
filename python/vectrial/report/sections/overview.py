"""The first screen: short answers, and one table that answers the whole question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from vectrial.analysis import capacity
from vectrial.analysis.analysis import TARGETS, Facet, Sweep, by_facet, loaded_rows, matching
from vectrial.analysis.interference import disturbed_phases
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Answer,
    Cell,
    Column,
    Row,
    Section,
    Table,
    Tone,
    plain,
    recall_error_of,
    source_of,
    spread_cell,
    value_cell,
)
from vectrial.model.phase import Role
from vectrial.model.trial import Series
from vectrial.report.sections.search import equal_recall_row
from vectrial.stats.intervals import Spread, spread_of
from vectrial.util import formatting

_SEARCH = f"Search at recall ≥ {TARGETS[0]:.2f}"
#: The columns of a store at a glance.
GLANCE = (
    Column("store", "Store", numeric=False),
    Column.of("qps", group=_SEARCH),
    Column("recall", "Recall", "1", _SEARCH, spread=True),
    Column("search_p99", "p99", "us", _SEARCH, spread=True),
    Column("clients", "Clients", "1", _SEARCH),
    Column.of("errors", group=_SEARCH, spread=False),
    Column("read_p50", "Read", "us", "Single operation, p50", spread=True),
    Column("create_p50", "Create", "us", "Single operation, p50", spread=True),
    Column("update_p50", "Update", "us", "Single operation, p50", spread=True),
    Column("delete_p50", "Delete", "us", "Single operation, p50", spread=True),
    Column.of("ready_rows_per_s", "Rows/s", "Loading until ready"),
    Column.of("ready_s", "Time", "Loading until ready"),
    Column.of("disk_bytes", group="Size"),
    Column.of("rss_growth_bytes", group="Size"),
)
#: A headline without a name: see docs/method.md, "Repeats and order".
_NONE_NAMED = "none is named"
_FIGURES_BELOW = "The tables below have the figures."
_OPERATIONS = ("read", "create", "update", "delete")


def at_a_glance(run: RunData, found: Sequence[Sweep]) -> Section | None:
    """One row per store: search at equal recall, single operations, loading, size."""
    tables = tuple(_glance(run, sweep) for sweep in found)
    if not tables:
        return None
    return Section(
        "glance",
        "At a glance",
        f"Search columns show the fastest measured point with recall ≥ {TARGETS[0]:.2f}; all its "
        "figures come from the same requests. The other columns belong to the same index unless a "
        "note names another. Small print under a figure is its spread over repeats.",
        tables,
    )


def _glance(run: RunData, sweep: Sweep) -> Table:
    rows = [_glance_row(run, sweep, series) for series in _everyone(run, sweep)]
    rows.sort(key=_rank)
    return Table(
        f"glance-{sweep.facet.slug}",
        sweep.facet.title,
        GLANCE,
        tuple(rows),
        (
            "All figures are of measured points; nothing is interpolated in this table. “Not "
            "reached” means that no measured setting had this recall; others might.",
        ),
    )


def _everyone(run: RunData, sweep: Sweep) -> list[Series]:
    """Series measured here, and those that failed or were skipped on this dataset."""
    others = [t.series for t in run.trials if t.dataset == sweep.facet.dataset]
    return list(dict.fromkeys([*sweep.series, *others]))


def _rank(row: Row) -> tuple[int, float]:
    qps = row.cells[1].value
    order = {"ok": 0, "absent": 1, "invalid": 2, "wrong": 3}[row.tone]
    return order, -(qps if isinstance(qps, int | float) else 0)


def _glance_row(run: RunData, sweep: Sweep, series: Series) -> Row:
    facet = sweep.facet
    if series not in sweep.series:
        search, tone, built = _not_swept(run, facet, series)
        front: tuple[Cell, ...] = (plain(run.labels[series]), search, *(Cell("") for _ in range(4)))
    else:
        row = equal_recall_row(run, sweep, series, TARGETS[0])
        tone, (store, _, qps, recall, _, p99, clients, errors, at, _) = row.tone, row.cells
        head = replace(store, detail=at.text)
        front = (head, qps, recall, p99, clients, errors)
        best = sweep.best(series, TARGETS[0])
        built = best or sweep.of(series, None)[0]
    forced = run.differences.get(series.store)
    if forced:
        front = (
            replace(front[0], note=f"Notes on {series.store}: {'; '.join(forced)}"),
            *front[1:],
        )
    return Row((*front, *_costs(run, facet, series, built)), tone, series)


def _not_swept(run: RunData, facet: Facet, series: Series) -> tuple[Cell, Tone, Point | None]:
    """Reason why a series has no search points, as its trials give it."""
    own = [t for t in run.trials if t.series == series and t.dataset == facet.dataset]
    searching = [t for t in own if any(p.role == Role.SEARCH for p in t.phases)] or own
    if wrong := next(filter(None, map(run.why_wrong, searching)), None):
        return Cell("wrong", note=f"failed the gate: {wrong}", tone="wrong"), "wrong", None
    status = next(
        (t.status for t in searching if t.status in ("failed", "skipped")), "not measured"
    )
    reason = "; ".join(dict.fromkeys(t.reason for t in searching if t.reason))
    return Cell(status, note=reason, tone="absent"), "absent", None


def _costs(run: RunData, facet: Facet, series: Series, built: Point | None) -> list[Cell]:
    def one(points: Sequence[Point], metric: str, unit: str) -> Cell:
        own = [p for p in _on(facet, points) if p.series == series]
        if built is not None:
            own = matching(own, series, built.index_params)
        point = next((p for p in own if p.spread(metric) is not None), own[0] if own else None)
        cell = spread_cell(point, metric, unit)
        if point is not None and point.state == "invalid" and cell.value is not None:
            return Cell(formatting.NOTHING, note=point.reason or "invalid", tone="invalid")
        if point is not None and point.doubt is not None and cell.value is not None:
            return replace(cell, note=f"not ranked: {point.doubt}", tone="invalid")
        other = point is not None and built is not None and point.index_params != built.index_params
        if point is not None and other and cell.value is not None:
            return replace(cell, note=f"of the index {formatting.params(point.index_params)}")
        return cell

    loads = run.in_role(Role.LOAD)
    sizes = run.in_role(Role.SIZE)
    until_ready = [one(loads, "ready_rows_per_s", "1"), one(loads, "ready_s", "s")]
    # Without an experiment that loads, the time of the load that the searches are of.
    if until_ready[1].value is None and built is not None and (times := run.ready_s(built)):
        rates = [facet.rows / seconds for seconds in times if seconds > 0]
        until_ready = [
            value_cell(spread_of(rates), "1") if rates else until_ready[0],
            value_cell(spread_of(times), "s"),
        ]
    return [
        *(one(run.in_role(Role.OPERATION, name), "latency_p50", "us") for name in _OPERATIONS),
        *until_ready,
        one(sizes, "disk_bytes", "B"),
        one(sizes, "rss_growth_bytes", "B"),
    ]


def answers(run: RunData, found: Sequence[Sweep]) -> tuple[tuple[str, tuple[Answer, ...]], ...]:
    """Per dataset the best store for each question, and whether that is more than noise. Of several
    stores none is named by one repeat, or by times that a busy machine disturbed."""
    disturbed = disturbed_phases(run)
    sheets: dict[str, list[Answer]] = defaultdict(list)
    for sweep in found:
        cards = [
            _fastest(run, sweep, disturbed),
            _best(run, sweep.facet, "Fastest read by id", run.in_role(Role.OPERATION, "read"),
                  "latency_p50", "us", "p50", disturbed),
            _best(run, sweep.facet, "Shortest time until ready", run.in_role(Role.LOAD),
                  "ready_s", "s", f"for {formatting.rows(sweep.facet.rows)}", disturbed),
            _best(run, sweep.facet, "Smallest on disk", run.in_role(Role.SIZE),
                  "disk_bytes", "B", "after flush"),
        ]  # fmt: skip
        sheets[sweep.facet.title] += [card for card in cards if card is not None]
    for facet, points in by_facet(run.in_role(Role.CAPACITY), with_k=True):
        sheets[facet.title] += _sustained(run, points, disturbed)
    return tuple((title, tuple(cards)) for title, cards in sheets.items() if cards)


def _sustained(run: RunData, answered: Sequence[Point], disturbed: frozenset[int]) -> list[Answer]:
    """For each set of limits the store that sustains the most within them."""
    within: dict[str, list[Point]] = defaultdict(list)
    for point in answered:
        within[capacity.limits(point.phases[0])].append(point)
    return [_most_within(run, limits, points, disturbed) for limits, points in within.items()]


def _most_within(
    run: RunData, limits: str, points: Sequence[Point], disturbed: frozenset[int]
) -> Answer:
    question = "Highest sustained load"
    most = _extreme(points, "sustained_qps", lambda spread: -spread.median)
    spreads = _spreads(most, "sustained_qps")
    least: dict[Series, float] = {}
    for point in points:
        if (rate := _at_least(point, spreads)) is not None:
            least[point.series] = max(rate, least.get(point.series, 0.0))
    said = formatting.joined(
        [f"{run.labels[s]} at least {formatting.number(r)}/s" for s, r in least.items()]
    )
    if not spreads:
        why = f"Only a lower bound is known: {said}." if said else "No rate was confirmed."
        return Answer(question, "none", limits, f"{why} The reasons are below.")
    first, lead = _judge(run, spreads, lambda s: -s.median, lambda s: formatting.number(s.median))
    rate = spreads[first].median
    lead = lead if spreads.keys() - {first} else "The only store with a result."
    unnamed = _unnamed(question, run, most, spreads, first, lambda s: -s.median, disturbed)
    figure, source = f"{formatting.number(rate)}/s", source_of(most[first], metric="sustained_qps")
    bound = " ".join(filter(None, (f"{limits}.", lead, f"Besides, {said}." if said else "")))
    if any(confirmed > rate for confirmed in least.values()):
        sentence = f"{run.labels[first]} sustains {figure}"
        return Answer(question, "not known", sentence, bound, source=source)
    if unnamed is not None:
        return replace(unnamed, bound=f"{limits}. {unnamed.bound}")
    return Answer(question, run.labels[first], figure, bound, first, source)


def _at_least(point: Point, spreads: Mapping[Series, Spread]) -> float | None:
    """Rate confirmed for a store whose greatest rate is unknown; None if there is none."""
    if point.state != "invalid":
        return None
    rates = [rate for p in point.phases if (rate := capacity.confirmed(p)) is not None]
    known = spreads[point.series].median if point.series in spreads else 0.0
    return max((rate for rate in rates if rate > known), default=None)


def _on(facet: Facet, points: Sequence[Point]) -> list[Point]:
    """Those on the facet's dataset with as many rows: a smaller cut says nothing of the whole."""
    return [p for p in points if p.dataset == facet.dataset and loaded_rows(p) == facet.rows]


def _fastest(run: RunData, sweep: Sweep, disturbed: frozenset[int]) -> Answer | None:
    question = f"Fastest at recall ≥ {TARGETS[0]:.2f}"
    best = {s: p for s in sweep.series if (p := sweep.best(s, TARGETS[0])) is not None}
    speeds = _spreads(best, "qps")
    if not speeds:
        candidates = [(recall, p) for s in sweep.series for p in sweep.ranked(s)
                if (recall := p.value("recall_mean")) is not None]  # fmt: skip
        if not candidates:
            why = "Every measured figure is wrong, invalid or contradictory: see below."
            return Answer(question, "none", "no figure counts", why)
        most, at_most = max(candidates, key=lambda pair: pair[0])
        source = source_of(at_most, metric="recall_mean")
        why = "highest measured recall"
        return Answer(question, "none reached it", formatting.recall(most), why, source=source)
    first, bound = _judge(run, speeds, lambda s: -s.median, lambda s: formatting.number(s.median))
    point = best[first]
    clients = point.params.get("clients", point.value("concurrency"))
    reached = formatting.recall(point.value("recall_mean") or 0)
    at = [f"recall {reached}{recall_error_of(point)}"]
    if (p99 := point.value("latency_p99")) is not None:
        at.append(f"p99 {formatting.duration(p99)}")
    if isinstance(clients, int | float):
        at.append(formatting.plural(int(clients), "client"))
    figure = f"{formatting.number(speeds[first].median)} QPS"
    said, source = f"{', '.join(at)}. {bound}", source_of(point, metric="qps")
    unnamed = _unnamed(question, run, best, speeds, first, lambda s: -s.median, disturbed)
    return unnamed or Answer(question, run.labels[first], figure, said, first, source)


def _best(
    run: RunData,
    facet: Facet,
    question: str,
    points: Sequence[Point],
    metric: str,
    unit: str,
    what: str,
    disturbed: frozenset[int] = frozenset(),
) -> Answer | None:
    """disturbed: ids of phases; none for what a busy machine does not change."""
    best = _extreme(_on(facet, points), metric, lambda spread: spread.median)
    if not best:
        return None
    spreads = _spreads(best, metric)
    first, bound = _judge(
        run, spreads, lambda s: s.median, lambda s: formatting.measure(s.median, unit)
    )
    figure = f"{formatting.measure(spreads[first].median, unit)} {what}"
    source = source_of(best[first], metric=metric)
    unnamed = _unnamed(question, run, best, spreads, first, lambda s: s.median, disturbed)
    return unnamed or Answer(question, run.labels[first], figure, bound, first, source)


def _unnamed(
    question: str,
    run: RunData,
    points: Mapping[Series, Point],
    spreads: Mapping[Series, Spread],
    first: Series,
    key: Callable[[Spread], float],
    disturbed: frozenset[int],
) -> Answer | None:
    """The answer where a headline may not name the first of several: it or the next one was
    measured once, or while the machine was disturbed; None where it may."""
    rivals = sorted((s for s in spreads if s != first), key=lambda s: key(spreads[s]))
    if not rivals:
        return None
    pair = (first, rivals[0])
    if any(spreads[series].kind == "single" for series in pair):
        why = f"The order may be chance. {_FIGURES_BELOW}"
        return Answer(question, _NONE_NAMED, "only one repeat", why)
    busy = [s for s in pair if any(phase.phase_id in disturbed for phase in points[s].phases)]
    if not busy:
        return None
    names = formatting.joined([run.labels[series] for series in busy])
    why = f"So it was while {names} ran: --remeasure-disturbed repeats that. {_FIGURES_BELOW}"
    return Answer(question, _NONE_NAMED, "the machine was disturbed", why)


def _extreme(
    points: Sequence[Point], metric: str, key: Callable[[Spread], float]
) -> dict[Series, Point]:
    """Of each series' points that count, that of which the metric is first by `key`."""
    found: dict[Series, tuple[float, Point]] = {}
    for point in points:
        spread = point.spread(metric) if point.ranked else None
        if spread is None:
            continue
        if point.series not in found or key(spread) < found[point.series][0]:
            found[point.series] = key(spread), point
    return {series: point for series, (_, point) in found.items()}


def _spreads(points: Mapping[Series, Point], metric: str) -> dict[Series, Spread]:
    """The metric of those of the points that have it."""
    found = {series: point.spread(metric) for series, point in points.items()}
    return {series: spread for series, spread in found.items() if spread is not None}


def _judge(
    run: RunData,
    spreads: dict[Series, Spread],
    key: Callable[[Spread], float],
    shown: Callable[[Spread], str],
) -> tuple[Series, str]:
    """The first by `key`, and a note on its lead."""
    order = sorted(spreads, key=lambda s: key(spreads[s]))
    first = order[0]
    rivals = order[1:]
    if not rivals:
        return first, "The only one measured."
    tied = [s for s in rivals if spreads[s].overlaps(spreads[first])]
    if tied:
        names = formatting.joined(
            [run.labels[s] for s in tied[:3]] + (["others"] if tied[3:] else [])
        )
        return first, f"Tied with {names}: their spreads overlap."
    return first, f"Next: {run.labels[rivals[0]]}, {shown(spreads[rivals[0]])}."
