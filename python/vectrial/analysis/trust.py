"""Selection of the figures that may be ranked: nothing else in the run contradicts them.

A figure that is valid by itself is on no front and in no headline where it contradicts what was
recorded with it, where its answers are remembered ones, or where the same build of the store gave
wrong answers in any experiment of the run. It stays in its tables, with the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vectrial.analysis.audit import Doubt
from vectrial.analysis.trial import PhaseResult, Trial, point_key, stable
from vectrial.model.consistency import remembered

#: How it begins where figures contradict what was recorded with them.
UNBELIEVED = "it contradicts other recorded values"
#: Counts of wrong answers, with the sentence for each.
_WRONG = {
    "stale_results": "{:,.0f} answers name rows that were not there",
    "unknown_answers": "{:,.0f} answers name rows that were never written",
    "duplicate_answers": "{:,.0f} answers name a row twice",
    "wrong_scores": "{:,.0f} scores are not those computed again",
    "violations": "{:,.0f} answers have rows that their filter does not keep",
}


def unranked(trials: Sequence[Trial], found: Sequence[Doubt]) -> Mapping[int, str]:
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
    for phase_id, told in _remembered(phases):
        why[phase_id][f"answers seem to be cached: {told}"] = None
    return {phase: "; ".join(said) for phase, said in why.items() if said}


def _remembered(phases: Sequence[tuple[Trial, PhaseResult]]) -> Iterator[tuple[int, str]]:
    """Phases whose first answers took longer than later ones in every repeat: an effect that only
    some repeats show is the machine's doing."""
    repeats: dict[tuple[Any, ...], list[tuple[int, str | None]]] = defaultdict(list)
    for trial, phase in phases:
        values = _values(phase)
        if values.get("later_pass_p50") is not None:
            repeats[point_key(trial, phase)].append((phase.phase_id, remembered(values)))
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


def _values(phase: PhaseResult) -> dict[str, float | None]:
    return {name: value.value for name, value in phase.metrics.items()}


def _build(trial: Trial) -> tuple[str, ...]:
    """Key of a build: the same store with the same index on the same data, in any experiment."""
    built = stable(trial.index_params)
    return trial.series.store, trial.series.index_kind, built, trial.dataset
