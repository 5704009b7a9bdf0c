"""The budget of lines: what counts, and what is said of a part that has too many."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
import budget


def test_every_file_of_a_package_counts_once() -> None:
    names = [
        "vectrial",
        "vectrial_datasets",
        "vectrial_ray",
        "vectrial_reproduce",
        "vectrial_web",
    ]
    assert [package.name for package in budget.packages()] == names
    for package in budget.packages():
        whole = sum(len(path.read_bytes().splitlines()) for path in package.rglob("*.py"))
        place = package.relative_to(budget.ROOT).as_posix()
        lines = budget.lines().items()
        assert sum(n for part, n in lines if f"{part}/".startswith(f"{place}/")) == whole


def test_a_part_with_too_many_lines_is_named_with_the_remedy() -> None:
    (over,) = budget.faults({"tests": 110, "bench": 10}, {"tests": 100, "bench": 10})
    assert over.startswith("tests has 110 lines, 10 more than its budget: make something else")
    assert budget.faults({"new": 5}, {}) == [
        "new has 5 lines, 5 more than its budget: make something else shorter, or raise its number"
        " in budget.toml with a sentence why"
    ]
    assert budget.faults({}, {"gone": 5}) == ["gone is in budget.toml, and not here"]
