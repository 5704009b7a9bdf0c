"""Each experiment measures what it says, and calls wrong what a store gets wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
from experiment_worlds import (
    ROWS,
    Frozen,
    Immortal,
    Refusing,
    by_name,
    dataset,
    run,
    target,
    without,
    world,
)  # fmt: skip
from numpy.typing import NDArray

from vectrial.experiments.common import disk_usage, generated_columns
from vectrial.experiments.common.payload_arms import overhead_phase
from vectrial.experiments.condition import Condition
from vectrial.experiments.ingest import experiment as ingest_experiment
from vectrial.experiments.ingest.experiment import Ingest
from vectrial.experiments.mixed import Mixed
from vectrial.experiments.registry import EXPERIMENTS, all_metrics
from vectrial.experiments.search import Search
from vectrial.experiments.storage.experiment import GrowingStorage, Storage
from vectrial.experiments.time_to_searchable.experiment import TimeToSearchable, _LoadWatch
from vectrial.experiments.transport import Transport
from vectrial.model.capabilities import Index, IndexKind, NoParams, Params
from vectrial.model.context import Data
from vectrial.model.errors import Unsupported
from vectrial.model.file_categories import FileKind
from vectrial.model.filters import OPERATORS, Filter, evaluate, fields
from vectrial.model.phase import Phase, State
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Hits, Searcher, Store
from vectrial.stores.common.arrow import batch_of
from vectrial.stores.memory import MemoryStore
from vectrial.stores.sqlite.store import SqliteStore
from vectrial.telemetry.disk import allocated_bytes, store_bytes_by_kind
from vectrial.workload.readback import read_back

FLAT = Index("flat", NoParams())


def by(phases: list[Phase], **params: object) -> Phase:
    (found,) = [p for p in phases if all(p.params.get(k) == v for k, v in params.items())]
    return found


def every(phases: list[Phase]) -> None:
    """All valid, and every metric one that the schema names."""
    assert [p.reason for p in phases if not p.valid] == []
    assert {name for p in phases for name in (*p.metrics, *p.missing)} <= all_metrics().keys()


def test_all_of_them_can_be_asked_for_in_a_suite() -> None:
    mine = (
        Condition, Transport, Search, Storage, Ingest, TimeToSearchable, Mixed,
    )  # fmt: skip
    assert {kind.name for kind in mine} <= EXPERIMENTS.keys()


# -- generated columns -------------------------------------------------------------------------


def test_generated_columns_are_the_same_every_time_and_keep_what_they_say() -> None:
    table = generated_columns.columns(5000, 24)
    assert table.equals(generated_columns.columns(5000, 24))
    assert table.num_columns == 24
    assert sorted(table.column("number").to_pylist()) == list(range(5000))
    asked = generated_columns.conditions(5000, 40, OPERATORS, table.column_names, 1)
    shares = {
        name: np.mean([evaluate(where, table).mean() for where in wheres])
        for name, wheres in asked.items()
    }
    assert shares["one row"] == pytest.approx(1 / 5000)
    assert shares["1 in 100"] == pytest.approx(0.01, rel=0.3)
    assert shares["1 in 10"] == pytest.approx(0.1)
    assert shares["1 in 100, by two"] == pytest.approx(0.01, rel=0.3)


def test_no_condition_is_asked_twice() -> None:
    """A second answer may come from a cache."""
    asked = generated_columns.conditions(
        5000, 200, OPERATORS, generated_columns.columns(5000).column_names, 1
    )
    for name, wheres in asked.items():
        assert len(set(wheres)) == len(wheres), name
        assert len(wheres) == (generated_columns.LABELS if name == "1 in 100" else 200)


def test_conditions_ask_only_what_the_store_has() -> None:
    asked = generated_columns.conditions(100, 3, {"eq"}, ("number", "flag"), 1)
    assert asked.keys() == {"one row"}


# -- condition ---------------------------------------------------------------------------------


ARMS = ("none", "off", "on")


class Forgetful(MemoryStore):
    """Finds one row fewer than there are."""

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        return super().find(where, limit)[1:]


def test_conditions_are_answered_by_the_store_and_by_the_client(tmp_path: Path) -> None:
    phases = run(Condition(samples=10, client_scan=True), SqliteStore, tmp_path)
    every(phases)
    arms = {p.params["payload_index"] for p in phases}
    assert arms == ({"on", "off"} if SqliteStore.capabilities.payload_index else {"fixed"})
    assert {p.params["by"] for p in phases} == {"store", "client"}
    assert by(phases, by="client", condition="one row", payload_index=min(arms)).metrics["count"]


def test_only_what_is_wanted_is_asked(tmp_path: Path) -> None:
    asked = Condition(samples=4, indexed=(True,), only=("one row",))
    phases = run(asked, SqliteStore, tmp_path)
    every(phases)
    arm = "on" if SqliteStore.capabilities.payload_index else "fixed"
    assert [(p.params["condition"], p.params["payload_index"]) for p in phases] == [
        ("one row", arm)
    ]


class Finding(SqliteStore):
    """Notes every condition that it is asked, and when."""

    asked: ClassVar[list[tuple[int, Filter]]] = []

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        self.asked.append((time.perf_counter_ns(), where))
        return super().find(where, limit)


def test_stores_are_warm_before_the_clock_and_take_turns_to_be_first(tmp_path: Path) -> None:
    Finding.asked.clear()
    phases = run(Condition(samples=10), Finding, tmp_path)
    every(phases)
    start = min(p.started_ns for p in phases)
    before = [where for at, where in Finding.asked if at < start]
    timed = {where for at, where in Finding.asked if at > start}
    assert before
    assert not set(before) & timed, "others like them"
    assert {p.metrics["warmup_count"] for p in phases} == {len(before) / 2}, "of each store"
    assert {p.metrics["warmup_errors"] for p in phases} == {0}
    arms = [str(p.params["payload_index"]) for p in phases]
    firsts = arms[::2]
    assert firsts == [firsts[0], firsts[1]] * (len(firsts) // 2)
    assert set(firsts) == {"on", "off"}


class Needing(SqliteStore):
    """Finds by no column without an index, and says so."""

    capabilities = replace(SqliteStore.capabilities, filters_need_index=True)

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        by = {field.name: field.indexed for field in self._schema.fields}
        assert all(by[name] for name in fields(where)), "a store without indexes was asked"
        return super().find(where, limit)


def test_who_finds_by_no_column_without_an_index_is_asked_with_indexes_alone(
    tmp_path: Path,
) -> None:
    phases = run(Condition(samples=4, only=("one row",)), Needing, tmp_path)
    every(phases)
    told = {p.params["payload_index"]: p for p in phases}
    assert told.keys() == {"on", "off"}
    assert told["on"].metrics["count"]
    assert told["off"].metrics == {}
    assert "without an index" in told["off"].missing["latency_p50"]
    with pytest.raises(Unsupported, match="without an index"):
        Condition(indexed=(False,)).points(target(Needing, FLAT, ROWS))


def test_a_load_without_indexes_needs_no_filter_on_them(tmp_path: Path) -> None:
    phases = run(Ingest(payload_index=ARMS, fields=4), Needing, tmp_path)
    every(phases)
    arms = [p.params["payload_index"] for p in phases if p.name == "arm"]
    assert set(arms) == {"none", "off", "on"}
    assert "indexes" in {p.params["of"] for p in phases if p.name == "overhead"}


class Unwilling(SqliteStore):
    """Does not find at first."""

    refusals: ClassVar[int] = 0

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        if Unwilling.refusals:
            Unwilling.refusals -= 1
            raise RuntimeError("not yet")
        return super().find(where, limit)


def test_what_fails_before_the_clock_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unwilling, "refusals", 3)
    phases = run(Condition(samples=10, indexed=(True,)), Unwilling, tmp_path)
    assert {p.metrics["warmup_errors"] for p in phases} == {3}
    assert {p.metrics["errors"] for p in phases} == {0}


def test_a_store_without_find_is_scanned_by_the_client(tmp_path: Path) -> None:
    phases = run(Condition(samples=4), without(MemoryStore, find=frozenset()), tmp_path)
    every(phases)
    assert {(p.name, p.params["by"]) for p in phases} == {("client_scan", "client")}


def test_a_scan_by_the_client_of_a_store_that_cannot_is_missing_with_the_reason(
    tmp_path: Path,
) -> None:
    asked = Condition(samples=4, only=("one row",), client_scan=True)
    phases = run(asked, without(MemoryStore, scan=False), tmp_path)
    found, scans = (by(phases, by=who) for who in ("store", "client"))
    assert found.metrics["count"] == 4
    assert scans.name == "client_scan"
    assert "does not read out its rows" in scans.missing["latency_p50"]
    assert "latency_p50" not in scans.metrics


def test_an_incomplete_find_is_wrong(tmp_path: Path) -> None:
    phases = run(Condition(samples=5), Forgetful, tmp_path)
    assert not any(p.valid for p in phases)
    assert "answers are wrong" in str(phases[0].reason)


def test_a_store_without_metadata_is_refused() -> None:
    with pytest.raises(Unsupported, match="no metadata"):
        Condition().points(target(without(MemoryStore, field_types=frozenset()), FLAT, ROWS))


EXPORT = Transport(operations=("export",), page_rows=100, min_s=0)


# -- export ------------------------------------------------------------------------------------


class Leaky(MemoryStore):
    """Leaves out the last page."""

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        yield from list(super().scan(batch_size))[:-1]


def test_export_reads_everything_and_counts_its_bytes(tmp_path: Path) -> None:
    (phase,) = run(EXPORT, MemoryStore, tmp_path)
    every([phase])
    assert phase.metrics["passes"] == 1
    assert phase.metrics["count"] == 6
    rate, mb = phase.metrics["export_rows_per_s"], phase.metrics["export_mb_per_s"]
    assert rate
    assert mb
    assert mb * 1e6 / rate == pytest.approx(8 + 8 * 4, rel=0.2), "bytes of an id and a vector"


def test_an_export_that_misses_rows_is_wrong(tmp_path: Path) -> None:
    (phase,) = run(EXPORT, Leaky, tmp_path)
    assert not phase.valid
    assert "did not bring every row exactly once" in str(phase.reason)


class Endless(MemoryStore):
    """Takes a while to say that there is no more; pages are views of one block of memory."""

    scans: ClassVar[int] = 0

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        Endless.scans += 1
        yield from super().scan(batch_size)
        time.sleep(0.05)


def test_a_pass_of_an_export_ends_when_the_store_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Endless, "scans", 0)
    (phase,) = run(EXPORT, Endless, tmp_path)
    every([phase])
    assert (phase.metrics["export_s"] or 0) >= 0.05
    assert phase.metrics["passes"] == 1
    assert Endless.scans == 2, "a first one comes before the clock"


# -- size and storage --------------------------------------------------------------------------


def test_sizes_are_shares_or_numbers_and_the_whole() -> None:
    points = Search(sizes=(0.5, 100), least=50).points(target(MemoryStore, FLAT, 1000))
    assert [point["rows"] for point in points] == [100, 500, 1000]
    with pytest.raises(ValueError, match="at most 1"):
        Search(sizes=(1.5,))


def test_searching_each_size_has_recall_and_latency_of_the_same_requests(tmp_path: Path) -> None:
    (phase,) = run(Search(sizes=(1.0,), min_s=0), MemoryStore, tmp_path)
    every([phase])
    assert phase.metrics["recall_mean"] == 1
    assert phase.metrics["latency_p50"]


@pytest.mark.slow
def test_storage_before_and_after_the_store_settles(tmp_path: Path) -> None:
    early, late = run(Storage(rows=(1.0,), settle_s=3), SqliteStore, tmp_path)
    every([early, late])
    assert (early.name, late.name) == ("acknowledged", "settled")
    assert late.metrics["disk_bytes"] >= late.metrics["raw_bytes"] == ROWS * 8 * 4
    with pytest.raises(Unsupported, match="nothing on disk"):
        run(Storage(rows=(1.0,)), MemoryStore, tmp_path)


class Told(SqliteStore):
    """Says what its files hold."""

    files: ClassVar[Mapping[str, FileKind]] = {"*.sqlite*": FileKind.ROWS, "*-wal": FileKind.LOG}


@pytest.mark.parametrize("asked", [Storage(), GrowingStorage(rows=(1.0,), settle_s=0)])
def test_kinds_of_files_add_up_to_what_came(asked: Storage, tmp_path: Path) -> None:
    left = tmp_path / "other" / "left.sqlite"  # by a load before this one
    left.parent.mkdir()
    left.write_bytes(b"x" * 100_000)
    with world(Told, "flat", tmp_path, type(asked).starts_from) as context:
        dirs = (*context.data_dirs, left.parent)
        before = dict(context.empty_disk)
        for kind, size in store_bytes_by_kind(Told, [left.parent]).items():
            before[kind] = before.get(kind, 0) + size
        phase = list(asked.run(replace(context, data_dirs=dirs, empty_disk=before), {}))[-1]
    told = {kind: phase.metrics.get(kind.metric) for kind in FileKind}
    known = {kind: came for kind, came in told.items() if came is not None}
    assert set(known) == {FileKind.ROWS, FileKind.LOG, FileKind.OTHER}
    metrics = phase.metrics
    came = (metrics["disk_bytes"] or 0) - (metrics["disk_baseline_bytes"] or 0)
    assert sum(known.values()) == came
    assert (metrics["disk_baseline_bytes"] or 0) >= 100_000
    assert ROWS * 8 * 4 < known[FileKind.ROWS] < 100_000, "what was there is not counted"
    assert phase.missing[FileKind.INDEX.metric] == "none of its files hold this alone"
    other = run(asked, SqliteStore, tmp_path / "untold")[-1]
    assert other.missing[FileKind.ROWS.metric] == "what its files hold is not told apart"


class Clock:
    """Time that goes by when somebody sleeps, and a disk that is written to meanwhile."""

    def __init__(self, writes: dict[float, int]) -> None:
        self.now, self._writes = 0.0, writes

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def allocated(self, folders: object) -> int:
        return 10**6 + sum(size for at, size in self._writes.items() if at <= self.now)


@pytest.mark.parametrize(
    ("writes", "settle_s", "ends", "said"),
    [
        ({}, 20.0, 2.0, None),
        ({1.2: 10**5}, 20.0, 3.5, None),  # two looks that are alike are no rest
        ({0.1 * i: 200 for i in range(60)}, 20.0, 8.0, None),  # little by little is a change, too
        ({0.4 * i: 10**5 for i in range(100)}, 5.0, 5.0, "still changing after settle_s = 5"),
        ({}, 1.0, 1.0, "too short to see it at rest"),
        ({}, 0.0, 0.0, "not waited"),
    ],
)
def test_a_disk_is_at_rest_when_it_has_not_changed_for_two_seconds(
    writes: dict[float, int],
    settle_s: float,
    ends: float,
    said: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(writes)
    monkeypatch.setattr(disk_usage, "time", clock)
    monkeypatch.setattr(disk_usage, "allocated_bytes", clock.allocated)
    with world(SqliteStore, "flat", tmp_path, State.LOADED) as context:
        phase = disk_usage.settled_phase(context, settle_s)
    assert clock.now == pytest.approx(ends, abs=0.6 if len(writes) > 50 else 1e-6)
    assert phase.valid
    assert (said is None) == (phase.reason is None)
    assert (said or "") in (phase.reason or "")


@pytest.mark.parametrize("asked", [Storage(), GrowingStorage(rows=(1.0,), settle_s=0)])
def test_what_was_on_the_disk_before_is_no_part_of_the_ratio(
    asked: Storage, tmp_path: Path
) -> None:
    ratios = []
    for name, foreign in (("alone", 0), ("beside", 10 << 20)):
        other = tmp_path / name / "other"
        other.mkdir(parents=True)
        (other / "file").write_bytes(bytes(foreign))
        with world(SqliteStore, "flat", tmp_path / name, type(asked).starts_from) as context:
            dirs = (*context.data_dirs, other)
            empty = sum(context.empty_disk.values()) + allocated_bytes([other])
            before = {FileKind.OTHER: empty}
            there = replace(context, data_dirs=dirs, empty_disk=before)
            phase = list(asked.run(there, {}))[-1]
        ratios.append(phase.metrics["disk_ratio"])
        assert phase.metrics["disk_baseline_bytes"] == empty
        assert (phase.metrics["disk_bytes"] or 0) > foreign
    assert ratios[0] == pytest.approx(ratios[1], rel=0.1)


@pytest.mark.slow
def test_a_load_can_be_weighed_where_it_lies(tmp_path: Path) -> None:
    phases = run(Ingest(checkpoints=(1.0,), probes=0, settle_s=3), SqliteStore, tmp_path)
    every(phases)
    assert phases[-1].name == "settled"
    assert (phases[-1].metrics["disk_bytes"] or 0) > ROWS * 8 * 4
    kept = run(Ingest(checkpoints=(1.0,), probes=0, settle_s=3), MemoryStore, tmp_path / "memory")
    assert kept[-1].name == "cold_searches", "nothing on disk"


# -- what indexes cost -------------------------------------------------------------------------


def test_every_arm_loads_the_same_rows(tmp_path: Path) -> None:
    phases = run(Ingest(payload_index=ARMS, fields=6, rounds=2), SqliteStore, tmp_path)
    every(phases)
    arms = [p.params["payload_index"] for p in phases if p.name == "arm"]
    assert arms == [*arms[: len(arms) // 2], *reversed(arms[: len(arms) // 2])], "they take turns"
    assert {p.metrics["count"] for p in phases if p.name == "arm"} == {ROWS}
    assert {p.params["fields"] for p in phases if p.name == "arm"} == {0, 6}
    assert any(p.name == "overhead" and "load_overhead" in p.metrics for p in phases)
    assert len({p.metrics["batches"] for p in phases if p.name == "arm"}) == 1


def test_arms_can_have_the_columns_of_the_dataset(tmp_path: Path) -> None:
    own = pa.table({"name": ["a", "b"] * (ROWS // 2), "size": range(ROWS), "more": range(ROWS)})
    given = replace(dataset(), metadata=own)
    asked = Ingest(payload_index=ARMS, fields=2, columns="own")
    with world(SqliteStore, "flat", tmp_path, State.LOADED, given) as context:
        data = Data(context.schema, ROWS)
        experiment = asked.resolve(data)
        (point,) = experiment.points(target(SqliteStore, FLAT, data))
        phases = list(experiment.run(context, point))
    every(phases)
    assert {p.params["fields"] for p in phases if p.name == "arm"} == {0, 2}
    more = Ingest(payload_index=ARMS, fields=4, columns="own").resolve(data)
    with pytest.raises(Unsupported, match=r"4 columns of the dataset are asked for.* 3 of its 3"):
        more.points(target(SqliteStore, FLAT, data))


def test_arms_of_unlike_batches_are_not_compared() -> None:
    """Trap 000-4: with indexes in batches of 100, without in batches of 2000."""
    arms = [
        Phase("arm", 0, 1, {"payload_index": name}, {"load_s": s, "ready_s": s, "batches": n})
        for name, s, n in (("fixed", 1387.3, 1051.0), ("none", 661.3, 53.0))
    ]
    compared = overhead_phase("both", arms[:1], arms[1:], 0)
    assert compared.metrics["ready_overhead"] == pytest.approx(1.098, abs=1e-3)
    assert not compared.valid
    assert compared.reason == "the arms were not loaded in the same batches"


# -- searchable --------------------------------------------------------------------------------


class Late(MemoryStore):
    """Finds nothing before it has been flushed."""

    served = False

    def flush(self) -> None:
        self.served = True

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        if not self.served:
            raise RuntimeError("not loaded yet")
        return super().searcher(k, params, where)


def test_a_store_that_indexes_while_inserting_is_searchable_at_once(tmp_path: Path) -> None:
    phases = run(TimeToSearchable(looks=4), MemoryStore, tmp_path)
    every(phases)
    assert [p.params["stage"] for p in phases[:-1]] == ["loading"] * 3 + ["after", "ready"]
    assert {p.metrics["share_found"] for p in phases} == {1.0}
    assert phases[-1].metrics["searchable_after_s"] == 0


class Narrow(MemoryStore):
    """Has room for few neighbours, as a store whose search effort bounds k."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        if k > 64:
            raise RuntimeError("too many")
        return super().searcher(k, params, where)


