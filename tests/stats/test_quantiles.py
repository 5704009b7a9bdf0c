"""Quantiles are given of samples that hold them, and of no fewer."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from run_contents import SOME_DATASET

from vectrial.model.phase import Phase
from vectrial.model.trial import TrialRow
from vectrial.results.reader import RunReader
from vectrial.results.writer import RunWriter, TrialRecord
from vectrial.stats.quantiles import (
    QUANTILES,
    highest_percentile,
    samples_needed,
    unsupported_quantiles,
    withhold_quantiles,
)


@pytest.mark.parametrize(
    ("quantile", "needs"), [(0.5, 5), (0.9, 29), (0.95, 59), (0.99, 299), (0.999, 2995)]
)
def test_the_largest_of_so_many_exceeds_a_quantile_as_often_as_is_said(
    quantile: float, needs: int
) -> None:
    assert samples_needed(quantile) == needs == samples_needed(1 - quantile)
    assert 1 - quantile**needs >= 0.95 > 1 - quantile ** (needs - 1)
    drawn = np.random.default_rng(1).random((4000, needs)).max(axis=1)
    assert (drawn >= quantile).mean() >= 0.94


@pytest.mark.parametrize("quantile", [0.0, 1.0, -1.0, math.nan])
def test_what_no_samples_bracket_is_refused(quantile: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        samples_needed(quantile)


def test_seventeen_requests_have_a_median_and_no_tail() -> None:
    figures: dict[str, float | None] = {name: 5.0 for name in QUANTILES if name[:7] == "latency"}
    assert unsupported_quantiles({**figures, "count": 17.0}) == {
        "latency_p90": "17 requests; p90 needs 29",
        "latency_p95": "17 requests; p95 needs 59",
        "latency_p99": "17 requests; p99 needs 299",
        "latency_p99_9": "17 requests; p99.9 needs 2,995",
    }
    assert unsupported_quantiles({**figures, "count": 2995.0}) == {}
    assert unsupported_quantiles({"latency_p50": 5.0, "count": 1.0}) == {
        "latency_p50": "1 request; p50 needs 5"
    }
    assert unsupported_quantiles(figures) == {}, "their number is not known"
    assert not unsupported_quantiles({"latency_p99": None, "count": 17.0}), "it has its own reason"


def test_latencies_of_a_load_are_of_batches_not_of_rows() -> None:
    load = {"latency_p50": 5.0, "count": 20_000.0, "batches": 2.0}
    assert unsupported_quantiles(load) == {"latency_p50": "2 requests; p50 needs 5"}


def test_a_lower_percentile_above_a_limit_says_as_much_of_a_higher_one() -> None:
    figures: dict[str, float | None] = {"latency_p50": 1.0, "latency_p90": 2.0, "latency_p99": None}
    assert highest_percentile(figures, 0.99) == ("p90", 2.0)
    assert highest_percentile({"latency_p99_9": 9.0}, 0.99) is None


def test_runs_of_earlier_versions_are_read_by_the_same_rule(tmp_path: Path) -> None:
    """They hold what this version does not write: both ways of saying the rule agree."""
    metrics: dict[str, float | None] = {
        **{name: 5.0 for name in QUANTILES if name.startswith("latency")},
        "service_p99": 4.0, "first_pass_p50": 3.0, "first_pass_count": 1.0, "errors": 2.0,
        "later_pass_p99": None, "later_pass_count": 2.0,
    }  # fmt: skip
    counted = [{"count": n} for n in (1.0, 17.0, 298.0, 299.0, 5000.0)]
    counts: list[dict[str, float]] = [{}, *counted, {"count": 5000.0, "batches": 3.0}]
    phases = []
    for nth, count in enumerate(counts):
        missing = {"later_pass_p99": "no query was asked twice"}
        window = {"second": [0], "count": [17], "errors": [0], "p50_us": [5.0], "p99_us": [5.0],
                  "max_us": [5.0], "recall": [1.0]}  # fmt: skip
        phases.append(
            Phase("search", 0, 10**9, {"nth": nth}, metrics | count, missing,
                  windows={"search": window})
        )  # fmt: skip
    row = TrialRow(
        key="one", store="faiss", lane="embedded", dataset="words", rows=10, dim=2,
        metric_space="l2", experiment="search", index_kind="hnsw", index_params={}, params={},
        repeat=1, seed=1,
    )  # fmt: skip
    with RunWriter(tmp_path / "run") as writer:
        writer.begin(suite_name="s", command="c", version="0", environment={})
        writer.dataset(SOME_DATASET)
        writer.trial(TrialRecord(row, "ok", phases=phases))
        writer.finish()
    with RunReader(tmp_path / "run") as reader:
        rows = reader.rows("select * from metric")
        (second,) = reader.rows('select distinct p50_us, p99_us from "window"')
    assert second == {"p50_us": 5.0, "p99_us": None}
    for phase_id, phase in enumerate(phases, 1):
        withhold_quantiles(phase)
        found = {row["name"]: row for row in rows if row["phase_id"] == phase_id}
        assert {name: row["value"] for name, row in found.items()} == phase.metrics
        assert {name: found[name]["reason"] for name in phase.missing} == phase.missing
        assert not any(found[name]["valid"] for name in phase.missing)
