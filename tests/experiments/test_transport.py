"""Transport: what it counts, and what it calls wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import pyarrow as pa
import pytest
from experiment_worlds import DIM, ROWS, by_name, run, target, without, world

from vectrial.experiments.registry import all_metrics
from vectrial.experiments.transport import Transport
from vectrial.model.capabilities import Index, NoParams
from vectrial.model.context import Data
from vectrial.model.errors import Unsupported
from vectrial.model.metric import Metric
from vectrial.model.phase import Phase, State
from vectrial.model.schema import Schema
from vectrial.stores.memory import MemoryStore
from vectrial.stores.sqlite.store import SqliteStore
from vectrial.workload.python import bulk_io
from vectrial.workload.python.bulk_io import _TransferLog

FLAT = Index("flat", NoParams())
QUICK = Transport(sizes=(1.0,), clients=(1,), min_s=0.0, mixed_s=0.05, mixed_rows=7)


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
def test_every_figure_is_of_the_same_rows_and_time(
    kind: type[MemoryStore] | type[SqliteStore], tmp_path: Path
) -> None:
    phases = run(QUICK, kind, tmp_path)
    assert [p.reason for p in phases if not p.valid] == []
    assert {name for p in phases for name in (*p.metrics, *p.missing)} <= all_metrics().keys()
    found = by_name(phases)
    assert list(found) == ["put", "indexed", "get", "mixed", "mixed_put", "mixed_get"]
    put, indexed, get = found["put"].metrics, found["indexed"].metrics, found["get"].metrics
    assert put["count"] == indexed["count"] == ROWS
    assert put["mb_per_s"] == pytest.approx(ROWS * DIM * 4 / 1e6 / put["load_s"])
    assert put["payload_mb_per_s"] == pytest.approx(ROWS * (DIM * 4 + 8) / 1e6 / put["load_s"])
    assert indexed["ready_s"] >= put["load_s"]
    assert get["export_rows_per_s"] == pytest.approx(get["qps"] * ROWS)
    # A row is its id and its vector, and what is read is counted as what is put.
    assert get["export_mb_per_s"] == pytest.approx(
        get["export_rows_per_s"] * (DIM * 4 + 8) / 1e6, rel=0.1
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Phase]:
    return by_name(run(QUICK, MemoryStore, tmp_path_factory.mktemp("transport")))


def test_by_turns_counts_puts_and_gets_alike(found: dict[str, Phase]) -> None:
    both, puts, gets = (found[name].metrics for name in ("mixed", "mixed_put", "mixed_get"))
    assert puts["count"] == gets["count"] > 0
    assert both["count"] == puts["count"] + gets["count"]
    assert both["qps"] == pytest.approx(puts["qps"] + gets["qps"])
    assert puts["rows_per_s"] == pytest.approx(puts["qps"] * 7)
    seconds = (found["mixed"].ended_ns - found["mixed"].started_ns) / 1e9
    # The n-th get reads n+1 puts: the first turn comes before the clock.
    n = gets["count"]
    read = 7 * (n * (n + 1) / 2 + n)
    assert gets["export_rows_per_s"] == pytest.approx(read / seconds)


class Forgetful(MemoryStore):
    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        for batch in super().scan(batch_size):
            yield batch.slice(1)


def test_a_read_that_lacks_a_row_is_called_wrong(tmp_path: Path) -> None:
    found = by_name(run(QUICK, Forgetful, tmp_path))
    assert found["put"].valid
    for name in ("get", "mixed_get", "mixed"):
        assert not found[name].valid
        assert "did not bring every row exactly once" in (found[name].reason or "")
    assert found["get"].metrics["ineffective"] == 1


def test_checking_what_was_read_is_no_part_of_the_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []
    check = _TransferLog._check

    def noted(self: _TransferLog) -> None:
        checked.append(perf_counter_ns())
        check(self)

    monkeypatch.setattr(_TransferLog, "_check", noted)
    # A fast machine reads more in a second than waits to be checked.
    monkeypatch.setattr(bulk_io, "_CHECKED_AT", 1 << 40)
    asked = Transport(operations=("put", "get"), sizes=(1.0,), clients=(1,), min_s=1.0)
    get = by_name(run(asked, MemoryStore, tmp_path))["get"]
    assert (get.metrics["count"] or 0) > 1
    assert len(checked) == 1
    assert checked[0] > get.ended_ns


def test_what_waits_to_be_checked_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_io, "_CHECKED_AT", 1000)
    log = _TransferLog(0)
    with world(Forgetful, "flat", tmp_path, State.LOADED) as context:
        for _ in range(3):
            assert log.get(context.store, 1000, np.sort(context.dataset.ids))
            assert log._unchecked_bytes == 0
    moved = log.result()
    assert (moved.wrong, moved.got_rows) == (3, 3 * (ROWS - 1))


def test_pages_are_not_kept_for_their_ids(tmp_path: Path) -> None:
    log = _TransferLog(0)
    with world(MemoryStore, "flat", tmp_path, State.LOADED) as context:
        assert log.get(context.store, 100, np.sort(context.dataset.ids))
    ((seen, _),) = log._unchecked
    assert all(ids.flags.owndata for ids in seen)


def test_processor_time_is_that_of_puts_and_gets(found: dict[str, Phase]) -> None:
    both, puts, gets = (found[name].metrics for name in ("mixed", "mixed_put", "mixed_get"))
    assert both["cpu_us_per_op"] == puts["cpu_us_per_op"] == gets["cpu_us_per_op"]
    assert found["get"].metrics["cpu_us_per_op"] == pytest.approx(
        found["get"].metrics["cpu_s"] * 1e6 / found["get"].metrics["count"]
    )


class Broken(MemoryStore):
    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        if self.count() == ROWS:
            raise OSError("the line is dead")
        return super().scan(batch_size)


def test_a_read_that_fails_is_an_error(tmp_path: Path) -> None:
    found = by_name(run(QUICK, Broken, tmp_path))
    assert found["get"].errors == [("OSError", 1, ["the line is dead"])]
    assert not found["get"].valid


def test_sizes_and_callers_are_points() -> None:
    asked = Transport(sizes=(100, 0.5, 5000), clients=(1, 4))
    points = asked.points(target(MemoryStore, FLAT, 600))
    assert [(p["rows"], p["clients"]) for p in points] == [
        (rows, clients) for rows in (100, 300, 600) for clients in (1, 4)
    ]
    # By turns into collections of their own: their size is no matter, so it is done once.
    assert [p["rows"] for p in points if "mixed_s" in p] == [600, 600]
    with pytest.raises(Unsupported, match="does not read out"):
        asked.points(target(without(MemoryStore, scan=False), FLAT, 600))
    with pytest.raises(Unsupported, match="one client puts"):
        asked.check_point(target(MemoryStore, FLAT, Data(Schema(DIM, Metric.L2), ROWS)), points[1])


def test_reads_alone_are_of_the_loaded_store() -> None:
    place = target(MemoryStore, FLAT)
    reads = Transport(operations=("get", "export"), clients=(1, 4)).resolve(place.data)
    assert reads.starts_from is State.LOADED
    assert reads.points(place) == [{"clients": 1}, {"clients": 4}]
    pages = Transport(operations=("export",), clients=(1, 4)).resolve(place.data)
    assert pages.points(place) == [{"clients": 1}]
    for wrong in ({"operations": ("mixed",)}, {"operations": ("get",), "sizes": (5,)}):
        with pytest.raises(ValueError, match="not among"):
            Transport.model_validate(wrong)


def test_an_export_comes_once_for_each_size(tmp_path: Path) -> None:
    asked = Transport(operations=("put", "export"), sizes=(1.0,), clients=(1,), min_s=0.0)
    assert list(by_name(run(asked, MemoryStore, tmp_path))) == ["put", "indexed", "export"]


def test_puts_alone_need_no_reads(tmp_path: Path) -> None:
    asked = Transport(operations=("put",), sizes=(1.0,), clients=(1,))
    phases = run(asked, without(MemoryStore, scan=False), tmp_path)
    assert [phase.name for phase in phases] == ["put", "indexed"]
