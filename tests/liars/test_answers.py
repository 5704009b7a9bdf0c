"""Stores that lie in what they answer under the clock: each is caught, or told at the figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import Honest, StaleAnswers

from run import Run, measure

SWEEP = {"experiment": "recall_sweep", "min_s": 0.2, "warmup_queries": 20}
MIXED = {"experiment": "mixed", "operations": 1200}
FASTEST = "Fastest at recall ≥ 0.95"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run."""
    folder: Path = tmp_path_factory.mktemp("liars")
    return measure([Honest, StaleAnswers], [SWEEP, MIXED], folder)


def test_an_honest_store_passes_everything(run: Run) -> None:
    assert [record.status for record in run.of(Honest)] == ["ok", "ok"]
    assert all(phase.valid for record in run.of(Honest) for phase in record.phases)
    assert "INVALID" not in "\n".join(run.lines(Honest))
    own = [point for point in run.data.points if point.series.store == Honest.name]
    assert [point.doubt for point in own] == [None] * len(own)
    assert run.headlines()[FASTEST] == "honest"


def test_who_answered_with_dead_rows_anywhere_is_in_no_headline(run: Run) -> None:
    """Its searches alone are sound, and faster than all others."""
    assert not run.phase(StaleAnswers, "mixed", "search").valid
    assert run.headlines()[FASTEST] == "honest"
    assert any("stale-answers is in no headline" in said for said in run.report.warnings)


def test_a_trial_of_which_one_phase_is_invalid_says_so_on_its_line(run: Run) -> None:
    assert run.trial(StaleAnswers, "mixed").status == "ok"
    (line,) = [one for one in run.lines(StaleAnswers) if "mixed" in one]
    assert "INVALID (1 of 4 phases): search:" in line
    assert "answers name rows that were not there" in line
