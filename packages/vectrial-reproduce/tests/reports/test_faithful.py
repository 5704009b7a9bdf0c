"""What `--faithful` changes, that it changes nothing else, and that every method note says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from reproduction_runs import kinds, measured, run_of, trial

from vectrial.model.availability import Availability
from vectrial.stores import registry
from vectrial.suite.model import Suite
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.collect import ComparedFigure, cells
from vectrial_reproduce.reports.matching import MeasuredPart
from vectrial_reproduce.reports.planning import Settings, plan_parts
from vectrial_reproduce.reports.published import figures

#: Stores that call a system through the report's client.
THROUGH = {
    arm.store
    for report in REPRODUCTIONS.values()
    for part in report.parts
    for arm in part.arms
    if arm.through
}
MILLION = ("docarray-memory", "docarray-sqlite", "annlite", "qdrant", "weaviate", "elasticsearch")
TWICE = {"timed": "anomalies", "copies": 2}
#: What DocArray's benchmarks have in common: each query once.
ONCE = {"search": {"min_s": 0.0}}
#: What else is asked otherwise: part → experiment → store → setting.
OWN: Mapping[str, Mapping[str, Any]] = {
    "milvus-weaviate": {
        "arxiv": {"ingest": {"weaviate": {"batch_rows": 500}}},
        "hnm": {"ingest": {"weaviate": {"batch_rows": 100}}},
        "anomaly": {"anomaly": {"weaviate": TWICE, "milvus": TWICE}},
    },
    "docarray-sift1m": {
        "sift": {
            "ingest": {
                "qdrant": {"batch_rows": 65},
                "weaviate": {"batch_rows": 50},
                "redis-search": {"batch_rows": 64},
            },
            "condition": {"qdrant": {"indexed": [False]}},
        }
    },
    "docarray-1m": {
        part: {
            "ingest": {"qdrant": {"batch_rows": 9}},
            "condition": {
                name: {"client_scan": True}
                for name in ("annlite", "qdrant", "weaviate", "elasticsearch")
            },
            **{
                asks: {
                    "elasticsearch": {"search": {"ef_search": 10_000}},
                    "qdrant": {"search": {}},
                }
                for asks in ("crud", "search", "search")
            },
            "search": {
                **{name: {"min_s": 0.0} for name in MILLION},
                "elasticsearch": {"min_s": 0.0, "search": {"ef_search": 10_000}},
                "qdrant": {"min_s": 0.0, "search": {}},
            },
        }
        for part in ("same", "vendor")
    },
    "aistor-index": {},
}


@pytest.fixture(autouse=True)
def redis_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """What calls a system through the report's client cannot: it would be measured alone."""
    monkeypatch.setattr(
        registry, "availability", lambda store: Availability(store.name not in THROUGH, "")
    )


def suites(name: str, *, faithful: bool, stores: tuple[str, ...] = ()) -> dict[str, Suite]:
    plans = plan_parts(REPRODUCTIONS[name], Settings(0.01, stores, faithful=faithful), kinds())
    return {plan.part.name: plan.suite for plan in plans if plan.suite is not None}


def asked(suite: Suite) -> dict[tuple[str, str, int], Mapping[str, Any]]:
    """(experiment, store, which of several such) → the settings."""
    out, seen = {}, Counter[tuple[str, str]]()
    for ref in suite.experiments:
        stores = [one.store for one in suite.stores] if ref.stores is None else ref.stores
        assert set(stores) <= {one.store for one in suite.stores}
        for store in dict.fromkeys(stores):
            out[ref.experiment, store, seen[ref.experiment, store]] = ref.parameters()
            seen[ref.experiment, store] += 1
    return out


