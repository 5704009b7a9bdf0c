"""What a cell says besides its figures: each sentence where it is true, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from reproduction_runs import beside, every, measured, run_of, trial

from vectrial.model.trial import CheckResult
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.collect import cells
from vectrial_reproduce.reports.inconsistencies import inconsistencies

MILLION = 1_000_000
DELETED = {"latency_p50": 5e6, "count": 2.0}


def deleted(reason: str | None = None, count: float = 2.0) -> Any:
    metrics = {**DELETED, "count": count}
    run = measured("docarray-sqlite", "flat", "crud", "delete", {}, metrics, MILLION, reason=reason)
    return beside("docarray-sift1m", "sift", run, "delete", of="SQLite")


def test_what_a_valid_phase_says_of_itself_is_said() -> None:
    cell = deleted("stopped after 10 s with 2 of 300 samples")
    assert cell.valid
    assert "stopped after 10 s with 2 of 300 samples" in cell.notes
    assert not [note for note in cell.notes if note.endswith(" samples") and note[0] == "2"]


@pytest.mark.parametrize(("count", "said"), [(2.0, True), (300.0, False)])
def test_few_samples_are_told(count: float, said: bool) -> None:
    assert (f"{count:.0f} samples" in deleted(count=count).notes) is said


def test_what_differs_in_one_metric_is_said_of_that_metric_alone() -> None:
    """Trap: a delete that writes the order of all rows was said beside the recall, too."""
    for store, published, sentence in (
        ("docarray-memory", "In-Memory", "numbers all rows anew"),
        ("docarray-sqlite", "SQLite", "writes the order of all rows"),
    ):
        run = run_of(
            trial(store, "flat", "crud", [("delete", {}, DELETED)], MILLION),
            trial(
                store, "flat", "search",
                [("search", {"k": 10}, {"recall_mean": 1.0, "count": 100.0})], MILLION,
            ),
        )  # fmt: skip
        told = {
            metric: beside("docarray-sift1m", "sift", run, metric, of=published)
            for metric in ("delete", "recall")
        }
        assert sentence in told["delete"].note
        assert told["recall"].measured == 1
        assert sentence not in told["recall"].note


SEARCHED = {"qps": 100.0, "latency_p50": 9e3, "latency_p99": 1.2e4, "recall_mean": 0.7}
UNFILTERED = {"predicate": "none", "selectivity": 1.0, "payload_index": "on", "k": 10}


def searched(rows: int = 20_000) -> Any:
    run = measured("flight", "flat", "filtered", "search", UNFILTERED, SEARCHED, rows)
    return beside("longbow", "search-reference", run, "qps", filter=False)


def test_recall_is_what_was_measured_and_not_what_was_expected() -> None:
    cell = searched()
    assert "recall here: 0.7000" in cell.notes
    assert "recall 1" not in cell.note


def test_what_was_published_says_so() -> None:
    """Their trap is not taken for our reason."""
    cell = searched()
    assert "as published: recall not measured" in cell.notes
    nothing = cells(REPRODUCTIONS["longbow"], {}, known=())
    hybrid = [cell for cell in nothing if cell.figure.metric == "hybrid_latency_p99"]
    assert hybrid
    for cell in hybrid:
        why, *published = cell.notes
        assert why == cell.why
        assert all(note.startswith("as published: ") for note in published)


def test_every_doubt_is_a_note_of_its_own() -> None:
    report = "milvus-weaviate"
    for cell, why in zip(
        cells(REPRODUCTIONS[report], {}, known=()), inconsistencies(report), strict=True
    ):
        said = [note for note in cell.notes if note.startswith("doubtful as published: ")]
        assert len(said) == len(why)


@pytest.mark.parametrize(("of", "said"), [("indexes", False), ("both", True)])
def test_the_overhead_of_columns_with_their_indexes_is_not_that_of_indexes(
    of: str, said: bool
) -> None:
    run = measured(
        "weaviate", "hnsw", "ingest", "overhead", {"of": of},
        {"ready_overhead": 0.5}, 105_100,
    )  # fmt: skip
    cell = beside("milvus-weaviate", "hnm-columns", run, "overhead", of="Weaviate")
    assert cell.measured == 50
    assert ("columns together with their indexes" in cell.note) is said


def test_a_load_without_indexes_is_compared_on_either_store() -> None:
    for store, published in (("milvus", "Milvus"), ("weaviate", "Weaviate")):
        arms = [
            ("arm", {"payload_index": arm}, {"ready_s": ready})
            for arm, ready in (("none", 7.0), ("off", 8.0), ("on", 9.0))
        ]
        run = run_of(trial(store, "hnsw", "ingest", arms, 105_100))
        for indexed, ready in ((False, 8), (True, 9)):
            cell = beside(
                "milvus-weaviate", "hnm-columns", run, "ingest_time", of=published, indexed=indexed
            )
            assert cell.measured == ready


def test_who_filters_by_no_column_without_an_index_has_nothing_there_and_says_why() -> None:
    told = {"selectivity": "own", "predicate": "own", "payload_index": "on", "k": 25}
    run = measured("weaviate", "hnsw", "filtered", "search", told, {"qps": 90.0}, 105_100)
    having, without = (
        beside("milvus-weaviate", "hnm-filtered", run, "qps", of="Weaviate", indexed=indexed)
        for indexed in (True, False)
    )
    assert having.measured == 90
    assert without.measured is None
    assert "no column without an index" in without.why


def test_what_a_run_did_not_come_to_is_no_lack_of_the_store() -> None:
    run = run_of(trial("milvus", "hnsw", "crud", [], 105_100))
    cell = beside("milvus-weaviate", "hnm-columns", run, "ingest_time", of="Milvus", indexed=False)
    assert cell.why == "skipped: not measured in this run"


def test_fixed_seconds_are_told_of_where_fewer_rows_were_loaded() -> None:
    told = []
    for rows in (1_183_514, 118_351):
        took = {"ready_s": 62.0, "build_s": 30.0, "wait_s": 5.0, "first_search_s": 2.0}
        run = measured("milvus", "hnsw", "ingest", "ingest", {}, took, rows)
        cell = beside(
            "milvus-weaviate", "glove", run, "load_time",
            of="Milvus", dataset="glove-100-angular", rows=1_183_514,
        )  # fmt: skip
        told.append("fixed seconds" in cell.note)
    assert told == [False, True]


def repeated(*seconds: float) -> Any:
    """An ingest of so many repeats."""
    trials = [
        trial(
            "milvus", "hnsw", "ingest",
            [("ingest", {}, {"ready_s": whole + 2.0, "build_s": 30.0, "wait_s": 5.0 + at,
                             "load_s": 1.0, "flush_s": 1.0, "first_search_s": 2.0})],
            1_183_514, repeat=at + 1,
        )
        for at, whole in enumerate(seconds)
    ]  # fmt: skip
    return run_of(*trials)


def test_the_median_of_repeats_has_what_lies_around_it() -> None:
    cell = beside(
        "milvus-weaviate", "glove", repeated(60.0, 90.0, 66.0), "load_time",
        of="Milvus", dataset="glove-100-angular", rows=1_183_514,
    )  # fmt: skip
    assert cell.spread is not None
    # Less what each repeat built and waited: 25, 54 and 29 s.
    assert cell.measured == pytest.approx(29.0)
    assert (cell.spread.n, cell.spread.low, cell.spread.high) == (3, 25.0, 54.0)


def test_a_build_that_fails_the_gate_leaves_other_builds_alone() -> None:
    """The gate runs after every load: what m = 16 answered says nothing of m = 32."""
    wrong = [CheckResult("recall", False, "0.31, at least 0.9", "", "everything", True)]
    trials = [
        trial(
            "weaviate", "hnsw", "search",
            [("search", {"k": 10, "ef_search": 64}, {"recall_mean": 0.9, "count": 99.0})],
            MILLION, built={"m": m, "ef_construction": 64}, gate=gate, repeat=at,
        )
        for at, (m, gate) in enumerate(((16, wrong), (32, ())))
    ]  # fmt: skip
    bad, good = (
        beside(
            "docarray-sift1m", "sift", run_of(*trials), "recall",
            of="Weaviate", m=m, ef_construction=64, ef_search=64,
        )
        for m in (16, 32)
    )  # fmt: skip
    assert (bad.valid, good.valid) == (False, True)
    assert "0.31" in bad.why
    assert "0.31" not in good.note


def test_what_stands_for_a_system_is_known_of_what_was_measured_alone() -> None:
    found = every("docarray-sift1m", "sift", run_of(
        trial("docarray-memory", "flat", "crud", [("delete", {}, DELETED)], MILLION),
    ))  # fmt: skip
    assert {cell.here for cell in found if cell.measured is not None} == {"DocArray 0.21"}
    assert {cell.here for cell in found if cell.measured is None} == {""}