def test_a_row_is_looked_for_among_few_whatever_the_suite_asks_for(tmp_path: Path) -> None:
    for asked in (Ingest(probes=3), TimeToSearchable(looks=2)):
        with world(Narrow, "flat", tmp_path / asked.name, State.EMPTY) as context:
            phases = {p.name: p for p in asked.run(replace(context, k=100), {"concurrency": 1})}
        every(list(phases.values()))
        if "freshness" in phases:
            assert phases["freshness"].metrics["count"] == 3
            assert phases["freshness"].metrics["time_to_searchable"]
        else:
            assert phases["look"].metrics["share_found"] == 1


class Blind(MemoryStore):
    """Never finds anything, and says why."""

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        raise RuntimeError("the index is gone")


def test_where_no_row_is_found_in_the_end_it_is_told_why(tmp_path: Path) -> None:
    whole = run(TimeToSearchable(looks=2), Blind, tmp_path)[-1]
    assert not whole.valid
    assert "the index is gone" in (whole.reason or "")


@pytest.mark.parametrize(
    ("probes", "shares", "after"),
    [
        (50, [1.0, 1.0, 0.98, 1.0], 0.0),  # one row of fifty was missed once
        (50, [1.0, 0.96, 1.0, 1.0], 1.0),
        (50, [0.5, 1.0, 1.0, 0.98], 0.1),
        (1000, [1.0, 0.98, 1.0, 1.0], 1.0),
        (5, [1.0, 0.8, 1.0, 1.0], 1.0),  # of so few each counts
        (1, [0.0, 1.0, 1.0, 1.0], 0.1),
    ],
)
def test_one_row_that_was_missed_once_does_not_move_the_figure(
    probes: int, shares: list[float], after: float
) -> None:
    context: object = SimpleNamespace(batch_rows=100)
    watch = _LoadWatch(context, {}, 10, probes, loaded_s=2.0, ready_s=5.0)  # type: ignore[arg-type]
    for at, share in zip((0.0, 0.1, 1.0, 3.0), shares, strict=True):
        seen = {"elapsed_s": 2.0 + at, "share_found": share}
        watch.phases.append(Phase("look", 0, 0, {"stage": "after", "after_s": at}, {**seen}))
    assert watch.summary().metrics["searchable_after_s"] == pytest.approx(after)


