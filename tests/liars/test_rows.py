"""What stores lie about their rows is caught, or can be seen where a reader looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import rows

from run import Run, measure
from vectrial.experiments.common import visibility
from vectrial.experiments.common.readiness import COLD_S, COLD_SEARCHES
from vectrial.gate import contents
from vectrial.stores.memory import MemoryStore
from vectrial.stores.sqlite.store import SqliteStore

pytestmark = pytest.mark.slow  # a whole run for each store that lies

#: One row more than the gate's own small store has.
DATA = {"name": "clustered-16-3k", "queries": 50}
SWEEP = {"experiment": "search", "min_s": 0.1, "warmup_queries": 10}
CRUD = {"experiment": "crud", "samples": 300}
INGEST = {"experiment": "ingest", "checkpoints": [1.0], "probes": 0}


@pytest.fixture(autouse=True, scope="module")
def patience() -> Iterator[None]:
    """A busy machine gets through as many rows as an idle one."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SCAN_S", "READ_S", "SEARCH_S"):
            patch.setattr(contents, name, 60.0)
        patch.setattr(visibility, "BUDGET_S", 60.0)
        yield


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Searches of stores that lack rows, and of an honest one."""
    kinds = (
        rows.Honest,
        rows.Drops,
        rows.DropsAndCounts,
        rows.NotIndexed,
        rows.LosesSome,
        rows.WritesElsewhere,
    )
    asked = [SWEEP, INGEST, {"experiment": "storage"}]
    return measure(kinds, asked, tmp_path_factory.mktemp("kept"), dataset=DATA)


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (rows.Drops, "row_count"),
        (rows.DropsAndCounts, "all_rows_kept"),
        (rows.NotIndexed, "rows_found_by_search"),
    ],
)
def test_one_row_in_a_thousand_is_missed(kept: Run, kind: type[MemoryStore], check: str) -> None:
    trials = kept.of(kind)
    assert trials
    for trial in trials:
        assert trial.status == "invalid"
        assert check in (trial.reason or "")


def test_rows_that_an_index_may_lose_are_told(kept: Run) -> None:
    sweep = kept.trial(rows.LosesSome, "search")
    (said,) = [one.detail for one in sweep.gate if one.name == "rows_found_by_search"]
    assert "2,750 of 3,000 rows drawn at random are found" in said
    assert (sweep.phases[0].metrics["recall_mean"] or 1) < 0.95
    assert "loses-some" not in kept.headlines()["Fastest at recall ≥ 0.95"]


def test_bytes_that_are_elsewhere_are_smallest_in_no_headline(kept: Run) -> None:
    assert (kept.phase(rows.WritesElsewhere, "storage").metrics["disk_bytes"] or 0) < 9000
    assert "writes-elsewhere" not in kept.headlines().get("Smallest on disk", "")
    assert "of the bytes of the raw vectors on disk" in kept.text


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Single operations on stores that lose changes, and on an honest one."""
    kinds = (
        rows.Honest,
        rows.DropsChanges,
        rows.ShowsDeleted,
        rows.ShowsDeletedInMain,
        rows.UpdatesNotIndexed,
        rows.FewUpdatesNotIndexed,
    )
    return measure(kinds, [CRUD], tmp_path_factory.mktemp("changed"), dataset=DATA)


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        (rows.DropsChanges, "update", "3 of 300 were acknowledged without their effect"),
        (rows.DropsChanges, "delete", "3 of 300 were acknowledged without their effect"),
        (rows.ShowsDeleted, "delete", "are still named by searches"),
        (rows.ShowsDeletedInMain, "delete", "are still named by searches"),
        (rows.UpdatesNotIndexed, "update", "300 of 300 rows looked for are not found"),
        (rows.FewUpdatesNotIndexed, "update", "rows looked for are not found"),
        (rows.FewUpdatesNotIndexed, "update", "are still found at their old place"),
    ],
)
def test_a_change_that_searches_do_not_see_has_no_valid_figure(
    changed: Run, kind: type[MemoryStore], wrong: str, says: str
) -> None:
    phase = changed.phase(kind, "crud", wrong)
    assert not phase.valid
    assert says in (phase.reason or "")


def test_deleted_rows_are_found_by_the_gate_too(changed: Run) -> None:
    assert "deleted_rows_gone" in (changed.trial(rows.ShowsDeleted, "crud").reason or "")


def test_honest_rows_pass_everything(kept: Run, changed: Run) -> None:
    trials = [*kept.of(rows.Honest), *changed.of(rows.Honest)]
    assert [(trial.status, trial.reason) for trial in trials] == [("ok", None)] * 4
    assert all(phase.valid for trial in trials for phase in trial.phases)
    update = changed.phase(rows.Honest, "crud", "update").metrics
    assert (update["checked_by_search"], update["wrong_by_search"]) == (300, 0)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Rows after a crash, of a store that keeps none, and of honest ones."""
    kinds = (rows.KeepsNothing, rows.KeepsEverything, SqliteStore)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(rows.__file__).parent))  # of the process that writes
        crash = {"experiment": "durability", "rows": 200, "count": 1, "most_s": 0.5, "window_s": 1}
        # The gate asks SQLite, which scans its rows, a thousand times after a load.
        load = {**INGEST, "stores": [rows.KeepsNothing.name, rows.KeepsEverything.name]}
        few = {"rows": 500}
        return measure(kinds, [crash, load], tmp_path_factory.mktemp("crashed"), dataset=few)


def test_a_store_that_keeps_nothing_does_not_pass_as_synced(crashed: Run) -> None:
    phase = crashed.phase(rows.KeepsNothing, "durability")
    assert phase.params["verdict"] == "broken"
    assert (phase.metrics["lost_rows"] or 0) > 0


def test_a_promise_that_nobody_tried_is_told_as_one(crashed: Run, loads: Run) -> None:
    assert "synced (kept through 1 × kill)" in crashed.text
    assert "synced (broken in 1 × kill)" in crashed.text
    assert "synced (declared, not tried)" in loads.text


def test_honest_stores_keep_what_they_promise(crashed: Run) -> None:
    synced = crashed.phase(rows.KeepsEverything, "durability")
    flushed = crashed.phase(SqliteStore, "durability")
    assert synced.params["verdict"] == flushed.params["verdict"] == "kept"
    assert (synced.metrics["acknowledged_rows"] or 0) > 0
    assert synced.metrics["unpromised_rows"] == 0


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Loads of stores that are not as ready as they say, and of an honest one."""
    kinds = (rows.Honest, rows.BuildsAtFirstSearch, rows.SlowWhenCold, rows.KeepsNothing)
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
    phase = loads.phase(rows.SlowWhenCold, "ingest", "cold_searches")
    cold, took_s = phase.metrics, (phase.ended_ns - phase.started_ns) / 1e9
    count = cold["cold_count"] or 0
    assert count == COLD_SEARCHES or (count >= 2 and took_s > COLD_S), "a busy machine has fewer"
    for name in ("cold_first", "cold_p50", "cold_max"):
        assert (cold[name] or 0) >= rows.SlowWhenCold.pause_s * 1e6
    assert "First searches, cold" in loads.text


def test_an_honest_load_counts(loads: Run) -> None:
    trial = loads.trial(rows.Honest, "ingest")
    assert (trial.status, trial.reason) == ("ok", None)
    assert all(phase.valid for phase in trial.phases)
