"""Metrics of the pipeline, a few for each stage."""

from __future__ import annotations

from vectrial.model.results_schema import MetricName
from vectrial_reproduce.segments.spans import Stage

_DONE = {
    Stage.EMBED: "to embed texts",
    Stage.SEGMENT: "to cut and encode segments",
    Stage.PUT: "to put segments",
    Stage.IMPORT: "to import segments",
    Stage.GET: "to get segments",
    Stage.CHECK: "to check what was got",
    Stage.BUILD: "to build indexes",
    Stage.WRITE_BACK: "to put indexes",
    Stage.LOAD: "to get and open indexes",
}
_TITLES = {stage: stage.replace("_", " ").capitalize() for stage in Stage}


def _stage_metrics(stage: Stage) -> tuple[MetricName, ...]:
    done, title = _DONE[stage], _TITLES[stage]
    return (
        MetricName(f"{stage}_sum_s", "s", "lower", f"{done}, added up over workers", title),
        MetricName(f"{stage}_wall_s", "s", "lower", f"{done}, by the clock", title),
        MetricName(f"{stage}_bytes", "B", None, f"bytes {done}", f"{title} bytes"),
        MetricName(
            f"{stage}_gb_per_s", "GB/s", "higher", f"10^9 bytes {done} / time by the clock", title
        ),
        MetricName(
            f"{stage}_overlap", "1", None,
            f"share of the time {done} in which another stage was under way", title,
        ),
        MetricName(f"{stage}_critical_s", "s", None, f"{done}, on the critical path", title),
    )  # fmt: skip


METRICS = (
    *(metric for stage in Stage for metric in _stage_metrics(stage)),
    MetricName("pipeline_wall_s", "s", "lower", "from the first step to the last", "Wall clock"),
    MetricName("pipeline_sum_s", "s", "lower", "all steps added up over workers", "Sum of steps"),
    MetricName(
        "index_sum_s", "s", "lower",
        "to build and put indexes, added up over workers: what published reports call index time",
        "Index time",
    ),
    MetricName(
        "index_speedup_limit", "1", None,
        "how many times as fast PUT, GET and index, each added up over workers, would be together"
        " if an index took no time",
        "Limit of a faster index",
    ),
    MetricName("segments", "1", None, "segments of the dataset", "Segments"),
    MetricName("resumed_segments", "1", None, "of these, done before the run was resumed"),
    MetricName("in_flight_bytes", "B", "lower", "most bytes of segments in memory at once"),
    MetricName("in_flight_limit_bytes", "B", None, "the most that the settings allow"),
    MetricName("span_bytes", "B", None, "bytes of one step of one segment"),
    MetricName(
        "objects_written_bytes", "B", None, "bytes that the object store received", "Written"
    ),
    MetricName("objects_read_bytes", "B", None, "bytes that the object store sent", "Read"),
    MetricName("objects_requests", "1", None, "requests to the object store", "Requests"),
    MetricName("merged_build_s", "s", "lower", "to build one index of all rows", "One index"),
)  # fmt: skip
