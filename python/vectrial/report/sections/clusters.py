"""Sections about clusters: what more nodes bring at equal recall, and where their time goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from vectrial.analysis.analysis import (
    TARGETS,
    Sweep,
    clients_of,
    closed_loops,
    operating_point,
    sweeps,
)
from vectrial.analysis.run_data import Point, RunData
from vectrial.document.blocks import (
    Block,
    Cell,
    Column,
    Row,
    Section,
    Table,
    absent_cell,
    columns,
    plain_cell,
    ratio_cell,
    source_of,
    spread_cell,
    times_cell,
)
from vectrial.model.phase import Role
from vectrial.model.trial import NODES, Series
from vectrial.stats import effects
from vectrial.stats.intervals import LEAST_REPEATS
from vectrial.util import formatting

_SPEED_UP = (
    *columns("store", target=("Recall at least", "")),
    Column.for_metric("qps"),
    Column.for_metric("recall_mean"),
    Column.for_metric("latency_p99"),
    Column("speed_up", "Speed-up", "1", "Against the fewest nodes", spread=True),
    Column("efficiency", "Per node", "1", "Against the fewest nodes"),
    Column.for_metric("server_cpu_us_per_op", "Processor time", "Per search"),
    Column("link_bytes", "Bytes on links", "B", "Per search"),
    Column("link_packets", "Packets", "1", "Per search"),
    Column("at", "Setting", numeric=False),
)
_SCATTER = (
    *columns("store", at="Search parameters"),
    Column.for_metric("recall_mean"),
    Column("ratio", "Recall, against the fewest nodes", "1"),
)
_NODES = (
    *columns("store", "experiment", clients=("Clients", ""), process="Node or service"),
    Column("cpu_us", "Processor time per operation", "us"),
    Column("share", "Share of all", "1"),
    Column("at", "Setting", numeric=False),
)


def clusters(run: RunData) -> Section | None:
    """Gain from more nodes, for stores that were measured with several numbers of nodes, and the
    processor time of each node."""
    sizes: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for series in run.labels:
        sizes[_kind(series)].add(series.nodes)
    several = {kind for kind, nodes in sizes.items() if len(nodes) > 1}
    blocks: list[Block] = []
    for clients in clients_of(closed_loops(run)):
        for sweep in sweeps(run, clients):
            own = [series for series in sweep.series if _kind(series) in several]
            if own:
                blocks += _sweep_blocks(run, sweep, own, clients)
    if rows := tuple(_node_rows(run)):
        title = "Processor time of nodes and services"
        note = "From samples a second apart; of the first repeat."
        table = Table("cluster-nodes", title, _NODES, rows, (note,), grouped_by=0, folded=True)
        blocks.append(table)
    if not blocks:
        return None
    return Section("clusters", "More nodes", " ".join(_introduction(run)), tuple(blocks))


def _introduction(run: RunData) -> Iterator[str]:
    yield (
        "The same store with different numbers of nodes, at equal recall. The speed-up is against "
        "the fewest nodes that were measured, with its 95 % interval over the repeats."
    )
    facts = [trial.server or {} for trial in run.trials]
    places = dict.fromkeys(str(one["hosts"]) for one in facts if one.get("hosts"))
    if places:
        yield f"Nodes: {formatting.list_in_words(list(places))}."
    services = dict.fromkeys(name for one in facts for name in one.get("services") or ())
    if services:
        listed = formatting.list_in_words(list(services))
        yield f"{listed} ran beside the nodes, without their limits."


def _kind(series: Series) -> tuple[str, str, str]:
    return series.store, series.index_kind, series.lane


def _sweep_blocks(
    run: RunData, sweep: Sweep, own: Sequence[Series], clients: int
) -> Iterator[Block]:
    load = formatting.plural(clients, "client")
    ordered = sorted(own, key=lambda series: (own.index(_fewest(series, own)), series.nodes))
    rows = [
        _speed_up(run, sweep, series, _fewest(series, own), target)
        for target in sorted(TARGETS)
        for series in ordered
        if sweep.ranked(series)
    ]
    yield Table(
        f"scale-out-{clients}-{sweep.facet.slug}",
        f"More nodes at equal recall, {load}: {sweep.facet.title}",
        _SPEED_UP,
        tuple(rows),
        grouped_by=1,
    )
    scattered = list(_search_rows(run, sweep, ordered))
    if scattered:
        title = f"Recall with the same search parameters, {load}: {sweep.facet.title}"
        note = (
            "Each shard is searched with these parameters and the best of all are kept, so that "
            "more shards find more, and work more."
        )
        name = f"scatter-gather-{clients}-{sweep.facet.slug}"
        yield Table(name, title, _SCATTER, tuple(scattered), (note,), folded=True)


def _fewest(series: Series, candidates: Sequence[Series]) -> Series:
    return min(
        (one for one in candidates if _kind(one) == _kind(series)), key=lambda one: one.nodes
    )


def _speed_up(run: RunData, sweep: Sweep, series: Series, base: Series, target: float) -> Row:
    head = (plain_cell(run.labels[series]), plain_cell(target, f"≥ {target:.2f}"))
    best, alone = sweep.best(series, target), sweep.best(base, target)
    if best is None:
        return Row((*head, *[absent_cell("not reached")] * (len(_SPEED_UP) - 2)), "absent", series)
    ratio, per_node = absent_cell("nothing to compare with"), absent_cell()
    if alone is not None and series != base:
        ratio = ratio_with_interval(best, alone)
        if ratio.value is not None:
            value = float(ratio.value) * base.nodes / series.nodes
            per_node = times_cell(value)
    elif series == base:
        ratio = times_cell(1.0, 1)
    cells = (
        spread_cell(best, "qps", "1/s"),
        spread_cell(best, "recall_mean", "1"),
        spread_cell(best, "latency_p99", "us"),
        ratio,
        per_node,
        spread_cell(best, "server_cpu_us_per_op", "us"),
        _link_cell(best, "server_link_bytes"),
        _link_cell(best, "server_link_packets"),
        plain_cell(operating_point(best)),
    )
    return Row((*head, *cells), "ok", series)


def ratio_with_interval(point: Point, base: Point, metric: str = "qps") -> Cell:
    """The ratio of a metric, with its 95 % interval if there are enough repeats."""
    cell = ratio_cell(point, base, metric)
    ours, theirs = (
        [v.value for p in one.phases if (v := p.metrics.get(metric)) and v.value]
        for one in (base, point)
    )
    if min(len(ours), len(theirs)) < LEAST_REPEATS:
        return cell
    effect = effects.unpaired_effect(ours, theirs)
    low, high = formatting.number(effect.low), formatting.number(effect.high)
    return replace(
        cell,
        text=formatting.ratio(effect.ratio),
        value=effect.ratio,
        detail=f"{low} to {high}",
        low=effect.low,
        high=effect.high,
    )


def _link_cell(point: Point, metric: str) -> Cell:
    """A metric of the nodes' links, per search."""
    total, count = point.value(metric), point.value("count")
    if total is None or not count:
        return absent_cell("nodes have no links of their own")
    cell = plain_cell(total / count, formatting.number(total / count))
    return replace(cell, source=source_of(point, metric=metric))


