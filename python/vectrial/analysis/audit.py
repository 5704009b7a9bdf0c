"""Checks of a run's figures against what was recorded with them.

A run keeps the histogram of every phase beside its figures. So figures that were changed
afterwards, or mixed up, are found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vectrial._engine import histogram_buckets, histogram_quantiles
from vectrial.analysis.trial import PhaseResult, Trial, point_key, stable_text
from vectrial.model.consistency import BUCKET, cache_suspicion, contradictions
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
            found += [Doubt(trial, phase, why) for why in phase_contradictions(phase, hdr)]
    return found + list(_copied_phases(trials))


def phase_contradictions(phase: PhaseResult, hdr: bytes | None) -> list[str]:
    """Contradictions within one phase, or between it and its histogram, a sentence each."""
    # The answer of `capacity` is of several phases, and has none of its own.
    duration_s = None if hdr is None else phase.duration_s
    return [
        *_figure_contradictions(phase, duration_s),
        *([] if hdr is None else _histogram_differences(phase, hdr)),
    ]


def _values(phase: PhaseResult) -> dict[str, float]:
    return {n: m.value for n, m in phase.metrics.items() if m.value is not None}


def _figure_contradictions(phase: PhaseResult, duration_s: float | None) -> list[str]:
    """Contradictions. duration_s: time in which requests were counted; None if unknown."""
    values = _values(phase)
    # In an open loop latency counts from when a request was due, also while it waits for a caller.
    closed = phase.params.get("loop") != "open"
    clients = values.get("concurrency") if closed else None
    return contradictions({**values, "duration_s": duration_s}, clients=clients)


def _histogram_differences(phase: PhaseResult, hdr: bytes) -> Iterator[str]:
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


def _copied_phases(trials: Sequence[Trial]) -> Iterator[Doubt]:
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


#: Beginning of the reason if figures contradict what was recorded with them.
UNBELIEVED = "it contradicts other recorded values"
#: Counts of wrong answers, with the sentence for each.
_WRONG = {
    "stale_results": "{:,.0f} answers name rows that were not there",
    "unknown_answers": "{:,.0f} answers name rows that were never written",
    "duplicate_answers": "{:,.0f} answers name a row twice",
    "wrong_scores": "{:,.0f} scores are not those computed again",
    "violations": "{:,.0f} answers have rows that their filter does not keep",
}


def unranked_reasons(trials: Sequence[Trial], found: Sequence[Doubt]) -> Mapping[int, str]:
    """Reasons why phases may not be ranked, by phase id; other phases have no known fault."""
    phases = [(trial, phase) for trial in trials for phase in trial.phases]
    why: dict[int, dict[str, None]] = defaultdict(dict)
    for doubt in found:
        why[doubt.phase.phase_id][f"{UNBELIEVED}: {doubt.why}"] = None
    wrong: dict[tuple[str, ...], dict[str, None]] = defaultdict(dict)
    for trial, phase in phases:
        wrong[_build(trial)].update(dict.fromkeys(_wrong_answers(trial, phase)))
    for trial, phase in phases:
        if phase.value("recall_mean") is None:
            continue  # what loads and sizes tell does not rest on answers
        why[phase.phase_id].update(wrong[_build(trial)])
    for phase_id, told in _cached_answers(phases):
        why[phase_id][f"answers seem to be cached: {told}"] = None
    return {phase: "; ".join(said) for phase, said in why.items() if said}


def _cached_answers(phases: Sequence[tuple[Trial, PhaseResult]]) -> Iterator[tuple[int, str]]:
    """Phases whose first answers took longer than later ones in every repeat: an effect that only
    some repeats show is the machine's doing."""
    repeats: dict[tuple[Any, ...], list[tuple[int, str | None]]] = defaultdict(list)
    for trial, phase in phases:
        values = _values(phase)
        if {"later_pass_p50", "familiar_p50"} & {n for n, v in values.items() if v is not None}:
            repeats[point_key(trial, phase)].append((phase.phase_id, cache_suspicion(values)))
    for members in repeats.values():
        told = next((said for _, said in members), None)
        if told and all(said for _, said in members):
            every = f", and so in all {len(members)} repeats" if len(members) > 1 else ""
            yield from ((phase_id, f"{told}{every}") for phase_id, _ in members)


def _wrong_answers(trial: Trial, phase: PhaseResult) -> Iterator[str]:
    for metric, said in _WRONG.items():
        if found := phase.value(metric):
            experiment = trial.experiment.replace("_", " ")
            yield f"this build gave wrong answers in {experiment}: {said.format(found)}"


def _build(trial: Trial) -> tuple[str, ...]:
    """Key of a build: the same store with the same index on the same data, in any experiment."""
    built = stable_text(trial.index_params)
    return trial.series.store, trial.series.index_kind, built, trial.dataset
