"""Runbooks on stores that follow them, and on some that do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiment_worlds import Immortal, dataset, index_of, run, target
from numpy.typing import NDArray

from vectrial.experiments.runbook.experiment import RunbookExperiment
from vectrial.experiments.runbook.report import Slope, slope
from vectrial.model.errors import UserError
from vectrial.model.phase import Phase
from vectrial.stores.memory import MemoryStore
from vectrial.workload.runbook import OWN

QUICK = {"min_s": 0.0, "warmup_queries": 0}


def searched(phases: list[Phase], age: str = "aged") -> list[Phase]:
    return [one for one in phases if one.name == "search" and one.params["age"] == age]


@pytest.mark.parametrize("script", OWN)
def test_an_exact_store_finds_everything_that_is_live(script: str, tmp_path: Path) -> None:
    asked = RunbookExperiment.model_validate({"script": script, **QUICK})
    phases = run(asked, MemoryStore, tmp_path, given=dataset(200))
    for phase in phases:
        phase.judge_pending()
        assert phase.valid, phase.reason
    assert [one.metrics["recall_mean"] for one in searched(phases)] == pytest.approx(
        [1.0] * len(searched(phases))
    )
    (anew,) = searched(phases, "anew")
    assert anew.metrics["live_rows"] == searched(phases)[-1].metrics["live_rows"]


def test_rows_that_do_not_go_are_seen(tmp_path: Path) -> None:
    asked = RunbookExperiment.model_validate({"script": "expiry", **QUICK})
    phases = searched(run(asked, Immortal, tmp_path, given=dataset(200)))
    for phase in phases:
        phase.judge_pending()
    assert phases[0].metrics["recall_mean"] == pytest.approx(1.0)
    assert (phases[-1].metrics["recall_mean"] or 0) < 0.8


def test_a_file_is_made_part_of_the_experiment(tmp_path: Path) -> None:
    path = tmp_path / "book.yaml"
    path.write_text(
        "a: {max_pts: 200, 1: {operation: insert, start: 0, end: 200}, 2: {operation: search}}"
    )
    asked = RunbookExperiment.model_validate({"script": str(path), **QUICK})
    resolved = asked.resolve(target(MemoryStore, index_of(MemoryStore, "flat"), 200).data)
    assert resolved.steps == {str(path): (("insert", 0, 200, 0), ("search", 0, 0, 0))}
    path.unlink()
    phases = run(resolved, MemoryStore, tmp_path / "store", given=dataset(200))
    assert [one.name for one in phases] == ["insert", "search", "search"]


def test_of_a_file_with_several_runbooks_one_is_named_behind_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "#1"
    folder.mkdir()
    path = folder / "book.yml"
    path.write_text(
        "a: {1: {operation: insert, start: 0, end: 9}}\n"
        "b: {1: {operation: insert, start: 0, end: 7}}\n"
    )
    data = target(MemoryStore, index_of(MemoryStore, "flat"), 200).data
    asked = RunbookExperiment.model_validate({"script": [f"{path}#b", "replace"]})
    assert asked.resolve(data).steps == {f"{path}#b": (("insert", 0, 7, 0),)}
    with pytest.raises(UserError, match="2 datasets"):
        RunbookExperiment.model_validate({"script": str(path)}).resolve(data)


def test_a_runbook_that_there_is_not() -> None:
    asked = RunbookExperiment.model_validate({"script": "sliding"})
    with pytest.raises(UserError, match="no runbook 'sliding'") as raised:
        asked.resolve(target(MemoryStore, index_of(MemoryStore, "flat")).data)
    assert "sliding_window" in str(raised.value.remedy)


def test_the_slope_has_the_interval_of_the_textbook() -> None:
    rows: NDArray[np.float64] = np.arange(5.0)
    found = slope(rows.tolist(), (2 * rows + np.array([0.1, -0.1, 0.0, -0.1, 0.1])).tolist())
    assert found is not None
    assert found.per_row == pytest.approx(2.0)
    assert found.high - found.per_row == pytest.approx(3.182 * 0.0365, abs=1e-3)
    assert slope([0, 0, 0], [1, 1, 1]) is None
    for same in (667.0, 0.99):
        assert slope([0, 1e5, 2e5], [same] * 3) == Slope(0.0, 0.0, 0.0)
    even = slope([0, 1e5, 2e5, 3e5], [0.3, 0.1 + 0.2, 0.3, 0.1 + 0.2])
    assert even is not None
    assert even.per_row == 0.0
    assert slope([0, 1], [1, 1]) is None
