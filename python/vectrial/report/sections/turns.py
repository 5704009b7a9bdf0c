"""Stores that took turns: how far apart they are, how sure that is, and what turns cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vectrial.analysis.analysis import TARGETS, Sweep
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.turns import RunningRatio, compare_points, running_ratios
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
)
from vectrial.document.charts.theme import Looks, chart_of, description, finish_chart, legend
from vectrial.document.charts.vegalite import Settings, channel, layer
from vectrial.model.phase import COLDER
from vectrial.model.trial import Series
from vectrial.stats.effects import Effect
from vectrial.stats.turns import LEAST_LOADS
from vectrial.util import formatting


def ratios(
    running: Mapping[Series, Sequence[RunningRatio]], baseline: str, looks: Looks
) -> Callable[[int, bool], dict[str, Any]]:
    """The ratio of each series' QPS to that of the store `baseline`, by round, with its
    interval."""
    rows = [
        {
            "series": looks.labels[series],
            "rounds": one.rounds,
            "value": one.ratio,
            "low": one.low,
            "high": one.high,
            "batch": one.batch,
            "description": description(
                ("", looks.labels[series]),
                ("after rounds", f"{one.rounds:,}"),
                (f"QPS over that of {baseline}", formatting.number(one.ratio)),
                ("between", f"{formatting.number(one.low)} and {formatting.number(one.high)}"),
            ),
        }
        for series, some in running.items()
        for one in some
    ]

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        log = Settings(type="log", padding=8, nice=False)
        x = channel("rounds:Q", title="rounds", axis=Settings(tickCount=6))

        def y(field: str) -> Settings:
            title, axis = f"QPS over that of {baseline} (log)", Settings(format=".3~r", tickCount=6)
            return channel(f"{field}:Q", title=title, scale=log, axis=axis)

        colours, shapes, _ = looks.scales(list(running))
        key = legend(with_legend, width, len(running))
        base = chart_of(rows).encode(x=x, color=channel("series:N", scale=colours, legend=key))
        chart = layer(
            base.mark("area", opacity=0.14, aria=False).encode(
                y=y("low"), y2="high:Q", detail="series:N"
            ),
            base.mark("line", strokeWidth=1.8, aria=False).encode(y=y("value"), detail="series:N"),
            base.mark("point", size=22, filled=True, opacity=0.55).encode(
                y=y("batch"),
                shape=channel("series:N", scale=shapes, legend=key),
                description="description:N",
            ),
        )
        return finish_chart(chart, width, round(min(320, max(240, width * 0.45))))

    return spec


#: A store that keeps more processors busy than this while others have their turns disturbs them.
_IDLE_CORES = 0.01

_PAIRS = (
    *columns("store", at="Setting"),
    Column("qps_ratio", "QPS: these indexes", "1", "Over the first store", spread=True),
    Column("qps_ratio_stores", "QPS: the stores", "1", "Over the first store", spread=True),
    Column("p99_ratio", "p99: these indexes", "1", "Over the first store", spread=True),
    Column("loads", "Loads", "1"),
    Column("rounds", "Rounds", "1"),
)
_PRICE = (
    Column("store", "Store", numeric=False),
    Column("slice", "Slice", "s", "What counts of it"),
    Column("head", "Left out before it", "s"),
    Column("head_qps", "QPS in what is left out", "1", "Over that of the slice"),
    Column("idle_cores", "Cores busy out of turn", "1"),
)


def turns(run: RunData, found: Sequence[Sweep], looks: Looks) -> Section | None:
    """Ratios of stores by their turns, and the price of turns. None if no store took turns."""
    if not run.slices:
        return None
    blocks: list[Block] = []
    for sweep in found:
        best = [p for s in sweep.series if (p := sweep.best(s, TARGETS[0])) is not None]
        best = sorted(best, key=lambda p: -(p.value("qps") or 0))
        best = [p for p in best if all(one.phase_id in run.slices for one in p.phases)]
        if len(best) > 1:
            blocks.append(_pairs(run, sweep, best))
            blocks += _figures(run, sweep, best, looks)
        blocks.append(_price(run, sweep))
    return Section(
        "turns",
        "In turns",
        "All stores were loaded at once, and searched in turns of a moment: in each round every "
        "operating point of every store had one slice, in an order drawn anew. What the machine "
        "was busy with meanwhile, all of them met in the same second, and it cancels in the ratio "
        "of a round.",
        tuple(blocks),
    )


def _pairs(run: RunData, sweep: Sweep, best: Sequence[Point]) -> Table:
    """Each store's fastest point at the first target of recall against the fastest of all."""
    first, rows = best[0], []
    for point in best[1:]:
        qps, p99 = (compare_points(run, first, point, m) for m in ("qps", "latency_p99"))
        if qps is None:
            continue
        rows.append(
            Row(
                (
                    Cell(run.labels[point.series], point.series.store),
                    Cell(formatting.params(point.params)),
                    _ratio(qps.indexes),
                    absent_cell(f"{LEAST_LOADS} loads or more say something of the store")
                    if qps.store is None
                    else _ratio(qps.store),
                    absent_cell("too few requests") if p99 is None else _ratio(p99.indexes),
                    Cell(f"{qps.loads:,}", qps.loads),
                    Cell(f"{qps.rounds:,}", qps.rounds),
                ),
                series=point.series,
            )
        )
    return Table(
        f"turns-{sweep.facet.slug}",
        f"Against {run.labels[first.series]} at recall ≥ {TARGETS[0]:.2f}: {sweep.facet.title}",
        _PAIRS,
        tuple(rows),
        (
            "“These indexes” is a claim of the indexes that were built: its 95 % interval is by "
            "rounds. “The stores” is one of whichever index is built next: by loads.",
            *_waiting(run, best),
        ),
    )


