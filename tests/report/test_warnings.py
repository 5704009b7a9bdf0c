"""What bounds the figures of a run is said at its head."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from written_reports import Written

from vectrial.analysis.analysis import facet_of
from vectrial.analysis.run_data import load
from vectrial.report.sections import warnings as cautions
from vectrial.results.database import DATABASE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("update metric set value = 0.008 where name = 'load_s'", "the shortest 8 ms"),
        ("update metric set value = 9 where name = 'load_1m'", "machine was busy"),
        ("update metric set value = 1 where name = 'count' and phase_id in"
         " (select phase_id from phase where name = 'update')", "crud rest on fewer than 10"),
        ("update metric set value = value * 200 where name = 'qps' and phase_id in (select phase_id"
         " from phase where name = 'search' and params like '%\"ef_search\": 256%')",
         "ran faster than a setting with less work. The largest difference is "),
    ],
)  # fmt: skip
def test_what_a_run_itself_shows_is_said(
    statement: str, says: str, written: Written, tmp_path: Path
) -> None:
    assert not any(says in warning for warning in written.report.warnings)
    shutil.copytree(written.folder, tmp_path / "run")
    with duckdb.connect(tmp_path / "run" / DATABASE) as db:
        db.execute(statement)
    warnings = cautions.warnings(load(tmp_path / "run"))
    assert any(says in warning for warning in warnings), warnings


@pytest.mark.parametrize(
    ("fact", "says"),
    [
        ({"memory": {"swap_used_bytes": 3 << 30}}, "swapped out 3.22 GB"),
        (
            {"resumed_at_revisions": ["abc", "def"]},
            "more than one Vectrial revision: resumed at abc",
        ),
        ({"git": {"dirty": True}}, "uncommitted changes to Vectrial"),
    ],
)
def test_what_the_machine_and_the_code_were(
    fact: dict[str, object], says: str, written: Written
) -> None:
    run = {**written.run.run, "environment": {**written.run.run["environment"], **fact}}
    assert not any(says in warning for warning in written.report.warnings)
    warnings = cautions.warnings(replace(written.run, run=run))
    assert any(says in warning for warning in warnings), warnings


def test_other_ks_stand_on_other_sheets(written: Written) -> None:
    """Trap 000-5: k = 100 beside k = 10."""
    (point, *_) = written.run.select("search")
    many = replace(point, params={**point.params, "k": 100})
    assert facet_of(point, with_k=True) != facet_of(many, with_k=True)
