"""Changes to a store: insert, replace, delete, close and open again, drop, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from vectrial.model.capabilities import ALL_OPERATORS, Index, NoParams
from vectrial.model.errors import Unsupported
from vectrial.model.filters import Eq, Filter, Range, operators
from vectrial.model.metric import Metric
from vectrial.model.refusals import refuse
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Store
from vectrial.stores.common.arrow import batch_of
from vectrial.testing.conformance.cases import (
    a_server,
    bare_too,
    each_index,
    each_index_of_a_library,
    each_metric,
    needs,
)
from vectrial.testing.conformance.test_reads import check_answer, check_rows, floor, recall
from vectrial.testing.conformance.world import (
    BATCH,
    DIM,
    FILTERS,
    ROWS,
    Case,
    K,
    World,
    folder,
    load,
    make_world,
    queries,
)


class Changed:
    """A store after inserts, replacements and deletions, and the rows it should hold."""

    def __init__(self, case: Case, store: Store, world: World) -> None:
        self.case, self.store, self.world = case, store, world
        self.gone: NDArray[np.int64] = np.array([], np.int64)
        self.replaced: World | None = None
        self.old_places: NDArray[np.float32] = np.empty((0, DIM), np.float32)

    def insert_more(self, first_id: int) -> None:
        can = self.case.capabilities
        if can.inserts_after_build:
            more = make_world(self.case.schema, can.nulls, rows=100, first_id=first_id, seed=5)
            for batch in (more.batch(slice(0, 99)), more.batch(slice(99, 100))):
                self.store.insert(batch)
            self.world = self.world.merged_with(more)

    def replace(self) -> None:
        if not self.case.capabilities.upsert:
            return
        ids = self.world.ids[:60]
        self.old_places = self.world.vectors[:60]
        new = make_world(
            self.case.schema, self.case.capabilities.nulls, rows=80, first_id=90_000, seed=6
        )
        # The first 60 exist; the last 20 are new.
        vectors = np.concatenate([_distant_vectors(self.old_places), new.vectors[60:]])
        new = World(new.schema, np.append(ids, new.ids[60:]), vectors, new.metadata)
        for batch in (new.batch(slice(0, 70)), new.batch(slice(70, 80))):
            self.store.upsert(batch)
        self.world = self.world.without(ids).merged_with(new)
        self.replaced = new

    def delete(self) -> None:
        if not self.case.capabilities.delete:
            return
        self.gone = self.world.ids[100:300]
        self.store.delete(np.append(self.gone[:199], 7))  # one of them is not there
        self.store.delete(self.gone[199:])
        self.store.delete(self.gone[:3])  # gone already
        self.world = self.world.without(self.gone)


def _distant_vectors(places: NDArray[np.float32]) -> NDArray[np.float32]:
    """For each place, the farther of two vectors like the rows; both (n, DIM)."""
    drawn = [queries(seed, len(places)) for seed in (10, 11)]
    first, second = (np.linalg.norm(vectors - places, axis=1) for vectors in drawn)
    return np.where((first > second)[:, None], *drawn)


@pytest.fixture(scope="session")
def changed(case: Case, world: World, loaded: Store) -> Iterator[Changed]:
    """The store `loaded` after changes; no other test reads it afterwards."""
    changed = Changed(case, loaded, world)
    changed.insert_more(first_id=50_000)
    changed.replace()
    changed.delete()
    loaded.flush()
    loaded.wait_indexed()
    yield changed
    changed.store.close()


def check_everything(case: Case, store: Store, world: World) -> None:
    """Check that the store holds exactly the rows of `world`, by every way of asking."""
    assert store.count() == len(world.ids)
    if case.capabilities.scan:
        check_rows(case, pa.Table.from_batches(list(store.scan())), world, world.ids)
    if case.capabilities.get:
        check_rows(case, store.get(world.ids[-50:]), world, world.ids[-50:])
    assert recall(case, world, store.searcher(K, case.high_recall), K) >= floor(case)
    for where in list(case.filters(case.capabilities.filters).values())[:4]:
        search = store.searcher(K, case.high_recall, where)
        assert recall(case, world, search, K, where) >= floor(case, where)
    for where in list(case.filters(case.capabilities.find).values())[::4]:
        found = store.find(where, 10 * ROWS).tolist()
        assert sorted(found) == sorted(world.ids[world.matching(where)].tolist())


@each_metric
@bare_too
def test_everything_after_changes(case: Case, changed: Changed) -> None:
    check_everything(case, changed.store, changed.world)


@each_index
@needs("inserts_after_build")
def test_inserted_rows_are_found(case: Case, changed: Changed) -> None:
    search = changed.store.searcher(K, case.high_recall)
    added = changed.world.vectors[changed.world.ids >= 50_000][::4]
    hits = [bool(set(search(v)[0].tolist()) & changed.world.accepted(v, 1, None)) for v in added]
    assert np.mean(hits) >= floor(case)


@each_index
@needs("upsert")
@bare_too
def test_replaced_rows_are_at_their_new_place_only(case: Case, changed: Changed) -> None:
    assert changed.replaced is not None
    search = changed.store.searcher(K, case.high_recall)
    new = changed.replaced
    right = [
        bool(set(search(vector)[0].tolist()) & changed.world.accepted(vector, 1, None))
        for vector in new.vectors[::2]
    ]
    assert np.mean(right) >= floor(case)
    for old, id_ in zip(changed.old_places[::4], new.ids[:60:4].tolist(), strict=True):
        assert id_ not in search(old)[0] or case.metric is Metric.IP
    if case.capabilities.get:
        check_rows(case, changed.store.get(new.ids), new, new.ids)


@each_index
@needs("delete")
@bare_too
def test_deleted_rows_are_gone(case: Case, changed: Changed) -> None:
    original = make_world(case.schema, case.capabilities.nulls, rows=ROWS, first_id=1_000, seed=0)
    gone = set(changed.gone.tolist())
    search = changed.store.searcher(K, case.high_recall)
    for vector in original.vectors[np.isin(original.ids, changed.gone)][::8]:
        assert not gone & set(search(vector)[0].tolist())
    if case.capabilities.get:
        assert changed.store.get(changed.gone).num_rows == 0
    for where in list(case.filters(case.capabilities.find).values())[::4]:
        assert not gone & set(changed.store.find(where, 10 * ROWS).tolist())


@each_metric
@needs("persistent")
@bare_too
def test_persistence(case: Case, changed: Changed) -> None:
    changed.insert_more(first_id=60_000)
    changed.delete()
    changed.store.flush()
    changed.store.close()
    changed.store = case.make(changed.store.location)
    changed.store.open(case.schema, case.build)
    changed.store.wait_indexed()  # what was flushed may still be compacted
    check_everything(case, changed.store, changed.world)
    changed.delete()  # and it still takes changes
    assert changed.store.count() == len(changed.world.ids)


@each_index_of_a_library
@bare_too
def test_life_of_a_small_store(case: Case, empty: Store, world: World) -> None:
    empty.create(case.schema, case.build)
    assert empty.count() == 0
    empty.insert(world.batch(slice(0, 300)))
    assert empty.count() == 300
    empty.flush()
    empty.drop()
    empty.close()
    empty.close()
    assert [path for path in empty.location.rglob("*") if path.is_file()] == []


@needs(a_server)
def test_a_collection_that_was_replaced_or_dropped_answers_no_more(
    case: Case, tmp_path: Path
) -> None:
    """Searches that it answered before find none of its rows, even if they are repeated."""
    old, new = (
        make_world(case.schema, case.capabilities.nulls, rows=300, first_id=first_id, seed=3)
        for first_id in (1, 90_000)
    )
    filters: list[Filter | None] = [
        None,
        *list(case.filters(case.capabilities.filters).values())[:2],
    ]
    place, vectors = folder(tmp_path, "store"), queries(count=5)
    killed = case.make(place)
    load(killed, case, old)
    assert ids_outside(killed, case, vectors, filters, old) == set()
    killed.close()
    with closing(case.make(place)) as store:
        store.create(case.schema, case.build)
        assert store.count() == 0
        store.insert(new.batch())
        store.flush()
        store.build()
        store.wait_indexed()
        assert store.count() == 300
        assert ids_outside(store, case, vectors, filters, new) == set()
        search, answered = store.searcher(K, case.high_recall), []
        store.drop()
        with suppress(Exception):  # to say that there is no such collection is the best answer
            answered = search(vectors[0])[0].tolist()
        assert answered == []
    with closing(case.make(place)) as again:
        again.create(case.schema, case.build)
        assert again.count() == 0
        again.drop()


def ids_outside(
    store: Store,
    case: Case,
    vectors: NDArray[np.float32],
    filters: list[Filter | None],
    world: World,
) -> set[int]:
    """Ids that these searches find but `world` lacks; each search must find some."""
    found: set[int] = set()
    for where in filters:
        search = store.searcher(K, case.high_recall, where)
        ids = {int(id_) for query in vectors for id_ in search(query)[0]}
        assert ids or case.kind.filtered_floor is not None, where
        found |= ids
    return found - set(world.ids.tolist())


@pytest.fixture(scope="session")
def few(case: Case) -> World:
    """The rows that `small` has when it is loaded."""
    return make_world(case.schema, case.capabilities.nulls, rows=300, first_id=1, seed=3)


@pytest.fixture(scope="session")
def small(case: Case, few: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A loaded store of few rows; the last test that uses it adds some."""
    store = case.make(tmp_path_factory.mktemp("small"))
    load(store, case, few)
    yield store
    store.close()


