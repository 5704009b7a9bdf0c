"""Repeats of one phase are one point."""

from __future__ import annotations

from pathlib import Path

from vectrial.analysis.run_data import RunData
from vectrial.analysis.trial import Check, PhaseResult, Series, Trial, Value


def built(m: int, *, passed: bool) -> Trial:
    told = PhaseResult(m, "search", {}, True, None, {"qps": Value(9.0, "1/s", True, None)})
    check = Check("recall", passed, "0.31, at least 0.9", "", "everything", True)
    return Trial(
        m, f"key {m}", Series("some", "hnsw", "native"), None, "some", 100, "search",
        {"m": m}, {}, 1, "ok", None, (), (told,), (check,),
    )  # fmt: skip


def test_only_the_build_that_fails_the_gate_is_wrong() -> None:
    run = RunData(Path(), {}, (), (built(16, passed=False), built(32, passed=True)), {})
    assert [(point.index_params["m"], point.state) for point in run.points] == [
        (16, "wrong"), (32, "ok"),
    ]  # fmt: skip
    assert [run.why_wrong(trial) for trial in run.trials] == ["recall: 0.31, at least 0.9", ""]


def repeat(number: int, known_by: str, ready_s: float) -> Trial:
    metrics = {"ready_s": Value(ready_s, "s", True, None)}
    told = {"clients": 1, "known_by": known_by}
    phase = PhaseResult(number, "indexed", told, True, None, metrics)
    return Trial(
        number, f"key {number}", Series("lucene", "hnsw", "native"), None, "some", 100,
        "transport", {}, {}, number, "ok", None, (), (phase,), (),
    )  # fmt: skip


def test_repeats_are_gathered_whatever_the_store_told_of_each() -> None:
    told = [repeat(1, "1 segments", 1.0), repeat(2, "3 segments", 3.0), repeat(3, "2", 2.0)]
    (point,) = RunData(Path(), {}, (), tuple(told), {}).points
    assert point.repeats == 3
    assert point.value("ready_s") == 2.0
