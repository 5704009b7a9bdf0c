"""What stores lie about their rows is caught, or can be seen where a reader looks."""

from __future__ import annotations

import pytest
import rows

from run import Run, measure

INGEST = {"experiment": "ingest", "checkpoints": [1.0], "probes": 0}


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Loads of stores that are not as ready as they say, and of an honest one."""
    kinds = (rows.Honest, rows.BuildsAtFirstSearch, rows.SlowWhenCold)
    return measure(kinds, [INGEST], tmp_path_factory.mktemp("loads"))


def test_an_index_that_the_first_search_builds_is_built_before_the_store_is_ready(
    loads: Run,
) -> None:
    total = loads.phase(rows.BuildsAtFirstSearch, "ingest", "ingest").metrics
    built = rows.BuildsAtFirstSearch.build_s
    assert (total["first_search_s"] or 0) >= built
    assert (total["ready_s"] or 0) >= built
    assert "first search" in loads.text


def test_cold_searches_are_kept_and_shown(loads: Run) -> None:
    cold = loads.phase(rows.SlowWhenCold, "ingest", "cold_searches").metrics
    assert (cold["cold_count"] or 0) > 50
    for name in ("cold_first", "cold_p50", "cold_max"):
        assert (cold[name] or 0) >= rows.SlowWhenCold.pause_s * 1e6
    assert "First searches, cold" in loads.text


def test_an_honest_load_counts(loads: Run) -> None:
    trial = loads.trial(rows.Honest, "ingest")
    assert (trial.status, trial.reason) == ("ok", None)
    assert all(phase.valid for phase in trial.phases)