@each_index
def test_k_beyond_the_rows(case: Case, small: Store, few: World) -> None:
    search = small.searcher(310, case.high_recall)
    answer = search(queries()[0])
    check_answer(case, few, queries()[0], answer)
    assert len(answer[0]) == 300 or (not case.kind.exact and len(answer[0]) < 300)


@each_index
@needs("inserts_after_build")
def test_what_was_written_is_seen_when_it_has_settled(case: Case, small: Store, few: World) -> None:
    """Use a searcher made before the rows settled, as `mixed` makes it outside the clock."""
    more = make_world(case.schema, case.capabilities.nulls, rows=20, first_id=50_000, seed=5)
    small.insert(more.batch(slice(0, 20)))
    small.auto_refresh = False
    search = small.searcher(
        K, case.high_recall.model_copy(update=dict(case.kind.strong_consistency_params))
    )
    small.refresh()
    every = few.merged_with(more)
    hits = [bool(set(search(v)[0].tolist()) & every.accepted(v, 1, None)) for v in more.vectors]
    assert np.mean(hits) >= floor(case)


def test_an_empty_batch_changes_nothing(case: Case, empty: Store, world: World) -> None:
    empty.create(case.schema, case.build)
    empty.insert(world.batch(slice(0, BATCH)))
    empty.insert(world.batch(slice(0, 0)))
    assert empty.count() == BATCH


