"""`vectrial experiments` names every experiment and every parameter a suite may set."""

from __future__ import annotations

import json

from small_suite import Inside

from vectrial.experiments.registry import EXPERIMENTS


def test_every_experiment_with_every_parameter(inside: Inside) -> None:
    listed = inside("experiments", "--format", "jsonl")
    assert listed.code == 0, listed.err
    rows = {row["experiment"]: row for row in map(json.loads, listed.out.splitlines())}
    assert set(rows) == set(EXPERIMENTS)
    for name, kind in EXPERIMENTS.items():
        assert set(rows[name]["parameters"]) == set(kind.model_fields)
    assert rows["crud"]["parameters"]["samples"] == 1000
    table = inside("experiments")
    assert all(name in table.out for name in EXPERIMENTS)
