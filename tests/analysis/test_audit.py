"""Figures that were changed after they were recorded are found, and those that were not are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from recorded_trials import changed

from vectrial.analysis import audit
from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import PhaseResult, Value
from vectrial.report.sections import provenance
from vectrial.report.sections import warnings as cautions


def searches(run: RunData) -> list[PhaseResult]:
    return [phase for _, phase in run.phases() if "recall_mean" in phase.metrics]


def doubted(run: RunData) -> list[str]:
    """Why figures of the run are doubted."""
    doubts = audit.doubts(run.trials, run.histograms)
    said = " ".join(cautions.warnings(run))
    assert ("other recorded values" in said) == bool(doubts)
    return [doubt.why for doubt in doubts]


def test_what_was_recorded_is_believed(recorded: RunData) -> None:
    assert audit.doubts(recorded.trials, recorded.histograms) == []


@pytest.mark.parametrize(
    ("metric", "change", "says"),
    [
        ("latency_p99", lambda value: value * 1.1, "was recorded as"),
        ("qps", lambda value: value * 2, "more than can be"),
        ("qps", lambda value: value / 10, "s are"),
        ("count", lambda value: value * 2, "were recorded"),
        ("latency_max", lambda value: value / 1e3, "above latency_max"),
        ("recall_mean", lambda value: 1.2, "no share"),
        ("ready_s", lambda value: value / 2, "its parts are"),
        ("disk_bytes", lambda value: value / 9, "of the raw vectors"),
    ],
)
def test_a_changed_figure_is_found(
    metric: str, change: Callable[[float], float], says: str, recorded: RunData
) -> None:
    """Of the run's first search; or of every load, or size."""
    first = searches(recorded)[0]

    def edited(phase: PhaseResult, name: str, value: float) -> float:
        of_it = phase is first or metric in ("ready_s", "disk_bytes")
        return change(value) if of_it and name == metric else value

    assert any(says in why for why in doubted(changed(recorded, edited)))


@pytest.mark.parametrize(("loop", "doubted"), [("open", False), ("closed", True)])
def test_requests_that_wait_for_a_caller_are_none_too_many(loop: str, doubted: bool) -> None:
    """One caller of a library under a given load: 50 a second, each 30 ms after it was due."""
    told = {"qps": (50.0, "1/s"), "latency_mean": (30_000.0, "us"), "concurrency": (1.0, "1")}
    metrics = {name: Value(value, unit, True, None) for name, (value, unit) in told.items()}
    phase = PhaseResult(1, "search", {"loop": loop}, True, None, metrics)
    assert bool(audit.of_phase(phase, None)) == doubted


def test_a_copied_row_is_found(recorded: RunData) -> None:
    first, second, *_ = searches(recorded)

    def copied(phase: PhaseResult, name: str, value: float) -> float:
        other = first.value(name)
        same = phase is second and name in ("qps", "latency_mean")
        return other if same and other is not None else value

    said = doubted(changed(recorded, copied))
    assert any("to the last digit, those of" in why for why in said)


def test_the_report_lists_them(recorded: RunData) -> None:
    run = changed(recorded, lambda _, name, value: 1.2 if name == "recall_mean" else value)
    section = provenance.not_measured(run)
    assert section is not None
    (table,) = section.blocks
    assert any("doubtful search" in str(row) for row in table.rows)  # type: ignore[union-attr]