def test_one_that_does_not_is_seen_not_to(tmp_path: Path) -> None:
    phases = run(TimeToSearchable(looks=4), Late, tmp_path)
    assert [p.metrics["share_found"] for p in phases[:-1]] == [0, 0, 0, 0, 1]
    assert phases[0].errors == [("RuntimeError", 50, ["not loaded yet"])]
    assert phases[-1].metrics["searchable_after_s"] is not None


# -- mixed -------------------------------------------------------------------------------------


def test_an_exact_store_finds_all_that_is_alive_at_each_search(tmp_path: Path) -> None:
    phases = run(Mixed(operations=400), MemoryStore, tmp_path)
    every(phases)
    search = phases[0]
    assert [p.name for p in phases] == ["search", "insert", "update", "delete"]
    assert search.metrics["recall_mean"] == 1
    assert search.metrics["stale_results"] == 0
    assert sum(p.metrics["count"] or 0 for p in phases) == 400
    mix = "70 % search + 10 % insert + 10 % update + 10 % delete"
    assert {p.params["mix"] for p in phases} == {mix}, "what happens beside is a term of each"
    (each,) = {p.metrics["cpu_us_per_op"] for p in phases}
    assert each == pytest.approx((search.metrics["cpu_s"] or 0) * 1e6 / 400), "of all in turn"