def _waiting(run: RunData, points: Sequence[Point]) -> Iterator[str]:
    """Note on the time left out of the ratios, if any."""
    arms = [run.slices[phase.phase_id] for point in points for phase in point.phases]
    if any(arm.serial for arm in arms):
        waited = sum(float(arm.waited_s.sum()) for arm in arms if arm.serial)
        share = waited / sum(float(arm.seconds.sum()) for arm in arms if arm.serial)
        yield (
            "Left out of the ratios of QPS: what one client and its store waited while other "
            f"programs had the processors, {share:.1%} of the time."
        )


def _ratio(effect: Effect) -> Cell:
    ends = f"{effect.low:.3g}–{effect.high:.3g}"
    shown = formatting.ratio(effect.ratio, 3)
    return Cell(shown, effect.ratio, ends, low=effect.low, high=effect.high)


def _figures(run: RunData, sweep: Sweep, best: Sequence[Point], looks: Looks) -> list[Figure]:
    first = best[0]
    found = {point.series: running_ratios(run, first, point) for point in best[1:]}
    found = {series: some for series, some in found.items() if some}
    if not found:
        return []
    against = run.labels[first.series]
    return [
        Figure(
            f"turns-{sweep.facet.slug}",
            f"When it was decided: {sweep.facet.title}",
            f"QPS over that of {against}, after so many rounds of all loads. Marks are five rounds "
            "each. The band is the interval that holds at every moment at once: where it leaves 1, "
            "the order of these indexes was shown, however often one had looked.",
            f"Ratio of QPS to that of {against} by round on {sweep.facet.title}.",
            ratios(found, against, looks),
            tuple(found),
        )
    ]


def _price(run: RunData, sweep: Sweep) -> Table:
    rows = []
    for series in sweep.series:
        arms = [
            run.slices[phase.phase_id]
            for point in sweep.select(series, None)
            for phase in point.phases
            if phase.phase_id in run.slices
        ]
        if not arms:
            continue
        slice_s = float(np.median([np.median(arm.seconds) for arm in arms]))
        head_s = float(np.median([np.median(arm.head_s) for arm in arms]))
        warmths = [arm.head_rate_ratio for arm in arms if np.isfinite(arm.head_rate_ratio)]
        warmth = float(np.median(warmths)) if warmths else None
        idle = [cores for arm in arms if (cores := arm.idle_cores) is not None]
        cores = float(np.mean(idle)) if idle else None
        busy = cores is not None and cores > _IDLE_CORES
        note = "it works while others have their turns, which slows them down" if busy else ""
        rows.append(
            Row(
                (
                    Cell(run.labels[series], series.store),
                    Cell(formatting.seconds(slice_s), slice_s),
                    Cell(formatting.seconds(head_s), head_s),
                    absent_cell() if warmth is None else Cell(f"{warmth:.0%}", warmth),
                    absent_cell("nobody told")
                    if cores is None
                    else Cell(f"{cores:.3f}", cores, note=note),
                ),
                series=series,
            )
        )
    return Table(
        f"turns-price-{sweep.facet.slug}",
        f"The price of turns: {sweep.facet.title}",
        _PRICE,
        tuple(rows),
        (
            "A store whose turn begins finds its data in no cache. As much of the start of each "
            f"slice is left out as is needed for the rest to be at most {COLDER:.0%} slower than "
            "its end, by turns that do not count.",
        ),
    )
