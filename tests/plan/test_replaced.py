"""Experiments of earlier versions: a suite that names one is told its successor."""

from __future__ import annotations

import pytest
from test_plan import SUITE, plan_of

from vectrial.experiments.base import Experiment
from vectrial.experiments.registry import EXPERIMENTS, replacement
from vectrial.model.errors import UserError
from vectrial.suite.model import parse_suite

REPLACED = [(old, kind) for kind in EXPERIMENTS.working()[0].values() for old in kind.replaces]


@pytest.mark.parametrize(("old", "new"), REPLACED, ids=[old for old, _ in REPLACED])
def test_a_suite_with_the_old_name_is_told_the_lines_that_do_the_same(
    old: str, new: type[Experiment]
) -> None:
    with pytest.raises(UserError, match=f"'{old}' is not an experiment") as refused:
        plan_of(SUITE.replace('"crud"', f'"{old}"'))
    assert refused.value.remedy == replacement(old)
    lines = (refused.value.remedy or "").replace(", ", "\n", 1)
    suite = SUITE[: SUITE.index("[[experiments]]")] + "[[experiments]]\n" + lines
    (ref,) = parse_suite(suite, "t.toml").experiments
    assert ref.experiment == new.name
    new.model_validate(ref.parameters())
