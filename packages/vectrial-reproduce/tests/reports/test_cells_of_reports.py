"""What stands beside a published figure, worked out by hand from figures that are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reproduction_runs import beside, measured, run_of, trial

from vectrial.analysis.trial import Trial
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.collect import cells

STEPS = {
    "load_s": 10.0, "flush_s": 4.0, "build_s": 30.0, "wait_s": 6.0, "first_search_s": 2.0,
    "ready_s": 52.0,
}  # fmt: skip
GLOVE = {"dataset": "glove-100-angular", "rows": 1_183_514}


@pytest.mark.parametrize(("metric", "seconds"), [("load_time", 14.0), ("index_time", 36.0)])
def test_load_is_until_flushed_and_index_what_comes_after(metric: str, seconds: float) -> None:
    """The report inserts and flushes, which is its load, and then makes the index and loads it. The
    first search is in neither."""
    run = measured("milvus", "hnsw", "ingest", "ingest", {}, STEPS, 1_183_514)
    cell = beside("milvus-weaviate", "glove", run, metric, **GLOVE)
    assert cell.measured == pytest.approx(seconds)
    assert cell.ratio == pytest.approx(seconds / cell.figure.value)


def test_what_cannot_be_subtracted_is_no_zero() -> None:
    lacking = {name: value for name, value in STEPS.items() if name != "flush_s"}
    run = measured("milvus", "hnsw", "ingest", "ingest", {}, lacking, 1_183_514)
    cell = beside("milvus-weaviate", "glove", run, "index_time", **GLOVE)
    assert cell.measured is None
    assert "flush_s" in cell.note


SEARCH = {"qps": 100.0, "latency_p50": 9_000.0, "latency_p99": 12_000.0}
UNFILTERED = {"predicate": "none", "selectivity": 1.0, "payload_index": "on", "k": 10}


def test_searches_that_compare_with_all_of_fewer_rows_are_compared_by_their_time_per_row() -> None:
    run = measured("flight", "flat", "filtered", "search", UNFILTERED, SEARCH, 20_000)
    asked = {"rows": 100_000, "filter": False}
    median = beside("longbow", "search-reference", run, "latency_p50", **asked)
    assert median.measured == pytest.approx(9.0)
    assert median.ratio == pytest.approx(9.0 * 5 / 14)
    rate = beside("longbow", "search-reference", run, "qps", **asked)
    assert rate.measured == 100
    assert rate.ratio == pytest.approx(100 / 5 / 62.1)
    assert "per row: a scan looks at every row" in rate.note


def test_searches_without_a_filter_are_of_the_load_that_was_searched_under_filters() -> None:
    """The same search differs 33-fold between two loads of one suite of Longbow."""

    def loaded(repeat: int, *searches: tuple[str, float, float]) -> Trial:
        phases = [
            ("search", {**UNFILTERED, "predicate": name, "selectivity": share}, {"qps": qps})
            for name, share, qps in searches
        ]
        return trial("longbow", "hnsw", "filtered", phases, 100_000, repeat=repeat)

    apart = loaded(1, ("none", 1.0, 695.0))
    phases = loaded(2, ("none", 1.0, 21.2), ("independent", 0.1, 19.0))
    numbered = tuple(
        replace(phase, phase_id=at, params={**phase.params, "load": "own"})
        for at, phase in enumerate(phases.phases, 10)
    )
    run = run_of(apart, replace(phases, phases=numbered, repeat=1))
    asked = {"rows": 100_000}
    without = beside("longbow", "search", run, "qps", filter=False, **asked)
    under = beside("longbow", "search", run, "qps", filter=True, **asked)
    assert (without.measured, under.measured) == (21.2, 19.0)
    assert "on another load of the same run: 695 queries/s" in without.notes


def test_a_figure_of_fewer_rows_has_what_was_measured_on_so_many() -> None:
    told = {"alpha": 0.5, "k": 10}
    found = {"latency_p99": 5_000.0, "fusion_agreement": 0.975}
    run = measured("flight", "flat", "hybrid", "search", told, found, 3_000)
    few, all_ = (
        beside(
            "longbow", "hybrid-128-reference", replace(run, rows=50_000), "hybrid_latency_p99",
            rows=rows, dim=128,
        )
        for rows in (3_000, 50_000)
    )  # fmt: skip
    assert few.measured == 5
    assert "agreement with an exact fusion here: 0.975" in few.note
    assert "rows were loaded" not in few.note
    assert all_.measured is None
    assert "not measured at these settings" in all_.note


def test_a_part_that_stands_in_for_another_store_says_nothing_of_the_rest() -> None:
    told = measured("redis", "hnsw", "search", "search", {"k": 10}, {"qps": 1.0}, 1000)
    every = cells(
        REPRODUCTIONS["docarray-sift1m"],
        {"sift": told, "sift-cosine": told},
        known={"qdrant", "redis", "redis-search"},
    )
    qdrant = [cell for cell in every if cell.figure.store == "Qdrant"]
    assert qdrant
    assert not any("not yet" in cell.note for cell in qdrant)


@pytest.mark.parametrize(("asked", "noted"), [("none", False), ("indexed", True)])
def test_what_a_store_does_under_filters_is_no_note_of_searches_without(
    asked: str, noted: bool
) -> None:
    where = {"none": UNFILTERED, "indexed": {**UNFILTERED, "selectivity": "own"}}[asked]
    point = {**where, "ef_search": 512, "k": 25}
    run = measured("milvus", "hnsw", "filtered", "search", point, SEARCH, 105_100)
    cell = beside("milvus-weaviate", "hnm-filtered", run, "qps", of="Milvus", filter=asked)
    assert cell.measured == 100
    assert ("under a filter its hnsw index may miss near rows" in cell.note) == noted


@pytest.mark.parametrize(
    ("store", "index", "of", "ratio"),
    [("docarray-memory", "flat", "In-Memory", True), ("weaviate", "hnsw", "Weaviate", False)],
)
def test_a_graph_of_fewer_rows_is_not_compared_per_row(
    store: str, index: str, of: str, ratio: bool
) -> None:
    built = {"m": 16, "ef_construction": 64} if index == "hnsw" else {}
    more = {"ef_search": 32, **built} if built else {}
    run = measured(store, index, "ingest", "ingest", {}, {"ready_s": 50.0}, 20_000, built=built)
    cell = beside("docarray-sift1m", "sift", run, "create", of=of, **more)
    assert cell.measured == 50
    expected = pytest.approx(50 / (cell.figure.value * 0.02)) if ratio else None
    assert cell.ratio == expected
    said = "per row: every row is appended once" if ratio else "no ratio: other numbers of rows"
    assert said in cell.note


@pytest.mark.parametrize("measured_share", [-0.087, 0.087])
def test_there_is_no_ratio_of_an_overhead_that_was_not_shown(measured_share: float) -> None:
    found = {"ready_overhead": measured_share}
    run = measured("weaviate", "hnsw", "ingest", "overhead", {"of": "indexes"}, found, 105_100)
    cell = beside("milvus-weaviate", "hnm-columns", run, "overhead", of="Weaviate")
    assert cell.measured == pytest.approx(100 * measured_share)
    assert (cell.ratio is None) == ("no ratio: no overhead shown" in cell.note)
    assert (cell.ratio is None) == (measured_share < 0)


@pytest.mark.parametrize(("count", "few"), [(1, True), (99, True), (100, False)])
def test_the_time_of_a_few_calls_is_no_evidence(count: int, few: bool) -> None:
    for mean_us in (1e3, 2e6):
        found = {"latency_p50": mean_us, "latency_mean": mean_us, "count": float(count)}
        run = measured("docarray-sqlite", "flat", "crud", "read", {}, found, 1_000_000)
        cell = beside("docarray-sift1m", "sift", run, "read", of="SQLite")
        assert cell.few_calls == (few and mean_us < 1e6)


def test_a_time_that_grows_with_the_square_of_the_rows_has_no_ratio_to_fewer() -> None:
    for rows, compared in ((10_000, False), (1_000_000, True)):
        run = measured("docarray-sqlite", "flat", "ingest", "ingest", {}, {"ready_s": 50.0}, rows)
        cell = beside("docarray-sift1m", "sift", run, "create", of="SQLite")
        assert cell.measured == 50
        assert (cell.ratio is not None) == compared
        assert ("no ratio: it counts all rows" in cell.note) == (not compared)
