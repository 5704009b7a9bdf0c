"""The table of what works on what is that of the code, and says what the planner says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.lane import Lane
from vectrial.stores import registry
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.matrix import _NEEDED, markdown, planned_experiments, support
from vectrial_reproduce.reports.model import NotYet

PAGE = Path(__file__).parents[4] / "docs" / "matrix.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), "make matrix"


def test_every_store_has_a_row_and_every_experiment_a_column() -> None:
    lines = markdown().splitlines()
    (head,) = [line for line in lines if line.startswith("| store |")]
    assert all(f"`{name}`" in head for name in (*EXPERIMENTS, *planned_experiments()))
    for name in registry.names():
        (row,) = [line for line in lines if line.startswith(f"| {name} |")]
        assert row.count("|") == head.count("|")


def test_what_is_not_yet_is_what_the_reports_have_and_nothing_here_measures() -> None:
    """Of each report's own reasons those that wait for an experiment, and no other."""
    assert planned_experiments() == {}, "every report is measured"
    one = REPRODUCTIONS["aistor-index"]
    asked = {"a": NotYet("is slow", "later"), "b": NotYet("says little"), "c": NotYet("", "hybrid")}
    assert planned_experiments([replace(one, not_yet=asked)]) == {"later": "is slow"}
    head = next(line for line in markdown().splitlines() if line.startswith("✓ works"))
    for name, why in planned_experiments().items():
        assert f"; `{name}`: {why}" in head


def test_what_is_not_supported_says_why() -> None:
    memory = registry.load("memory")
    assert support(memory, "search").whole
    refused = support(memory, "durability")
    assert refused.kinds == ()
    assert "nothing on disk" in refused.reason
    assert support(memory, "search").whole
    assert set(_NEEDED) <= set(EXPERIMENTS)


def test_what_another_lane_can_do_names_the_lane() -> None:
    """Redis' answers hold no vectors; its client fetches them by a second request."""
    found = support(registry.load("redis"), "anomaly")
    assert found.lane is Lane.SDK
    assert found.kinds
    assert "over the wire returns no vectors" in found.reason
    assert "through the lane sdk; a search over the wire" in markdown()
    assert support(registry.load("weaviate"), "anomaly").lane is None
