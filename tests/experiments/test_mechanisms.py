"""Rows added, not indexed or deleted, and memory taken away: what of it needs no server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiment_worlds import ROWS, by_name, dataset, index_of, run, target, without, world
from pydantic import ValidationError

from vectrial.datasets.exact import exact_topk
from vectrial.experiments.common.row_parts import split_non_neighbours, take_rows
from vectrial.experiments.memory_ceiling import MemoryCeiling
from vectrial.experiments.search import Search
from vectrial.experiments.search_during_build import SearchDuringBuild
from vectrial.experiments.unindexed_rows import UnindexedRows
from vectrial.experiments.write_amplification import WriteAmplification
from vectrial.model.context import Context
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.lane import Lane
from vectrial.model.phase import Phase, State
from vectrial.stores.memory import MemoryStore
from vectrial.stores.sqlite.store import SqliteStore
from vectrial.stores.weaviate.store import Weaviate


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Context]:
    with world(MemoryStore, "flat", tmp_path, State.EMPTY) as context:
        yield context


def test_rows_apart_from_neighbours_change_no_truth(empty: Context) -> None:
    context, rows = split_non_neighbours(empty, ROWS // 4)
    assert len(rows) == ROWS // 4
    assert len(context.dataset.queries) == len(empty.dataset.queries)
    others = take_rows(empty.dataset, np.setdiff1d(np.arange(ROWS), rows))
    less = exact_topk(others.vectors, others.ids, others.queries, others.metric, empty.k)
    whole = context.truth(empty.k, None)
    assert (less.ids == whole.ids).all()
    assert (less.accept_ids == whole.accept_ids).all()


def test_queries_are_left_out_where_their_neighbours_are_too_many(empty: Context) -> None:
    count = ROWS - 3 * empty.k
    context, rows = split_non_neighbours(empty, count)
    asked = len(context.dataset.queries)
    assert 3 <= asked < len(empty.dataset.queries)
    truth = context.truth(empty.k, None)
    assert len(truth.ids) == asked
    assert not np.isin(empty.dataset.ids[rows], truth.accept_ids).any()


def test_a_share_that_leaves_no_neighbours_is_an_error(empty: Context) -> None:
    with pytest.raises(StoreError, match="set a smaller share"):
        split_non_neighbours(empty, ROWS - empty.k + 1)


def test_parts_keep_each_row_together() -> None:
    whole = dataset()
    one = take_rows(whole, np.array([5, 2]))
    assert one.ids.tolist() == whole.ids[[5, 2]].tolist()
    assert (one.vectors == whole.vectors[[5, 2]]).all()


def test_unindexed_rows_are_searched_before_and_after(tmp_path: Path) -> None:
    asked = UnindexedRows(unindexed=(0.0, 0.2), duration_s=1.0, warmup_queries=0)
    phases = by_name(run(asked, MemoryStore, tmp_path))
    assert phases.keys() == {"as_inserted", "indexed"}
    for phase in phases.values():
        assert phase.metrics["recall_mean"] == 1.0
        assert phase.missing["unindexed_rows"] == "the store does not tell"
    assert phases["indexed"].metrics["index_wait_s"] is not None


class Behind(MemoryStore):
    """Says that ten rows are not indexed, until it is asked to wait."""

    waited = False

    def unindexed_rows(self) -> int:
        return 0 if self.waited else 10

    def wait_indexed(self) -> str:
        self.waited = True
        return "waited"


def test_what_a_store_says_of_unindexed_rows_is_reported(tmp_path: Path) -> None:
    with world(Behind, "flat", tmp_path, State.EMPTY) as context:
        asked = UnindexedRows(duration_s=0.1, warmup_queries=0)
        for phase in asked.run(context, {"unindexed": 0.5, "clients": 1}):
            assert phase.metrics["unindexed_rows"] == 0.0
            context.store.waited = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [SearchDuringBuild, UnindexedRows])
def test_a_store_that_takes_no_rows_later_is_refused(
    kind: type[SearchDuringBuild | UnindexedRows],
) -> None:
    closed = without(MemoryStore, inserts_after_build=False)
    with pytest.raises(Unsupported, match="insert after the index is built with index 'flat'"):
        kind().points(target(closed, index_of(closed, "flat")))


def test_written_bytes_are_over_those_inserted(tmp_path: Path) -> None:
    with world(SqliteStore, "flat", tmp_path, State.EMPTY) as context:
        raw = context.dataset.raw_bytes
        written = iter([100, 100 + raw, 100 + 2 * raw, 100 + 3 * raw, 100 + 5 * raw])
        context = replace(context, written_bytes=lambda: next(written))
        asked = WriteAmplification(settle_s=0)
        phases = list(asked.run(context, {"deleted": 0.2}))
    assert [one.name for one in phases] == ["loaded", "compacted", "deleted", "compacted_again"]
    found = [(one.metrics["write_amplification"], one.metrics["live_rows"]) for one in phases]
    left = ROWS - round(0.2 * ROWS)
    assert found == [(1.0, ROWS), (2.0, ROWS), (3.0, left), (5.0, left)]
    assert all(one.metrics["disk_bytes"] for one in phases)


def test_written_bytes_that_nobody_knows_have_a_reason(tmp_path: Path) -> None:
    phases = run(WriteAmplification(settle_s=0, deleted=0), SqliteStore, tmp_path)
    assert [one.name for one in phases] == ["loaded", "compacted"]
    assert "write_amplification" in phases[0].missing


def test_a_memory_limit_needs_a_server_here(empty: Context) -> None:
    with pytest.raises(Unsupported, match="does not run on this machine"):
        next(iter(MemoryCeiling().run(empty, {"clients": 1})))


def test_a_refused_limit_ends_the_steps_with_the_reason(
    empty: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Afterwards the server has what it was started with."""
    asked: list[int | None] = []

    def limit(limit_bytes: int | None) -> None:
        asked.append(limit_bytes)
        if limit_bytes is not None and limit_bytes < 900:
            raise Unsupported("too little")

    context = replace(empty, resident_bytes=lambda: 1000, limit_memory=limit)
    monkeypatch.setattr(
        MemoryCeiling, "_search_phase", lambda self, context, point, name: Phase(name, 0, 1)
    )
    phases = list(MemoryCeiling(ceilings=(1.2, 0.9, 0.5, 0.4)).run(context, {"clients": 1}))
    assert asked == [None, 1200, 900, 500, None]
    assert [one.params.get("ceiling") for one in phases] == [None, 1.2, 0.9, 0.5]
    assert phases[-1].missing["qps"] == phases[-1].reason == "too little"


@pytest.mark.parametrize("ceilings", [(1.0, 1.0), (0.5, 0.6), (0.5, 0.0)])
def test_ceilings_fall(ceilings: tuple[float, ...]) -> None:
    with pytest.raises(ValidationError, match="fall from one to the next"):
        MemoryCeiling(ceilings=ceilings)


def test_a_parameter_that_the_engine_cannot_ask_with_is_refused() -> None:
    index = index_of(Weaviate, "hnsw")
    point = {"clients": 1, "protocol": "graphql"}
    Search().check_point(target(Weaviate, index, lane=Lane.SDK), point)
    Search().check_point(target(Weaviate, index, lane=Lane.NATIVE), {**point, "protocol": "grpc"})
    with pytest.raises(Unsupported, match="does not ask with protocol = graphql"):
        Search().check_point(target(Weaviate, index, lane=Lane.NATIVE), point)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_some_rows_are_added_and_some_are_there(share: float) -> None:
    with pytest.raises(ValidationError, match=r"(greater|less) than [01]"):
        SearchDuringBuild(added=(share,))