class Counting(MemoryStore):
    """Counts its searches."""

    searches = 0

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        whole = super().searcher(k, params, where)

        def search(vector: NDArray[np.float32]) -> Hits:
            Counting.searches += 1
            return whole(vector)

        return search


def test_searches_come_before_the_clock_of_changing_rows_too(tmp_path: Path) -> None:
    search = run(Mixed(operations=50), Counting, tmp_path)[0]
    assert search.metrics["warmup_count"] == len(dataset().queries)
    assert Counting.searches == search.metrics["count"] + search.metrics["warmup_count"]


class Refreshed(MemoryStore):
    """Has to be asked to show what was written, which takes 20 ms, and fails as often as is wanted.
    Notes what it is asked."""

    notes: ClassVar[list[str]] = []
    failures: ClassVar[int] = 0

    def refresh(self) -> None:
        self.notes.append("refresh")
        if Refreshed.failures:
            Refreshed.failures -= 1
            raise RuntimeError("no refresh")
        time.sleep(0.02)

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        self.notes.append("searcher" if self.auto_refresh else "bare searcher")
        return super().searcher(k, params, where)

    def upsert(self, batch: pa.RecordBatch) -> None:
        self.notes.append("write")
        super().upsert(batch)


UPDATES = Mixed(operations=40, searches=0.5, inserts=0, updates=0.5, deletes=0)


