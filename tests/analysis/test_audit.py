"""Figures held against what was recorded with them, and which of them are ranked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from recorded_trials import changed, recorded_phase, recorded_trial

from vectrial.analysis import audit
from vectrial.analysis.analysis import remark
from vectrial.analysis.audit import unranked_reasons
from vectrial.analysis.run_data import Point, RunData
from vectrial.analysis.trial import PhaseResult, Trial, Value
from vectrial.model.consistency import FIRST_ANSWERS
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
    assert bool(audit.phase_contradictions(phase, None)) == doubted


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


def answered_trial(number: int, first_us: float, later_us: float | None, ef: int = 64) -> Trial:
    """A repeat of a search whose first and later answers took so long in the median."""
    metrics = {
        "recall_mean": 0.99,
        "first_pass_p50": first_us,
        "later_pass_p50": later_us,
        "first_pass_count": 1000.0,
        "later_pass_count": 0.0 if later_us is None else 5000.0,
    }
    phase = recorded_phase(
        number, "search", {n: v for n, v in metrics.items() if v is not None}, {"known_by": number}
    )
    return recorded_trial(number, phase, params={"ef_search": ef}, repeat=number)


@pytest.mark.parametrize("repeats", [1, 3])
def test_answers_that_are_remembered_in_every_repeat_are_not_ranked(repeats: int) -> None:
    trials = [answered_trial(number, 446, 173) for number in range(repeats)]
    found = unranked_reasons(trials, [])
    assert list(found) == list(range(repeats))
    assert all(text.startswith("answers seem to be cached: the first") for text in found.values())


def test_what_every_repeat_shows_is_said_once() -> None:
    trials = [answered_trial(number, 446 + number, 173) for number in range(3)]
    (said,) = set(unranked_reasons(trials, []).values())
    assert said.count(FIRST_ANSWERS) == 1
    assert said.endswith("and so in all 3 repeats")
    notes = [f"{FIRST_ANSWERS} {446 + number} us: answers are remembered" for number in range(3)]
    noted = [replace(one.phases[0], reason=note) for one, note in zip(trials, notes, strict=True)]
    plain = Point(
        trials[0].series, "words", 10, "search", "search", {}, {}, "ok", None, tuple(noted)
    )
    assert remark(plain) == notes[0]
    assert remark(replace(plain, doubt=said)) == said


def test_one_disturbed_repeat_of_three_is_the_machine() -> None:
    """As seen of USearch, Qdrant Edge and FAISS, which remember nothing, with 0.6 s a phase."""
    assert (
        unranked_reasons(
            [answered_trial(1, 245, 236), answered_trial(2, 328, 322), answered_trial(3, 446, 173)],
            [],
        )
        == {}
    )


def test_repeats_without_a_later_answer_do_not_speak_for_it() -> None:
    assert list(
        unranked_reasons([answered_trial(1, 446, 173), answered_trial(2, 446, None)], [])
    ) == [1]


def test_other_settings_are_other_points() -> None:
    assert list(
        unranked_reasons([answered_trial(1, 446, 173), answered_trial(2, 100, 100, ef=16)], [])
    ) == [1]
