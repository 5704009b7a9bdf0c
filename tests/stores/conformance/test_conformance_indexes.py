"""Columns have an index where one is asked for, by the own lists of stores known here."""

from __future__ import annotations

from indexed_columns import LISTS, indexed_columns

from vectrial.model.schema import Field, Schema
from vectrial.model.store import Store
from vectrial.testing.conformance.cases import needs
from vectrial.testing.conformance.world import DIM, Case, make_world


@needs("payload_index")
def test_columns_have_an_index_where_one_is_asked_for_and_nowhere_else(
    case: Case, loaded: Store, empty: Store
) -> None:
    """By the store's own list: answers are the same when a column is indexed all the same."""
    assert case.store.name in LISTS, "how it lists its indexes belongs into indexed_columns.py"
    never = LISTS[case.store.name].never
    wanted = {field.name for field in case.schema.fields if field.type not in never}
    assert wanted
    assert indexed_columns(loaded, case.schema) == wanted
    fields = tuple(Field(f.name, f.type, indexed=False) for f in case.schema.fields)
    few = make_world(case.schema, case.capabilities.nulls, rows=300, first_id=1, seed=3)
    empty.create(Schema(DIM, case.metric, fields), case.build)
    empty.insert(few.batch())
    empty.flush()
    empty.build()
    empty.wait_indexed()
    assert indexed_columns(empty, case.schema) == set()