@each_index_of_a_library
@needs("refuses_duplicates")
def test_duplicates_are_refused(case: Case, empty: Store, world: World) -> None:
    empty.create(case.schema, case.build)
    empty.insert(world.batch(slice(0, 300)))
    again = world.batch(slice(299, 301))
    with pytest.raises(Exception):  # noqa: B017, PT011 - the library's own exception is welcome
        empty.insert(again)
    twice = world.batch(np.array([400, 401, 400]))
    with pytest.raises(Exception):  # noqa: B017, PT011
        empty.insert(twice)
    assert empty.count() == 300, "a refused batch left rows behind"


@each_index_of_a_library
def test_wrong_dimension_is_refused(case: Case, empty: Store, world: World) -> None:
    empty.create(case.schema, case.build)
    narrow = Schema(DIM - 1, case.metric, case.schema.fields)
    metadata = {
        name: world.metadata.column(name).slice(0, 5).combine_chunks()
        for name in world.metadata.column_names
    }
    batch = batch_of(narrow, world.ids[:5], world.vectors[:5, : DIM - 1], metadata)
    with pytest.raises(Exception):  # noqa: B017, PT011 - the library's own exception is welcome
        empty.insert(batch)
    assert empty.count() == 0


@needs("payload_index")
def test_payload_index_changes_no_answer(case: Case, empty: Store, world: World) -> None:
    fields = tuple(Field(f.name, f.type, indexed=False) for f in case.schema.fields)
    _load(case, empty, world, fields)
    assert recall(case, world, empty.searcher(K, case.high_recall), K) >= floor(case)
    if case.capabilities.filters_need_index:
        _refuses_filters(case, empty, Schema(DIM, case.metric, fields), world)
        return
    for where in list(case.filters(case.capabilities.filters).values())[:3]:
        search = empty.searcher(K, case.high_recall, where)
        assert recall(case, world, search, K, where) >= floor(case, where)
    for where in case.filters(case.capabilities.find).values():
        found = empty.find(where, ROWS).tolist()
        assert sorted(found) == sorted(world.ids[world.matching(where)].tolist())