def test_what_lets_a_search_see_a_write_is_part_of_the_search(tmp_path: Path) -> None:
    Refreshed.notes.clear()
    phases = by_name(run(UPDATES, Refreshed, tmp_path))
    every(list(phases.values()))
    assert (phases["search"].metrics["latency_max"] or 0) >= 20_000
    changed = [
        b for a, b in zip(Refreshed.notes, Refreshed.notes[1:], strict=False) if a == "write"
    ]
    assert set(changed) <= {"write", "bare searcher"}
    assert Refreshed.notes.count("refresh") == changed.count("bare searcher") > 0


def test_a_search_that_cannot_see_the_write_before_it_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Refreshed, "failures", 1)
    phases = by_name(run(UPDATES, Refreshed, tmp_path))
    assert phases["search"].errors == [("RuntimeError", 1, ["no refresh"])]
    assert phases["update"].valid
    assert phases["search"].metrics["recall_mean"] == 1


def test_deleted_rows_that_are_still_returned_are_wrong(tmp_path: Path) -> None:
    search = run(Mixed(operations=400, deletes=1.0), Immortal, tmp_path)[0]
    assert not search.valid
    assert "no longer" in str(search.reason)


def test_updates_without_effect_cost_recall(tmp_path: Path) -> None:
    search = run(Mixed(operations=600, updates=1.0), Frozen, tmp_path)[0]
    assert search.metrics["recall_mean"] is not None
    assert search.metrics["recall_mean"] < 1


