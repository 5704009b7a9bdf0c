"""Figures that were changed after they were recorded are found, and those that were not are not."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest
from written_reports import Recorded

from vectrial.analysis import audit
from vectrial.analysis.run_data import RunData, load
from vectrial.analysis.trial import PhaseResult, Value
from vectrial.report.sections import provenance
from vectrial.report.sections import warnings as cautions
from vectrial.results.database import DATABASE

SEARCHES = "select phase_id from metric where name = 'recall_mean' order by phase_id"


def changed(recorded: Recorded, folder: Path, *statements: str) -> list[str]:
    """What is doubted where somebody has changed the figures of a run's first search."""
    shutil.copytree(recorded.folder, folder)
    with duckdb.connect(folder / DATABASE) as db:
        first, second, *_ = (row[0] for row in db.execute(SEARCHES).fetchall())
        for statement in statements:
            db.execute(statement.format(first=first, second=second))
    run = load(folder)
    doubts = audit.doubts(run.trials, run.histograms)
    said = " ".join(cautions.warnings(run))
    assert ("other recorded values" in said) == bool(doubts)
    return [doubt.why for doubt in doubts]


@pytest.mark.slow
def test_what_was_recorded_is_believed(recorded: Recorded) -> None:
    assert audit.doubts(recorded.run.trials, recorded.run.histograms) == []


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("update metric set value = value * 1.1 where name = 'latency_p99' and phase_id = {first}",
         "was recorded as"),
        ("update metric set value = value * 2 where name = 'qps' and phase_id = {first}",
         "more than can be"),
        ("update metric set value = value / 10 where name = 'qps' and phase_id = {first}",
         "s are"),
        ("update metric set value = value * 2 where name = 'count' and phase_id = {first}",
         "were recorded"),
        ("update metric set value = value / 1e3 where name = 'latency_max' and phase_id = {first}",
         "above latency_max"),
        ("update metric set value = 1.2 where name = 'recall_mean' and phase_id = {first}",
         "no share"),
        ("update metric set value = value / 2 where name = 'ready_s'", "its parts are"),
        ("update metric set value = value / 9 where name = 'disk_bytes'", "of the raw vectors"),
    ],
)  # fmt: skip
def test_a_changed_figure_is_found(
    statement: str, says: str, recorded: Recorded, tmp_path: Path
) -> None:
    assert any(says in why for why in changed(recorded, tmp_path / "run", statement))


@pytest.mark.parametrize(("loop", "doubted"), [("open", False), ("closed", True)])
def test_requests_that_wait_for_a_caller_are_none_too_many(loop: str, doubted: bool) -> None:
    """One caller of a library under a given load: 50 a second, each 30 ms after it was due."""
    told = {"qps": (50.0, "1/s"), "latency_mean": (30_000.0, "us"), "concurrency": (1.0, "1")}
    metrics = {name: Value(value, unit, True, None) for name, (value, unit) in told.items()}
    phase = PhaseResult(1, "search", {"loop": loop}, True, None, metrics)
    run = RunData(Path(), {}, (), (), {})
    assert bool(audit.of_phase(phase, run.histograms.get(phase.phase_id))) == doubted


def test_a_copied_row_is_found(recorded: Recorded, tmp_path: Path) -> None:
    copy = (
        "update metric set value = (select value from metric as other where other.name ="
        " metric.name and other.phase_id = {first}) where phase_id = {second}"
        " and name in ('qps', 'latency_mean')"
    )
    said = changed(recorded, tmp_path / "run", copy)
    assert any("to the last digit, those of" in why for why in said)


def test_the_report_lists_them(recorded: Recorded, tmp_path: Path) -> None:
    changed(recorded, tmp_path / "run", "update metric set value = 1.2 where name = 'recall_mean'")
    section = provenance.not_measured(load(tmp_path / "run"))
    assert section is not None
    (table,) = section.blocks
    assert any("doubtful search" in str(row) for row in table.rows)  # type: ignore[union-attr]
