"""Trials as they are read from a run, made up for tests of what is derived from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import PhaseResult, Trial, Value
from vectrial.experiments.registry import all_metrics


def recorded_phase(
    number: int,
    name: str,
    metrics: Mapping[str, float],
    params: Mapping[str, Any] | None = None,
    **more: Any,
) -> PhaseResult:
    """A valid phase with these values; `more`: its other fields."""
    known = all_metrics()
    values = {n: Value(v, known[n].unit, True, None) for n, v in metrics.items()}
    fields = {"valid": True, "reason": None, "metrics": values, **more}
    return PhaseResult(number, name, params or {}, **fields)


def recorded_trial(number: int, *phases: PhaseResult, **fields: Any) -> Trial:
    """A trial of these phases that went well; `fields`: what is not as below."""
    usual = {
        "key": f"key {number}",
        "store": "some",
        "lane": "native",
        "dataset": "some",
        "rows": 100,
        "dim": 8,
        "metric_space": "l2",
        "experiment": "search",
        "index_kind": "hnsw",
        "index_params": {},
        "params": {},
        "repeat": 1,
        "seed": 1,
        "trial_id": number,
        "status": "ok",
    }
    return Trial(**usual | fields, phases=phases)


#: A phase, the name of one of its metrics and the value → another value.
Change = Callable[[PhaseResult, str, float], float]


def changed(run: RunData, change: Change) -> RunData:
    """The run with every value as `change` says, as if somebody had edited what was recorded."""

    def phase_of(phase: PhaseResult) -> PhaseResult:
        values = {
            name: one if one.value is None else replace(one, value=change(phase, name, one.value))
            for name, one in phase.metrics.items()
        }
        return replace(phase, metrics=values)

    trials = [replace(one, phases=tuple(map(phase_of, one.phases))) for one in run.trials]
    return replace(run, trials=tuple(trials))
