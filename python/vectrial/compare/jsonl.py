"""A comparison as JSON lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from vectrial.compare.build import Comparison
from vectrial.stats.effects import POWER, Mean


def objects(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """One object for each verdict, then one for each note on a run and each caveat; docs/compare.md
    explains the keys."""
    for verdict in comparison.verdicts:
        cell, effect = verdict.cell, verdict.effect
        yield {
            "kind": "verdict",
            "verdict": str(verdict.kind),
            "reason": verdict.reason or None,
            "subject": cell.subject,
            "dataset": cell.terms.get("dataset"),
            "rows": cell.terms.get("rows"),
            "experiment": cell.experiment,
            "phase": cell.phase or None,
            "terms": dict(cell.terms),
            "side": cell.side or None,
            "at": cell.at or None,
            "metric": cell.metric.name if cell.metric else None,
            "unit": cell.metric.unit if cell.metric else None,
            "a": _side(verdict.mean_a, cell.a),
            "b": _side(verdict.mean_b, cell.b),
            "change": verdict.change,
            "change_low": None if effect is None else effect.low - 1,
            "change_high": None if effect is None else effect.high - 1,
            "p": None if effect is None else effect.p,
            "p_adjusted": verdict.p_adjusted,
            "paired": None if effect is None else effect.paired,
            "at_pace": None if effect is None else effect.at_pace,
            "change_measured": verdict.change if verdict.measured is None else verdict.measured,
            "minimum_effect": _finite(verdict.minimum),
            "more_repeats": verdict.more,
            "power": POWER,
            "threshold": comparison.threshold,
        }
    for side, run in (("a", comparison.a.run), ("b", comparison.b.run)):
        if run.note:
            yield {"kind": "note", "side": side, "reason": run.note}
    for said in comparison.advice:
        yield {"kind": "advice", "reason": said}
    for said in comparison.alone:
        yield {"kind": "alone", "reason": said}
    for said in comparison.caveats:
        yield {"kind": "caveat", "reason": said}


def _side(mean: Mean | None, values: Mapping[int, float]) -> dict[str, Any] | None:
    if mean is None:
        return None
    return {
        "mean": mean.value,
        "low": mean.low,
        "high": mean.high,
        "repeats": {str(repeat): values[repeat] for repeat in sorted(values)},
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