def test_recall_is_not_judged_where_writes_failed(tmp_path: Path) -> None:
    search, insert, *_ = run(Mixed(operations=200), Refusing, tmp_path)
    assert not insert.valid
    assert "recall_mean" not in {k for k, v in search.metrics.items() if v is not None}
    assert "writes failed" in search.missing["recall_mean"]


def test_what_a_store_cannot_do_is_refused() -> None:
    fixed: type[Store] = without(MemoryStore, delete=False)
    with pytest.raises(Unsupported, match="cannot delete"):
        Mixed().points(target(fixed, FLAT, ROWS))
    assert Mixed(deletes=0).points(target(fixed, FLAT, ROWS)) == [{}]
    with pytest.raises(ValueError, match="nothing changes"):
        Mixed(inserts=0, updates=0, deletes=0)


# -- loading -----------------------------------------------------------------------------------


class Lossy(MemoryStore):
    """Acknowledges every row, and loses the last of each batch."""

    def insert(self, batch: pa.RecordBatch) -> None:
        super().insert(batch.slice(0, batch.num_rows - 1) if batch.num_rows > 1 else batch)


class Slow(MemoryStore):
    """Shows a row 0.2 s after it was inserted."""

    inserted = 0.0

    def insert(self, batch: pa.RecordBatch) -> None:
        super().insert(batch)
        self.inserted = time.monotonic()

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        whole, nothing = super().searcher(k, params, where), np.zeros(0, np.int64)

        def search(vector: NDArray[np.float32]) -> Hits:
            if time.monotonic() < self.inserted + 0.2:
                return nothing, np.zeros(0, np.float32)
            return whole(vector)

        return search


