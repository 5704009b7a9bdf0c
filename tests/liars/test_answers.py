"""Stores that lie in what they answer under the clock: each is caught, or told at the figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import Honest

from run import Run, measure

SWEEP = {"experiment": "recall_sweep", "min_s": 0.2, "warmup_queries": 20}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """All of them in one run."""
    folder: Path = tmp_path_factory.mktemp("liars")
    return measure([Honest], [SWEEP], folder)


def test_an_honest_store_passes_everything(run: Run) -> None:
    assert [record.status for record in run.of(Honest)] == ["ok"]
    assert all(phase.valid for record in run.of(Honest) for phase in record.phases)
    assert "INVALID" not in "\n".join(run.lines(Honest))
    assert run.headlines()["Fastest at recall ≥ 0.95"] == "honest"
