"""Cells of stores that took turns: their slices say more than their repeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import PhaseResult
from vectrial.analysis.turns import Paired, Weights, of_phases, weights_between
from vectrial.compare.cells import ComparedCell, without


def by_turns(cell: ComparedCell, run_a: RunData, run_b: RunData) -> ComparedCell:
    """The cell with the evidence of both sides' turns; without turns, too few repeats are none."""
    found = _paired(cell, run_a) if run_a.folder == run_b.folder else None
    if cell.few and found is None:
        return without(cell, cell.few)
    return replace(cell, paired=found)


def _paired(cell: ComparedCell, run: RunData) -> Paired | None:
    if cell.metric is None or not (cell.a and cell.b and run.slices):
        return None
    phases = {phase.phase_id: phase for _, phase in run.phases()}
    metric = cell.metric.name
    a = _weights(cell.a, cell.phases_a, phases, metric)
    b = _weights(cell.b, cell.phases_b, phases, metric)
    return of_phases(run, a, b, metric)


def _weights(
    values: Mapping[int, float],
    ids: Mapping[int, tuple[int, ...]],
    phases: Mapping[int, PhaseResult],
    metric: str,
) -> dict[int, Weights]:
    """The phases from which a value was interpolated, by repeat, each with its weight."""
    found = {}
    for repeat, own in ids.items():
        parts = [(one, value) for one in own if (value := phases[one].value(metric))]
        if parts and len(parts) == len(own):
            found[repeat] = weights_between(values[repeat], parts)
    return found