@needs("partitions")
def test_partitions_change_no_answer(case: Case, empty: Store, world: World) -> None:
    by = next(f for f in case.schema.fields if f.type is FieldType.INT)
    fields = tuple(replace(f, partitions=f is by) for f in case.schema.fields)
    _load(case, empty, world, fields)
    check_rows(case, empty.get(world.ids[:5]), world, world.ids[:5])
    assert recall(case, world, empty.searcher(K, case.high_recall), K) >= floor(case)
    value = world.metadata.column(by.name)[0].as_py()
    where = Eq(by.name, value)
    search = empty.searcher(K, case.high_recall, where)
    assert recall(case, world, search, K, where) >= floor(case, where)
    found = empty.find(where, ROWS).tolist()
    assert sorted(found) == sorted(world.ids[world.matching(where)].tolist())


def _load(case: Case, empty: Store, world: World, fields: tuple[Field, ...]) -> None:
    """Load all rows into a collection with these columns."""
    empty.create(Schema(DIM, case.metric, fields), case.build)
    for batch in world.batches():
        empty.insert(batch)
    empty.flush()
    empty.build()
    empty.wait_indexed()
    assert empty.count() == ROWS


def _refuses_filters(case: Case, store: Store, schema: Schema, world: World) -> None:
    """Check that columns without an index are read as written, and that a filter on one is refused
    by the plan and by the store, which must not answer as if there were no rows."""
    check_rows(case, store.get(world.ids[:5]), world, world.ids[:5])
    for where in case.filters(case.capabilities.filters).values():
        with pytest.raises(Unsupported, match="without an index"):
            refuse(case.store, schema, case.build, where)
        with pytest.raises(Exception):  # noqa: B017, PT011 - the library's own exception is welcome
            store.searcher(K, case.high_recall, where)(queries()[0])
        with pytest.raises(Exception):  # noqa: B017, PT011
            store.find(where, ROWS)


def _example_filter(operator: str) -> Filter:
    return next(where for where in FILTERS.values() if operator in operators(where))


@each_index
def test_what_is_not_declared_is_refused_at_plan_time(case: Case) -> None:
    store, schema, build = case.store, case.schema, case.build
    refuse(store, schema, build)
    with pytest.raises(Unsupported, match="no index"):
        refuse(store, schema, Index("no such index", NoParams()))
    for metric in set(Metric) - set(store.capabilities.scores):
        with pytest.raises(Unsupported, match="no metric"):
            refuse(store, Schema(DIM, metric), build)
    for metric in set(store.capabilities.scores) - set(case.capabilities.scores):
        with pytest.raises(Unsupported):
            refuse(store, Schema(DIM, metric), build)
    for missing in set(FieldType) - case.capabilities.field_types:
        with pytest.raises(Unsupported, match="column"):
            refuse(store, Schema(DIM, case.metric, (Field("x", missing),)), build)
    for operator in ALL_OPERATORS - case.capabilities.filters:
        with pytest.raises(Unsupported, match="filter"):
            refuse(store, schema, build, _example_filter(operator))
    if not case.capabilities.filters:
        with pytest.raises(Unsupported):
            refuse(store, schema, build, Range("number", gt=1))


@each_index
def test_operations_that_are_not_declared_say_so(case: Case, loaded: Store) -> None:
    no_ids = np.array([], np.int64)
    attempts: dict[str, Callable[[], object]] = {
        "get": lambda: loaded.get(no_ids),
        "delete": lambda: loaded.delete(no_ids),
        "upsert": lambda: loaded.upsert(pa.RecordBatch.from_pylist([], case.schema.arrow())),
        "scan": lambda: list(loaded.scan()),
        "find": lambda: loaded.find(Eq("number", 1), 1),
    }
    for operation, attempt in attempts.items():
        if not getattr(case.capabilities, operation):
            with pytest.raises(Unsupported):
                attempt()
