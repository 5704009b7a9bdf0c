"""Figures of a run held against what was recorded with them.

A run keeps the histogram of every phase beside its figures, so that a reader need not believe what
stands there: figures that were changed afterwards, or mixed up, are found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vectrial._engine import histogram_buckets, histogram_quantiles
from vectrial.analysis.trial import PhaseResult, Trial
from vectrial.model.consistency import BUCKET, contradictions
from vectrial.stats.quantiles import LATENCY


@dataclass(frozen=True)
class Doubt:
    """Reason why figures of a phase are not credible."""

    trial: Trial
    phase: PhaseResult
    why: str


def doubts(trials: Sequence[Trial], histograms: Mapping[int, bytes]) -> list[Doubt]:
    """All inconsistencies, in the order measured: figures that contradict each other or the
    histogram kept with them, or that are copied from another phase.

    histograms: latencies (HDR V2, ns) by phase id.
    """
    found = []
    for trial in trials:
        for phase in trial.phases:
            hdr = histograms.get(phase.phase_id)
            found += [Doubt(trial, phase, why) for why in of_phase(phase, hdr)]
    return found + list(_copied(trials))


def of_phase(phase: PhaseResult, hdr: bytes | None) -> list[str]:
    """Contradictions within one phase, or between it and its histogram, a sentence each."""
    # The answer of `capacity` is of several phases, and has none of its own.
    duration_s = None if hdr is None else phase.duration_s
    return [*_contradicted(phase, duration_s), *([] if hdr is None else _unlike(phase, hdr))]


def _values(phase: PhaseResult) -> dict[str, float]:
    return {n: m.value for n, m in phase.metrics.items() if m.value is not None}


def _contradicted(phase: PhaseResult, duration_s: float | None) -> list[str]:
    """Contradictions. duration_s: time in which requests were counted; None if unknown."""
    values = _values(phase)
    # In an open loop latency counts from when a request was due, also while it waits for a caller.
    closed = phase.params.get("loop") != "open"
    clients = values.get("concurrency") if closed else None
    return contradictions({**values, "duration_s": duration_s}, clients=clients)


def _unlike(phase: PhaseResult, hdr: bytes) -> Iterator[str]:
    """Percentiles and sample counts that differ from the histogram."""
    values = _values(phase)
    _, counts = histogram_buckets(hdr)
    kept = int(counts.sum())
    told = values.get("batches", values.get("count"))
    if told is not None and int(told) != kept:
        yield f"{told:,.0f} samples are told, {kept:,} were recorded"
    shown = {name: quantile for name, quantile in LATENCY.items() if name in values}
    for name, value in zip(shown, histogram_quantiles(hdr, [*shown.values()]), strict=True):
        if abs(values[name] - value) > BUCKET * value:
            yield f"{name} is told as {values[name]:.6g} us, and was recorded as {value:.6g} us"


def _copied(trials: Sequence[Trial]) -> Iterator[Doubt]:
    """Pairs of phases with the same throughput and mean latency to the last bit."""
    same: dict[tuple[float, float], list[tuple[Trial, PhaseResult]]] = defaultdict(list)
    for trial in trials:
        for phase in trial.phases:
            values = _values(phase)
            if "qps" in values and "latency_mean" in values:
                same[values["qps"], values["latency_mean"]].append((trial, phase))
    for group in same.values():
        for trial, phase in group[1:]:
            first, _ = group[0]
            yield Doubt(
                trial,
                phase,
                f"throughput and mean latency are, to the last digit, those of {first.series.store}"
                f" {first.experiment}, repeat {first.repeat}",
            )
