"""Metadata columns of any name: what people's files have, and what a store has for itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from vectrial.engine.client import Requests, closed, drive
from vectrial.model.capabilities import Returning
from vectrial.model.filters import And, Eq, Filter, IsNull, Not, evaluate, operators
from vectrial.model.lane import writes_natively
from vectrial.model.schema import ARROW_TYPES, Field, FieldType, Schema
from vectrial.model.store import Store
from vectrial.testing.conformance.cases import a_protocol, needs
from vectrial.testing.conformance.world import DIM, Case, World, as_rows, folder, load
from vectrial.workload.native.rows import columns_of, send

ROWS = 60
#: Columns as Vectrial and stores have them, as people have them, words of SQL, text to be quoted.
NAMES = (
    *("id", "vector", "score", "_id", "distance", "embedding", "metadata", "document", "payload"),
    *("_distance", "rowid", "_rowid", "row", "__row", "f0", "f1", "rank", "uuid", "text", "$eq"),
    *("Name", "name", "NAME", "select", "group by", "null", "true", "order", "x; drop table rows"),
    *("Größe in cm", "naïve 彩色 🦉", 'it\'s "quoted"', "`tick`", "back\\slash", "100%_s", "{0}"),
    *("a.b.c", "a__b", "[0]", "1st", "", "  ", "long " * 60),
)
KINDS = tuple(FieldType)
#: Bytes of a long text, no two parts of which are alike: it cannot be compressed. Less where the
#: store says that it keeps less.
LONG = 30_000


@pytest.fixture(scope="session")
def named(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, World]]:
    """A loaded store with all these columns, and its rows."""
    kinds = [kind for kind in KINDS if kind in case.capabilities.field_types]
    # An index of every column takes its time in some stores; those of the first kinds suffice.
    fields = tuple(
        Field(name, kinds[at % len(kinds)], indexed=at < 6 or case.capabilities.filters_need_index)
        for at, name in enumerate(NAMES)
    )
    if FieldType.STRING in kinds:
        longest = min(LONG, case.capabilities.text_bytes or LONG)
        fields = (*fields, Field("long", FieldType.STRING, longest=longest))
    world = make_rows(Schema(DIM, case.metric, fields), nulls=case.capabilities.nulls)
    store = case.make(folder(tmp_path_factory.mktemp("named"), "store"))
    load(store, case, world)
    yield store, world
    store.close()


def make_rows(schema: Schema, *, nulls: bool) -> World:
    """Rows in which no two columns have a value in common, except true and false."""
    rng = np.random.default_rng(3)
    columns = {}
    for at, field in enumerate(schema.fields):
        cells = [_cell(field.type, at, row) for row in range(ROWS)]
        if field.longest:
            letters = rng.integers(97, 123, (5, field.longest - 2)).astype(np.uint8)
            cells = [f"{row % 5} {letters[row % 5].tobytes().decode()}" for row in range(ROWS)]
        if nulls:
            cells = [None if row % 7 == at % 7 else cell for row, cell in enumerate(cells)]
        columns[field.name] = pa.array(cells, ARROW_TYPES[field.type])
    vectors = rng.normal(size=(ROWS, schema.dim)).astype(np.float32)
    ids = rng.permutation(ROWS).astype(np.int64) * 3 + 11
    return World(schema, ids, vectors, pa.table(columns))


def _cell(kind: FieldType, column: int, row: int) -> Any:
    match kind:
        case FieldType.INT:
            return 100 * column + row % 5
        case FieldType.FLOAT:
            return 100 * column + (row % 5) / 8
        case FieldType.STRING:
            return f"value {column}.{row % 5}"
        case FieldType.BOOL:
            return (row + column) % 3 == 0


def conditions(world: World, honoured: frozenset[str]) -> list[Filter]:
    """A filter on each column, and one on columns of neighbouring names."""
    each: list[Filter] = []
    for name in world.schema.columns:
        value = world.metadata.column(name)[8].as_py() or world.metadata.column(name)[9].as_py()
        each += [Eq(name, True if value is None else value), IsNull(name)]
    first, second, third = (world.schema.fields[at].name for at in (20, 21, 22))
    some = [one for one in each if isinstance(one, Eq) and one.field in (first, second, third)]
    each += [And((some[0], Not(some[1]))), Not(some[2])]
    return [one for one in each if operators(one) <= honoured]


@needs("field_types")
def test_rows_are_read_as_they_were_written(case: Case, named: tuple[Store, World]) -> None:
    store, world = named
    expected = as_rows(world.batch(), world.schema)
    if case.capabilities.get:
        assert as_rows(store.get(world.ids), world.schema) == expected
    if case.capabilities.scan:
        batches = list(store.scan(25))
        assert as_rows(pa.Table.from_batches(batches), world.schema) == expected
    assert store.count() == ROWS


@needs("field_types")
def test_finds_and_searches_read_the_right_column(case: Case, named: tuple[Store, World]) -> None:
    store, world = named
    for where in conditions(world, case.capabilities.find):
        expected = set(world.ids[evaluate(where, world.metadata)].tolist())
        assert set(store.find(where, ROWS).tolist()) == expected, where
    for where in conditions(world, case.capabilities.filters):
        expected = set(world.ids[evaluate(where, world.metadata)].tolist())
        found = store.searcher(ROWS, case.high_recall, where)(world.vectors[0])[0].tolist()
        assert set(found) <= expected, where
        if case.kind.exact:
            assert set(found) == expected, where


@needs("field_types", a_protocol)
def test_the_native_lane_names_columns_as_the_client_does(
    case: Case, named: tuple[Store, World], empty: Store
) -> None:
    store, world = named
    for where in conditions(world, case.capabilities.filters):
        native = store.native_search(10, case.high_recall, where)
        assert native.filter is not None
        requests = Requests(
            "search",
            vectors=world.vectors[:3],
            k=10,
            filters=[native.filter],
            options=native.options,
            keep=True,
        )
        (found,) = drive(native.target, [requests], [closed(1, count=3)])["classes"]
        assert found["recorder"].errors() == [], where
        kept = set(world.ids[evaluate(where, world.metadata)].tolist())
        assert found["answers"] is not None
        assert {one for one in found["answers"][1].ravel().tolist() if one >= 0} <= kept, where
    if Returning.METADATA in case.capabilities.returns:
        whole = store.searcher_returning(Returning.METADATA, 10, case.high_recall)
        assert len(whole(world.vectors[0])[0]) == 10
    if not (writes_natively(case.store) and case.capabilities.get):
        return
    empty.create(world.schema, case.build)
    native_rows = empty.native_rows()
    columns = columns_of(world.metadata, native_rows.columns)
    outcome = send(native_rows, "insert", world.ids, world.vectors, columns, batch=25)
    assert outcome["classes"][0]["recorder"].errors() == []
    empty.flush()
    empty.build()
    empty.wait_indexed()
    assert as_rows(empty.get(world.ids), world.schema) == as_rows(world.batch(), world.schema)
