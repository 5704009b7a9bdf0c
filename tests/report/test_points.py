"""Repeats of one phase are one point."""

from __future__ import annotations

from pathlib import Path

from recorded_trials import recorded_phase, recorded_trial

from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import Trial
from vectrial.document.blocks import spread_cell
from vectrial.model.trial import CheckResult


def built(m: int, *, passed: bool) -> Trial:
    phase = recorded_phase(m, "search", {"qps": 9.0})
    check = CheckResult("recall", passed, "0.31, at least 0.9", "", "everything", True)
    return recorded_trial(m, phase, index_params={"m": m}, gate=(check,))


def test_only_the_build_that_fails_the_gate_is_wrong() -> None:
    run = RunData(Path(), {}, (), (built(16, passed=False), built(32, passed=True)), {})
    assert [(point.index_params["m"], point.state) for point in run.points] == [
        (16, "wrong"), (32, "ok"),
    ]  # fmt: skip
    assert [run.why_wrong(trial) for trial in run.trials] == ["recall: 0.31, at least 0.9", ""]


def repeat(number: int, known_by: str, ready_s: float) -> Trial:
    params = {"clients": 1, "known_by": known_by}
    phase = recorded_phase(number, "indexed", {"ready_s": ready_s}, params)
    return recorded_trial(number, phase, experiment="transport", repeat=number)


def test_repeats_are_gathered_whatever_the_store_told_of_each() -> None:
    told = [repeat(1, "1 segments", 1.0), repeat(2, "3 segments", 3.0), repeat(3, "2", 2.0)]
    (point,) = RunData(Path(), {}, (), tuple(told), {}).points
    assert point.repeats == 3
    assert point.value("ready_s") == 2.0


def test_recall_within_a_pass_is_shown_with_its_error() -> None:
    def shown(**error: float) -> str:
        phase = recorded_phase(1, "search", {"qps": 9.0, "recall_mean": 0.9712, **error})
        (point,) = RunData(Path(), {}, (), (recorded_trial(1, phase),), {}).points
        return spread_cell(point, "recall_mean", "1").text

    assert shown(recall_error=0.00314) == "0.9712 ± 0.0031"
    assert shown(recall_error=0.0) == "0.9712"
    assert shown(recall_error=0.00004) == "0.9712"
    assert shown() == "0.9712", "an earlier version recorded none"
