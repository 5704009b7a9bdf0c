"""Many rows in one call: what a client or a server takes at once is no limit of a store.

Here and not in the shipped suite: a DocumentArray, which deletes one row after another and writes
the places of all others each time, would take hours.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from vectrial.model.capabilities import Index
from vectrial.model.filters import Filter, In, Range, operators
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Store
from vectrial.stores.common.arrow import batch_of, ids_of, vectors_of
from vectrial.testing.conformance.test_reads import same_vectors
from vectrial.testing.conformance.world import Case

#: More than SQLite's variables (32,766), Milvus' rows of an answer (16,384), Elasticsearch's
#: (10,000); values of a list, each of which Chroma hands to SQLite twice; and all rows. Of few
#: dimensions, which they take their time with.
MANY, LISTED, ROWS, DIM = 35_000, 15_000, 40_000, 8

#: Parameters of graphs that are built in a moment: nothing is searched here.
FEW_LINKS = {"m": 4, "ef_construction": 16}


def built_soon(index: Index) -> Index:
    """The index with `FEW_LINKS`, as far as it has them."""
    model = type(index.params)
    few = {name: value for name, value in FEW_LINKS.items() if name in model.model_fields}
    return replace(index, params=model.model_validate({**index.params.model_dump(), **few}))


@pytest.mark.slow
def test_many_rows_in_one_call(case: Case, empty: Store) -> None:
    can = case.capabilities
    numbers = [Field("number", FieldType.INT)] if FieldType.INT in can.field_types else []
    schema = Schema(DIM, case.metric, tuple(numbers))
    rng = np.random.default_rng(8)
    ids = rng.permutation(ROWS).astype(np.int64)
    vectors = rng.normal(size=(ROWS, DIM)).astype(np.float32)
    empty.create(schema, built_soon(case.build))
    empty.insert(batch_of(schema, ids, vectors, {"number": pa.array(ids)} if numbers else {}))
    empty.flush()
    empty.build()
    empty.wait_indexed()
    assert empty.count() == ROWS
    some: list[Filter] = [Range("number", gte=0), In("number", tuple(range(LISTED)))]
    for where, count in zip(some, (ROWS, LISTED), strict=True):
        if numbers and operators(where) <= can.find:
            assert sorted(empty.find(where, ROWS).tolist()) == list(range(count))
    if can.get:
        rows = empty.get(ids[:MANY])
        order, wanted = np.argsort(ids_of(rows)), np.argsort(ids[:MANY])
        assert ids_of(rows)[order].tolist() == ids[wanted].tolist()
        if case.kind.exact_scores:
            assert same_vectors(case, vectors_of(rows)[order], vectors[wanted])
    if can.delete:
        empty.delete(ids[:MANY])
        assert empty.count() == ROWS - MANY
    if can.delete and can.get:
        assert sorted(ids_of(empty.get(ids)).tolist()) == sorted(ids[MANY:].tolist())
