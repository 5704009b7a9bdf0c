"""Experiments of earlier versions: suites name their successors, runs are read as theirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from compared_runs import Made
from test_plan import SUITE, plan_of

from vectrial.analysis.run_data import load
from vectrial.experiments.registry import EXPERIMENTS, replacement
from vectrial.model.errors import UserError
from vectrial.model.results_schema import RENAMED
from vectrial.suite.model import parse_suite


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_suite_with_the_old_name_is_told_the_lines_that_do_the_same(old: str, new: str) -> None:
    with pytest.raises(UserError, match=f"'{old}' is not an experiment") as refused:
        plan_of(SUITE.replace('"crud"', f'"{old}"'))
    assert refused.value.remedy == replacement(old)
    lines = (refused.value.remedy or "").replace(", ", "\n", 1)
    suite = SUITE[: SUITE.index("[[experiments]]")] + "[[experiments]]\n" + lines
    (ref,) = parse_suite(suite, "t.toml").experiments
    assert ref.experiment == new
    EXPERIMENTS[new].model_validate(ref.parameters())


def test_every_old_name_of_a_suite_is_one_of_a_run() -> None:
    kinds = EXPERIMENTS.working()[0].values()
    assert {old: kind.name for kind in kinds for old in kind.replaces} == RENAMED


def test_a_run_of_an_earlier_version_has_the_names_of_today(tmp_path: Path) -> None:
    made = Made()
    made.trial(experiment="footprint", phase="footprint", metrics={"disk_bytes": 5.0})
    (point,) = load(made.write(tmp_path / "run")).select("storage")
    assert (point.phase, point.value("disk_bytes")) == ("footprint", 5.0)