def _search_rows(run: RunData, sweep: Sweep, ordered: Sequence[Series]) -> Iterator[Row]:
    """A row for each size and search setting that was also measured with the fewest nodes."""
    seen: set[tuple[Series, str]] = set()
    for series in ordered:
        base = _fewest(series, ordered)
        known = {_search_setting(p): p for p in sweep.select(base)}
        for point in sweep.select(series):
            setting = _search_setting(point)
            if setting not in known or (series, setting) in seen:
                continue
            seen.add((series, setting))
            cells = (
                plain_cell(run.labels[series]),
                plain_cell(setting),
                spread_cell(point, "recall_mean", "1"),
                times_cell(1.0, 1)
                if series == base
                else ratio_cell(point, known[setting], "recall_mean"),
            )
            yield Row(cells, "ok", series)


def _search_setting(point: Point) -> str:
    """Search parameters of a point, without its clients and its build."""
    return operating_point(replace(point, index_params={}), without=("clients",))


def _node_rows(run: RunData) -> Iterator[Row]:
    for point in run.points:
        if point.index_params.get(NODES) is None or not point.phases:
            continue
        phase = point.phases[0]
        if point.role not in (Role.SEARCH, Role.LOAD):
            continue
        used = run.processes.get(phase.phase_id, {})
        count, total = phase.value("count"), sum(used.values())
        if not count or total <= 0.0:
            continue
        for process, cpu_s in used.items():
            share = cpu_s / total
            yield Row(
                (
                    plain_cell(run.labels[point.series]),
                    plain_cell(f"{point.experiment}: {point.phase}"),
                    plain_cell(point.params.get("clients")),
                    plain_cell(process),
                    plain_cell(cpu_s / count * 1e6, formatting.number(cpu_s / count * 1e6)),
                    plain_cell(share, f"{share:.0%}"),
                    plain_cell(operating_point(point)),
                ),
                point.state,
                point.series,
            )
