"""What `vectrial reproduce` prints for a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_calls import call

from vectrial_reproduce.commands import reproduce
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.planning import PartPlan


def printed(*arguments: str) -> str:
    done = call(*arguments)
    assert done.code == 0, done.err
    return done.out


def test_reports_and_what_would_be_measured_of_them_can_be_piped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path))
    reports = [json.loads(line) for line in printed("reproduce", "-f", "jsonl").splitlines()]
    assert {one["report"] for one in reports} == set(REPRODUCTIONS)
    assert all(one["figures"] > 0 for one in reports)
    dry = ("reproduce", "docarray-sift1m", "--dry-run", "-f", "jsonl")
    plan = [json.loads(line) for line in printed(*dry).splitlines()]
    assert {one["kind"] for one in plan} <= {"trial", "skipped"}
    parts = {part.name for part in REPRODUCTIONS["docarray-sift1m"].parts}
    assert {one["part"] for one in plan} == parts
    assert {"docarray-memory", "qdrant", "weaviate"} & {one.get("store") for one in plan}
    report = REPRODUCTIONS["docarray-sift1m"]
    part = PartPlan(report.parts[0], "sift", 5, None)
    (told,) = reproduce._part_objects(report, part, None)
    assert (told["kind"], told["part"], told["rows"]) == ("skipped", report.parts[0].name, 5)
    assert "none of its stores" in told["reason"]
