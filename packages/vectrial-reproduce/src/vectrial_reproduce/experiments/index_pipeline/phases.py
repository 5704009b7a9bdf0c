"""Phases of the pipeline, out of its spans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

from vectrial.model.phase import Phase, Role
from vectrial_reproduce.segments import spans as of_spans
from vectrial_reproduce.segments.pipeline import Pipeline, StepOutcome
from vectrial_reproduce.segments.spans import Span, Stage

_NOT_SAMPLED = "other steps ran at the same time"
#: Steps that a report draws, at most: of more, the totals alone are kept.
_MOST_SPANS = 2000


def write_totals(
    phase: Phase, spans: Sequence[Span], stages: Sequence[Stage], segments: int
) -> None:
    """Write the totals of a phase's spans, and the metrics of its stages, into the phase."""
    phase.metrics |= {
        "segments": float(segments),
        "pipeline_wall_s": of_spans.length_s(spans),
        "pipeline_sum_s": of_spans.sum_s(spans),
    }
    critical = of_spans.critical_path(spans)
    for stage in stages:
        phase.metrics |= stage_metrics(stage, spans, critical.get(stage, 0.0))
    idle = [name for name, value in phase.metrics.items() if value is None]
    phase.missing |= dict.fromkeys(idle, "it took no time")


def phase_of(
    name: str,
    point: Mapping[str, Any],
    began_ns: int,
    pipeline: Pipeline,
    outcome: StepOutcome,
    stages: Sequence[Stage],
) -> Phase:
    """A phase of our own pipeline, from `began_ns` until now, with the totals of its stages. A
    resumed run has no times, because they would cover only some of the segments."""
    phase = Phase(name, began_ns, perf_counter_ns(), dict(point))
    own = pipeline.spans.select(*stages)
    write_totals(phase, own, stages, len(pipeline.bounds))
    phase.metrics["resumed_segments"] = float(len(outcome.resumed))
    if name == "index":
        limit = pipeline.settings.most_in_memory * pipeline.segment_bytes
        index_s = of_spans.sum_s(pipeline.spans.select(Stage.BUILD, Stage.WRITE_BACK))
        moved_s = of_spans.sum_s(pipeline.spans.select(Stage.PUT, Stage.GET))
        phase.metrics |= {
            "index_sum_s": index_s,
            "in_flight_bytes": float(outcome.most_bytes),
            "in_flight_limit_bytes": float(limit),
        }
        if moved_s:
            phase.metrics["index_speedup_limit"] = (moved_s + index_s) / moved_s
    if outcome.resumed:
        what = f"{len(outcome.resumed)} of {len(pipeline.bounds)} segments were done before"
        for metric in [m for m in phase.metrics if m.endswith(("_s", "_overlap", "_limit"))]:
            phase.metrics[metric] = None
            phase.missing[metric] = f"the run was resumed: {what}"
        phase.remark(what)
    if outcome.failed:
        kinds = [f"segment {number}: {why}" for number, why in sorted(outcome.failed.items())]
        phase.errors.append(("StoreError", len(kinds), kinds[:10]))
        phase.invalidate(f"{len(kinds)} of {len(pipeline.bounds)} segments failed")
    return phase


def stage_metrics(
    stage: Stage, spans: Sequence[Span], critical_s: float
) -> dict[str, float | None]:
    """A stage's metrics, from a phase's spans. critical_s: its time on the critical path."""
    own = [span for span in spans if span.stage is stage]
    wall_s, moved = of_spans.wall_s(own), sum(span.size_bytes for span in own)
    return {
        f"{stage}_sum_s": of_spans.sum_s(own),
        f"{stage}_wall_s": wall_s,
        f"{stage}_bytes": float(moved),
        f"{stage}_gb_per_s": moved / 1e9 / wall_s if wall_s else None,
        f"{stage}_overlap": of_spans.overlapped_share(spans, stage),
        f"{stage}_critical_s": critical_s,
    }


def span_phases(spans: Sequence[Span]) -> Iterator[Phase]:
    """A phase for each span, unless there are too many to keep."""
    for span in spans if len(spans) <= _MOST_SPANS else ():
        phase = Phase("step", span.started_ns, span.ended_ns, role=Role.STEP)
        phase.params = {"stage": str(span.stage), "segment": span.segment, "worker": span.worker}
        phase.metrics = {"span_bytes": float(span.size_bytes), "cpu_s": span.cpu_s}
        phase.unsampled = _NOT_SAMPLED
        yield phase