def test_probing_between_load_and_flush_is_told_beside_the_time_until_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(Ingest(probes=3), Slow, tmp_path)[-2]
    assert whole.name == "ingest"
    assert whole.valid
    assert (whole.metrics["probing_s"] or 0) >= 0.6
    assert re.search(r"rows were probed for \d+\.\d s", whole.reason or "")
    monkeypatch.setattr(ingest_experiment, "_UNTOLD_S", 60.0)  # a busy machine waits here too
    without_probes = run(Ingest(probes=0), Slow, tmp_path)[-2]
    assert without_probes.reason is None
    assert without_probes.metrics["probing_s"] is not None


def test_a_load_that_lost_rows_has_no_valid_figure(tmp_path: Path) -> None:
    phases = run(Ingest(probes=5, concurrency=1), Lossy, tmp_path)
    names = ["load", "freshness", "flush", "build", "wait", "first_search", "ingest"]
    assert [p.name for p in phases] == [*names, "cold_searches"]
    assert not any(p.valid for p in phases)
    assert "600 were acknowledged" in str(phases[0].reason)


def test_an_overhead_rests_on_loads_that_are_whole(tmp_path: Path) -> None:
    phases = run(Ingest(payload_index=ARMS, fields=4), Lossy, tmp_path)
    assert {p.name for p in phases} == {"arm", "overhead"}
    assert not any(p.valid for p in phases)
    assert "loads that are not valid: 'fixed': the store counts" in str(phases[-1].reason)


@pytest.mark.parametrize(("index", "off", "same"), [("exact", 1e-3, 0), ("rough", 0.2, 600)])
def test_what_is_read_back_is_compared_as_the_gate_does(
    index: str, off: float, same: int, tmp_path: Path
) -> None:
    kinds = {"exact": IndexKind(), "rough": IndexKind(exact_scores=False)}
    rows, store = dataset(), without(MemoryStore, indexes=kinds)(tmp_path)
    schema = Schema(8, rows.metric, (Field("price", FieldType.FLOAT),))
    asked = Index(index, NoParams())
    prices = np.where(np.arange(ROWS) % 2, np.nan, 1 / 3)
    store.create(schema, asked)
    kept = {"price": pa.array(prices * (1 + 2**-52))}
    store.insert(batch_of(schema, rows.ids, rows.vectors * np.float32(1 + off), kept))
    written = pa.table({"price": prices})
    assert read_back(store, schema, asked, rows.ids, rows.vectors, written) == same
