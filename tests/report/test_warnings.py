"""What bounds the figures of a run is said at its head."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recorded_trials import Change, changed
from written_reports import Written

from vectrial.analysis.analysis import facet_of
from vectrial.report.sections import warnings as cautions


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda _, name, value: 0.008 if name == "load_s" else value, "the shortest 8 ms"),
        (lambda _, name, value: 9 if name == "load_1m" else value, "machine was busy"),
        (
            lambda phase, name, value: 1 if (phase.name, name) == ("update", "count") else value,
            "crud rest on fewer than 10",
        ),
        (
            lambda phase, name, value: (
                value * 200 if name == "qps" and phase.params.get("ef_search") == 256 else value
            ),
            "ran faster than a setting with less work. The largest difference is ",
        ),
    ],
)
def test_what_a_run_itself_shows_is_said(change: Change, says: str, written: Written) -> None:
    assert not any(says in warning for warning in written.report.warnings)
    warnings = cautions.warnings(changed(written.run, change))
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
