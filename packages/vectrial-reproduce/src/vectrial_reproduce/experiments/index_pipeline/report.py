"""The sections of the pipeline: its stages, one repeat drawn over time, and searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from vectrial.analysis.analysis import Facet, by_facet
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import Trial
from vectrial.document.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Section,
    Table,
    plain_cell,
    spread_cell,
)
from vectrial.document.charts.theme import (
    Looks,
    chart_of,
    description,
    finish_chart,
    ink,
    plot_width,
)
from vectrial.document.charts.vegalite import Settings, channel
from vectrial.document.sections import INDEX, STORE, store_row
from vectrial.util import formatting
from vectrial_reproduce.experiments.index_pipeline.metrics import METRICS
from vectrial_reproduce.segments.spans import Stage

_OWN = {metric.name: metric for metric in METRICS}
_PLACE = (
    Column("objects", "Objects", numeric=False),
    Column("transport", "Transport", numeric=False),
    Column("segment_rows", "Rows a segment"),
    Column("builders", "Builders"),
    Column("prefetch", "Prefetch"),
)
#: Stages of each phase.
_STAGES = {
    "put": (Stage.EMBED, Stage.SEGMENT, Stage.PUT),
    "import": (Stage.IMPORT,),
    "index": (Stage.GET, Stage.CHECK, Stage.BUILD, Stage.WRITE_BACK),
    "load": (Stage.LOAD,),
}
_STEPS = (
    STORE,
    *_PLACE,
    Column("stage", "Stage", numeric=False),
    Column("sum_s", "Sum over workers", "s", spread=True),
    Column("wall_s", "Wall clock", "s", spread=True),
    Column("moved", "Bytes", "B"),
    Column("rate", "Rate", "GB/s", spread=True),
    Column("overlap", "Overlapped", "1", spread=True),
    Column("critical_s", "On the critical path", "s", spread=True),
    INDEX,
)
_TOTALS = (
    STORE,
    *_PLACE,
    Column("phase", "Phase", numeric=False),
    Column.for_metric(_OWN["pipeline_wall_s"]),
    Column.for_metric(_OWN["pipeline_sum_s"]),
    Column("critical", "Critical stage", numeric=False),
    Column.for_metric("cpu_s", "Client CPU"),
    Column.for_metric("server_cpu_s", "Server CPU"),
    Column.for_metric("server_peak_rss_bytes", "Server memory at most"),
    Column.for_metric(_OWN["objects_written_bytes"], group="Object store"),
    Column.for_metric(_OWN["objects_read_bytes"], group="Object store"),
    Column.for_metric(_OWN["in_flight_bytes"], "Segments in memory"),
    Column.for_metric(_OWN["in_flight_limit_bytes"], "Their limit"),
    Column.for_metric(_OWN["resumed_segments"], "Resumed", spread=False),
    INDEX,
)
_SEARCHES = (
    STORE,
    Column("over", "Searched", numeric=False),
    Column("setting", "Setting", numeric=False),
    Column.for_metric("recall_mean"),
    Column.for_metric("qps"),
    Column.for_metric("latency_p50"),
    Column.for_metric("latency_p99"),
    Column.for_metric("errors", spread=False),
    INDEX,
)
#: A colour of each stage, from the palette of the documents.
_INKS = {
    Stage.EMBED: "#b279a2",
    Stage.SEGMENT: "#8c8c8c",
    Stage.PUT: "#4c78a8",
    Stage.IMPORT: "#72b7b2",
    Stage.GET: "#54a24b",
    Stage.CHECK: "#b6d7b0",
    Stage.BUILD: "#e45756",
    Stage.WRITE_BACK: "#f2a541",
    Stage.LOAD: "#9d755d",
}
_LEAD = (
    "Rows are cut into segments, which are put into an object store, got, indexed one by one, and "
    "written back; then the indexes are got, opened and searched together. Each stage is told "
    "twice: added up over workers, as published reports do, and by the clock. Overlapped is the "
    "share of a stage's time in which another stage was under way. The critical path goes back "
    "from the last step to what each had to wait for."
)
_SKIPPED_POINT = (
    "k",
    "objects",
    "transport",
    "builders",
    "prefetch",
    "link_mbit",
    "loop",
    "clients",
)


def sections(run: RunData, points: Sequence[Point], looks: Looks | None) -> list[Section]:
    """Sections with totals, stages, searches, and one repeat drawn over time."""
    blocks: list[Block] = []
    for facet, members in by_facet([p for p in points if p.phase != "step"]):
        blocks += _tables(run, facet, members)
        if looks is not None:
            blocks += _time_figures(run, facet, members)
    return [Section("index-pipeline", "Indexes through object storage", _LEAD, tuple(blocks))]


def _tables(run: RunData, facet: Facet, points: Sequence[Point]) -> Iterator[Table]:
    totals = [p for p in points if p.phase in _STAGES]
    yield Table(
        f"pipeline-{facet.slug}",
        f"Phases of the pipeline: {facet.title}",
        _TOTALS,
        tuple(store_row(run, p, (*_place(p), *_total(p))) for p in totals),
        grouped_by=0,
    )
    yield Table(
        f"pipeline-stages-{facet.slug}",
        f"Stages of the pipeline: {facet.title}",
        _STEPS,
        tuple(
            store_row(run, p, (*_place(p), *_stage(p, stage)))
            for p in totals
            for stage in _STAGES[p.phase]
            if any(f"{stage}_sum_s" in phase.metrics for phase in p.phases)
        ),
        grouped_by=0,
    )
    searched = [p for p in points if p.phase in ("search", "search_merged")]
    if searched:
        yield Table(
            f"pipeline-searches-{facet.slug}",
            f"Searches of all segments, and of one index of all rows: {facet.title}",
            _SEARCHES,
            tuple(store_row(run, p, _search_cells(p)) for p in searched),
            ("Segments are searched one after the other by one client, each with this setting.",),
            grouped_by=0,
        )


def _place(point: Point) -> tuple[Cell, ...]:
    transport = str(point.params.get("transport", ""))
    if rate := point.params.get("link_mbit"):
        transport = f"{transport}, {rate:g} Mbit/s"
    return (
        plain_cell(point.params.get("objects")),
        plain_cell(transport),
        plain_cell(point.params.get("segment_rows")),
        plain_cell(point.params.get("builders")),
        plain_cell(point.params.get("prefetch")),
    )


def _total(point: Point) -> tuple[Cell, ...]:
    known = {stage: point.value(f"{stage}_critical_s") or 0.0 for stage in _STAGES[point.phase]}
    critical = max(known, key=lambda stage: known[stage])
    return (
        plain_cell(point.phase, note=point.reason or ""),
        spread_cell(point, "pipeline_wall_s", "s"),
        spread_cell(point, "pipeline_sum_s", "s"),
        plain_cell(critical.replace("_", " ") if known[critical] else formatting.NOTHING),
        spread_cell(point, "cpu_s", "s"),
        spread_cell(point, "server_cpu_s", "s"),
        spread_cell(point, "server_peak_rss_bytes", "B"),
        spread_cell(point, "objects_written_bytes", "B"),
        spread_cell(point, "objects_read_bytes", "B"),
        spread_cell(point, "in_flight_bytes", "B"),
        spread_cell(point, "in_flight_limit_bytes", "B"),
        plain_cell(int(point.value("resumed_segments") or 0)),
    )


def _stage(point: Point, stage: Stage) -> tuple[Cell, ...]:
    return (
        plain_cell(stage.replace("_", " ")),
        spread_cell(point, f"{stage}_sum_s", "s"),
        spread_cell(point, f"{stage}_wall_s", "s"),
        spread_cell(point, f"{stage}_bytes", "B"),
        spread_cell(point, f"{stage}_gb_per_s", "GB/s"),
        spread_cell(point, f"{stage}_overlap", "1", show=lambda share: f"{share:.0%}"),
        spread_cell(point, f"{stage}_critical_s", "s"),
    )


def _search_cells(point: Point) -> tuple[Cell, ...]:
    count = int(point.value("segments") or 1)
    place = " ".join(str(point.params.get(name, "")) for name in ("objects", "transport"))
    over = "one index of all rows" if count == 1 else f"{count} segments ({place})"
    setting = {k: v for k, v in point.params.items() if k not in _SKIPPED_POINT}
    return (
        plain_cell(over),
        plain_cell(formatting.params(setting)),
        spread_cell(point, "recall_mean", "1"),
        spread_cell(point, "qps", "1/s"),
        spread_cell(point, "latency_p50", "us"),
        spread_cell(point, "latency_p99", "us"),
        spread_cell(point, "errors", "1"),
    )


def _time_figures(run: RunData, facet: Facet, points: Sequence[Point]) -> Iterator[Figure]:
    """For each store, a figure over time of the first repeat at its slowest point."""
    for series in run.ordered(points):
        own = [p for p in points if p.series == series and p.phase == "index" and p.state == "ok"]
        known = [(value, p) for p in own if (value := p.value("pipeline_wall_s")) is not None]
        if not known:
            continue
        _, slowest = max(known, key=lambda one: one[0])
        trial = next(
            trial
            for trial in run.trials
            if any(phase.phase_id == slowest.phases[0].phase_id for phase in trial.phases)
        )
        label = run.labels[series]
        where = " ".join(cell.text for cell in _place(slowest)[:2])
        yield Figure(
            f"pipeline-{facet.slug}-{series.store}-{series.index_kind}",
            f"One repeat over time: {label}, {where}, {facet.title}",
            "Each line is a segment, each bar a step of it. Bars above one another overlap.",
            f"Steps of each segment of {label} over time.",
            _gantt(trial),
            (series,),
        )


def _gantt(trial: Trial) -> Callable[[int, bool], dict[str, Any]]:
    steps = [phase for phase in trial.phases if phase.name == "step"]
    zero = min((step.started_s or 0.0 for step in steps), default=0.0)
    rows = []
    for step in steps:
        start, length = (step.started_s or 0.0) - zero, step.duration_s or 0.0
        number, stage = int(step.params["segment"]), str(step.params["stage"]).replace("_", " ")
        said = description(("segment", str(number)), (stage, formatting.seconds(length)))
        row = {"segment": number, "stage": stage, "start": start, "end": start + length}
        rows.append({**row, "description": said})

    def spec(width: int, with_legend: bool) -> dict[str, Any]:
        names = [stage.replace("_", " ") for stage in Stage]
        colour = channel(
            "stage:N",
            scale=Settings(domain=names, range=[_INKS[stage] for stage in Stage]),
            legend=Settings(orient="bottom", title=None, columns=max(2, width // 130)),
        )
        count = len({row["segment"] for row in rows})
        bars = (
            chart_of(rows)
            .mark("bar", stroke=ink("paper"), strokeWidth=0.5)
            .encode(
                x=channel("start:Q", title="seconds"),
                x2="end:Q",
                y=channel("segment:O", title="segment"),
                color=colour,
                description="description:N",
            )
        )
        return finish_chart(bars, plot_width(width), max(120, min(600, 22 * count)))

    return spec