def otherwise(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of theirs that are not ours; None where they have none."""
    names = {n for n in {*ours, *theirs} if ours.get(n) != theirs.get(n)}
    return {name: theirs.get(name) for name in names}


@pytest.mark.parametrize("name", sorted(OWN))
def test_experiments_differ_in_exactly_what_the_report_did(name: str) -> None:
    ours, theirs = suites(name, faithful=False), suites(name, faithful=True)
    assert ours.keys() == theirs.keys()
    for part, suite in ours.items():
        before, after = asked(suite), asked(theirs[part])
        assert before.keys() == after.keys()
        assert not any(ref.stores for ref in suite.experiments)
        common = ONCE if name.startswith("docarray") else {}
        for key, settings in before.items():
            experiment, store, _ = key
            called = "" if store in THROUGH and experiment == "ingest" else store  # its own batches
            system = called.removeprefix("docarray-") if store in THROUGH else store
            own = OWN[name].get(part, {}).get(experiment, {}).get(system, {})
            if "payload_index" in settings:
                own = {}  # both arms of a comparison, in the same batches
            wanted = {**common.get(experiment, {}), **own}
            if settings.get("search", {}) == wanted.get("search"):
                wanted.pop("search")  # a default that is left to the server in both
            found = otherwise({"search": {}, **settings}, {"search": {}, **after[key]})
            assert found == wanted, (part, key)
        plain = {"experiments", "stores", "description", "order"}
        several = sum(ref.builds for ref in suite.stores) > 1 and max(suite.stores[0].sizes) == 1
        assert (suite.order, theirs[part].order) == ("turns" if several else "suite", "suite")
        assert theirs[part].model_dump(exclude=plain) == suite.model_dump(exclude=plain)


@pytest.mark.parametrize("name", sorted(OWN))
def test_stores_differ_in_the_lane_and_what_the_code_left_to_them(name: str) -> None:
    for (part, ours), theirs in zip(
        suites(name, faithful=False).items(), suites(name, faithful=True).values(), strict=True
    ):
        for one, other in zip(ours.stores, theirs.stores, strict=True):
            server = kinds()[one.store].kind == "server"
            assert (one.lane, other.lane) == (None, "sdk" if server else None)
            left = one.store == "weaviate" and part.startswith("hnm")
            assert other.params == ({} if left else one.params)
            lane = {"lane", "params"}
            assert other.model_dump(exclude=lane) == one.model_dump(exclude=lane)


def test_of_one_store_only_its_own_settings_are_asked() -> None:
    for store, rows in (("qdrant", 9), ("weaviate", None)):
        suite = suites("docarray-1m", faithful=True, stores=(store,))["same"]
        (ingest,) = [ref for ref in suite.experiments if ref.experiment == "ingest"]
        assert ingest.stores == ([store] if rows else None)
        assert ingest.parameters().get("batch_rows") == rows


def test_what_stands_in_for_redis_has_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "availability", lambda store: Availability(False, ""))
    found = asked(suites("docarray-sift1m", faithful=True)["sift-cosine"])
    assert found["ingest", "redis", 0]["batch_rows"] == 64


@pytest.mark.parametrize("name", sorted(REPRODUCTIONS))
def test_every_note_says_what_is_done_about_it(name: str) -> None:
    assert [note.about for note in REPRODUCTIONS[name].notes if not note.faithful] == []


def shown(run: MeasuredPart, part: str, metric: str, *, faithful: bool) -> ComparedFigure:
    """Elasticsearch's cell of the report of a million rows."""
    found = cells(
        REPRODUCTIONS["docarray-1m"], {part: run}, known=["elasticsearch"], faithful=faithful
    )
    (one,) = [
        cell
        for cell, figure in zip(found, figures("docarray-1m"), strict=True)
        if (figure.store, figure.metric, figure.params.get("settings"))
        == ("ElasticSearch", metric, part)
        and figure.experiment == "crud"
    ]
    return one


BUILT = {"m": 16, "ef_construction": 100}


def test_a_condition_is_that_of_the_client_who_read_every_row() -> None:
    about = {"condition": "one row", "payload_index": "on"}
    run = run_of(
        trial(
            "elasticsearch", "hnsw", "condition",
            [
                ("find", {**about, "by": "store"}, {"latency_p50": 1e3, "latency_mean": 2e3}),
                ("client_scan", {**about, "by": "client"},
                 {"latency_p50": 6.6e6, "latency_mean": 6.56e6}),
            ],
            10_000, built=BUILT,
        )
    )  # fmt: skip
    by_store = shown(run, "same", "find_by_condition", faithful=False)
    by_client = shown(run, "same", "find_by_condition", faithful=True)
    assert by_store.measured == pytest.approx(0.001)
    assert by_client.measured == pytest.approx(6.56)
    assert by_client.ratio == pytest.approx(6.56 / 656 * 100), "it grows with the rows"


def test_a_store_that_does_not_read_out_its_rows_has_no_value_by_the_reports_method() -> None:
    """What the server finds by itself does not stand for it."""
    about = {"condition": "one row", "payload_index": "on", "by": "store"}
    run = measured(
        "elasticsearch", "hnsw", "condition", "find", about,
        {"latency_p50": 1e3, "latency_mean": 2e3}, 1_000_000, built=BUILT,
    )  # fmt: skip
    theirs = shown(run, "same", "find_by_condition", faithful=True)
    assert theirs.measured is None
    assert "this store does not read out its rows" in theirs.why
    ours = shown(run, "same", "find_by_condition", faithful=False)
    assert (ours.measured, ours.ratio) == (0.001, None)
    assert "no ratio: theirs read every document in the client" in ours.note


def test_ten_thousand_candidates_stand_in_the_row_of_a_published_ef_of_100() -> None:
    run = measured(
        "elasticsearch", "hnsw", "search", "search", {"k": 10, "ef_search": 10_000},
        {"recall_mean": 0.9}, 10_000, built=BUILT,
    )  # fmt: skip
    assert shown(run, "same", "recall", faithful=False).measured is None
    assert shown(run, "same", "recall", faithful=True).measured == 0.9


def test_what_differs_in_our_method_alone_is_not_said_of_theirs() -> None:
    """Until the last acknowledgement nothing was merged."""
    took = {"ready_s": 60.0, "load_s": 20.0}
    run = measured("elasticsearch", "hnsw", "ingest", "ingest", {}, took, 10_000, built=BUILT)
    ours = shown(run, "same", "create", faithful=False)
    theirs = shown(run, "same", "create", faithful=True)
    assert (ours.measured, theirs.measured) == (60.0, 20.0)
    assert "merging its segments" in ours.note
    assert "merging its segments" not in theirs.note
