"""The native lane asks the same question as the client, and writes the same rows."""

from __future__ import annotations

import pytest

from vectrial.engine.client import Requests, closed, drive
from vectrial.engine.types import LoadColumn
from vectrial.model.capabilities import Returning
from vectrial.model.store import Store
from vectrial.stores.common.arrow import ids_of, vectors_of
from vectrial.testing.conformance.cases import (
    a_protocol,
    bare_too,
    each_metric,
    filtered_search,
    native_writes,
    needs,
)
from vectrial.testing.conformance.world import Case, K, World, as_rows, queries
from vectrial.workload.native.rows import columns_of, send
from vectrial.workload.searchers import native_searches


@each_metric
@needs(a_protocol)
@bare_too
def test_both_lanes_have_the_same_answers(case: Case, loaded: Store, world: World) -> None:
    vectors = queries()
    for where in (None, *list(case.filters(case.capabilities.filters).values())[:8:3]):
        native = loaded.native_search(K, case.high_recall, where)
        filters = [native.filter] if native.filter is not None else []
        requests = Requests(
            "search", vectors=vectors, k=K, filters=filters, options=native.options, keep=True
        )
        (found,) = drive(native.target, [requests], [closed(1, count=len(vectors))])["classes"]
        assert found["recorder"].errors() == []
        assert found["answers"] is not None
        if where is not None and case.kind.filtered_floor is not None:  # no two answers agree
            kept = set(world.ids[world.matching(where)].tolist())
            assert {id_ for id_ in found["answers"][1].ravel().tolist() if id_ >= 0} <= kept
            continue
        search = loaded.searcher(K, case.high_recall, where)
        same = 0
        for query, ids, scores in zip(*found["answers"], strict=True):
            there = ids >= 0
            declared = native.convert_scores(scores[there])
            near, near_scores = search(vectors[query])
            expected = dict(zip(near.tolist(), near_scores.tolist(), strict=True))
            same += set(ids[there].tolist()) == expected.keys()
            for id_, score in zip(ids[there].tolist(), declared.tolist(), strict=True):
                assert score == pytest.approx(expected.get(id_, score), rel=1e-3, abs=1e-3)
        # Rows at equal distance may change places at the end of an answer.
        assert same >= 0.95 * len(vectors), where


@needs(a_protocol, filtered_search)
def test_each_query_may_have_a_filter_of_its_own(case: Case, loaded: Store) -> None:
    """Searches of one load differ only in their filters."""
    conditions = list(case.filters(case.capabilities.filters).values())[:8:3]
    asked = native_searches(loaded, Returning.IDS, K, case.high_recall, conditions)
    assert len(asked.filters) == len(conditions)


@needs(native_writes, "get")
@bare_too
def test_rows_written_over_the_wire_are_as_inserted(case: Case, world: World, empty: Store) -> None:
    empty.create(case.schema, case.build)
    native, rows = empty.native_rows(), 300
    part = world.batch(slice(0, rows))
    columns = columns_of(world.metadata.slice(0, rows), native.columns)
    outcome = send(native, "insert", ids_of(part), vectors_of(part), columns, batch=70, clients=2)
    assert outcome["classes"][0]["recorder"].errors() == []
    assert outcome["classes"][0]["rows"] == rows
    empty.flush()
    empty.build()
    empty.wait_indexed()
    assert empty.count() == rows
    assert as_rows(empty.get(world.ids[:rows]), case.schema) == as_rows(part, case.schema)
    near = empty.searcher(1, case.high_recall)(world.vectors[7])[0]
    assert near[0] in world.accepted(world.vectors[7], 1, None) or not case.kind.exact


@needs(native_writes, "get")
@bare_too
def test_single_rows_over_the_wire(case: Case, world: World, empty: Store) -> None:
    empty.create(case.schema, case.build)
    empty.insert(world.batch(slice(0, 100)))
    empty.flush()
    empty.build()
    empty.wait_indexed()
    native, ids = empty.native_rows(), world.ids[:5]

    def sent(operation: str, moved: slice | None = None) -> None:
        vectors, columns = None, list[LoadColumn]()
        if moved is not None:
            vectors = world.vectors[moved]
            columns = columns_of(world.metadata.slice(moved.start, 5), native.columns)
        outcome = send(native, operation, ids, vectors, columns)
        assert outcome["classes"][0]["recorder"].errors() == []
        assert outcome["classes"][0]["recorder"].samples() == len(ids)

    if case.capabilities.get:
        sent("get")
    if case.capabilities.upsert:
        sent("upsert", slice(200, 205))
        moved = as_rows(empty.get(ids), case.schema)
        expected = as_rows(world.batch(slice(200, 205)), case.schema)
        assert [moved[i] for i in ids.tolist()] == list(expected.values())
    if case.capabilities.delete:
        sent("delete")
        assert empty.get(ids).num_rows == 0
