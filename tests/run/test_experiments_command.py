"""`vectrial experiments` names every experiment and every parameter a suite may set."""

from __future__ import annotations

import json

import pytest
from small_suite import Vectrial

from vectrial.experiments.registry import EXPERIMENTS


@pytest.mark.slow
def test_every_experiment_with_every_parameter(vectrial: Vectrial) -> None:
    listed = vectrial("experiments", "--format", "jsonl")
    assert listed.returncode == 0, listed.stderr
    rows = {row["experiment"]: row for row in map(json.loads, listed.stdout.splitlines())}
    assert set(rows) == set(EXPERIMENTS)
    for name, kind in EXPERIMENTS.items():
        assert set(rows[name]["parameters"]) == set(kind.model_fields)
    assert rows["crud"]["parameters"]["samples"] == 1000
    table = vectrial("experiments")
    assert all(name in table.stdout for name in EXPERIMENTS)
