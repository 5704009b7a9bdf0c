"""Longbow's page: what is asked beside its own figures, and by which method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from reproduction_runs import beside, measured, run_of, trial

from vectrial.experiments.filtered.experiment import Filtered
from vectrial.experiments.transport import Transport
from vectrial.gate.reading import PROBES
from vectrial.stores import registry
from vectrial.suite.model import Suite
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.planning import Settings, plan_parts

REPORT = REPRODUCTIONS["longbow"]
SEARCHED = {"qps": 100.0, "latency_p50": 9e3, "latency_p99": 1.2e4, "recall_mean": 1.0}


def suite(part: str, *, faithful: bool = False) -> Suite:
    flight = {"flight": registry.load("flight")}
    plans = plan_parts(REPORT, Settings(1.0, faithful=faithful), flight)
    (found,) = [plan.suite for plan in plans if plan.part.name == part]
    assert found is not None
    return found


def asked(part: str, *, faithful: bool = False) -> Mapping[str, Any]:
    (ref,) = suite(part, faithful=faithful).experiments
    return ref.parameters()


@pytest.mark.parametrize("part", ["put-128-reference", "put-384-reference"])
def test_rows_of_every_size_are_put_and_read_out_at_both_dimensions(part: str) -> None:
    ours = Transport.model_validate(asked(part))
    assert ours.sizes == (3_000, 10_000, 15_000, 50_000)
    assert ours.min_s > 0, "one read of some milliseconds is no rate"
    assert Transport.model_validate(asked(part, faithful=True)).min_s == 0, "theirs is one"


def test_an_index_that_is_built_is_put_into_and_compared_with_nothing() -> None:
    """Trap 002-2: acknowledged and indexed do not differ where nothing is built."""
    assert [ref.index for ref in suite("put-128-reference").stores] == ["flat"]
    assert [ref.index for ref in suite("put-128-graph").stores] == ["hnsw"]
    assert Transport.model_validate(asked("put-128-graph")).sizes == (3_000, 10_000)
    told = {"clients": 1}
    run = run_of(trial("flight", "flat", "transport", [("put", told, {"rows_per_s": 5e5})], 50_000))
    assert (
        beside("longbow", "put-128-reference", run, "put_rows", rows=50_000, dim=128).measured
        == 5e5
    )


def test_filters_differ_and_answers_are_looked_at() -> None:
    """Trap 002-4: theirs is the same in every query; only --faithful repeats that."""
    ours = Filtered.model_validate(asked("search-reference"))
    assert ours.predicates == ("independent",)
    assert ours.pivots == 64
    assert ours.checks >= 100
    theirs = Filtered.model_validate(asked("search-reference", faithful=True))
    assert (theirs.predicates, theirs.checks) == (("column",), 0)


@pytest.mark.parametrize(
    ("predicate", "more", "said"),
    [
        ("independent", {"pivots": 64}, "64 different filters, each for some of the queries"),
        ("column", {"filter": "{}"}, "one filter for all queries"),
    ],
)
def test_a_filtered_figure_says_which_filters_it_is_of(
    predicate: str, more: Mapping[str, Any], said: str
) -> None:
    told = {"predicate": predicate, "selectivity": 0.1, "payload_index": "fixed", "k": 10, **more}
    run = measured("flight", "flat", "filtered", "search", told, SEARCHED, 100_000)
    cell = beside("longbow", "search-reference", run, "qps", filter=True)
    assert cell.measured == 100
    ours = [note for note in cell.notes if not note.startswith("as published")]
    assert [note for note in ours if "filter" in note] == [said]
    assert "a tenth, theirs is not stated" in cell.note


def test_what_the_gate_asks_before_the_clock_is_said() -> None:
    """It asks its queries of the store that is searched afterwards."""
    assert PROBES == 50
    (said,) = [note.ours for note in REPORT.notes if note.about == "queries"]
    assert "has asked the first fifty before the clock" in said
    assert not any("none before the clock" in note.ours for note in REPORT.notes)
