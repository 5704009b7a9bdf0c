"""Repeats of one phase are one point."""

from __future__ import annotations

from pathlib import Path

from vectrial.report.data import PhaseResult, RunData, Series, Trial, Value


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
