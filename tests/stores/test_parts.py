"""What stores share: rows beside an index, SQL filters, exact search in a block."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectrial.model.errors import PartialFailure, StoreError
from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, evaluate
from vectrial.model.metric import Metric, distances
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.stores.common.arrow import batch_of, check, ids_of, vectors_of
from vectrial.stores.common.exact import nearest, prepare_vectors
from vectrial.stores.common.rows import Rows
from vectrial.stores.common.sql import condition, literal

SCHEMA = Schema(4, Metric.L2, (Field("n", FieldType.INT), Field("s", FieldType.STRING)))


def rows_of(ids: list[int], stamp: int) -> pa.RecordBatch:
    """Rows that carry `stamp`, so that an old version can be told from a new one."""
    vectors = np.full((len(ids), 4), stamp, np.float32)
    names = [None if i % 3 == 0 else f"{i}'{stamp}" for i in ids]
    return batch_of(SCHEMA, np.array(ids, np.int64), vectors, {"n": [stamp] * len(ids), "s": names})


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "upsert", "delete"]),
        st.lists(st.integers(-20, 400), min_size=1, max_size=150, unique=True),
    ),
    max_size=25,
)


@settings(max_examples=60)
@given(OPERATIONS)
def test_rows_do_what_a_dictionary_does(operations: list[tuple[str, list[int]]]) -> None:
    rows, model = Rows(SCHEMA, keep_vectors=True), dict[int, int]()
    for stamp, (operation, ids) in enumerate(operations):
        if operation == "delete":
            rows.delete(np.array(ids, np.int64))
            model = {i: v for i, v in model.items() if i not in ids}
        elif operation == "upsert":
            rows.upsert(rows_of(ids, stamp))
            model |= dict.fromkeys(ids, stamp)
        elif set(ids) & set(model):
            with pytest.raises(PartialFailure) as failure:
                rows.insert(rows_of(ids, stamp))
            assert set(failure.value.failed_ids) == set(ids) & set(model)
        else:
            rows.insert(rows_of(ids, stamp))
            model |= dict.fromkeys(ids, stamp)
    assert len(rows) == len(model)
    everything = np.arange(-25, 410)
    assert rows.present(everything).tolist() == sorted(model)
    slots = rows.slots(np.array(sorted(model), np.int64))
    assert rows.vectors[slots, 0].tolist() == [model[i] for i in sorted(model)]
    got = rows.batch(slots, rows.vectors[slots])
    assert got.equals(
        pa.Table.from_batches(
            [rows_of([i], model[i]) for i in sorted(model)], schema=SCHEMA.arrow()
        )
        .combine_chunks()
        .to_batches()[0]
        if model
        else got
    )
    mixed = np.append(slots[::-1], slots)
    assert rows.batch(mixed, rows.vectors[mixed]).column("f0").to_pylist() == [
        model[i] for i in [*sorted(model, reverse=True), *sorted(model)]
    ]
    for stamp in range(len(operations)):
        expected = sorted(i for i, v in model.items() if v == stamp)
        assert sorted(rows.find(Eq("n", stamp), 1_000).tolist()) == expected


def test_rows_survive_a_file(tmp_path: Path) -> None:
    rows = Rows(SCHEMA)
    rows.insert(rows_of(list(range(10)), 1))
    rows.delete(np.array([3, 4]))
    rows.save(tmp_path / "rows.parquet")
    again = Rows(SCHEMA)
    again.load(tmp_path / "rows.parquet")
    assert len(again) == 8
    assert again.find(Not(IsNull("s")), 100).tolist() == [1, 2, 5, 7, 8]
    bare = Rows(Schema(4, Metric.L2))
    bare.insert(batch_of(bare.schema, np.arange(5), np.zeros((5, 4), np.float32), {}))
    bare.save(tmp_path / "bare.parquet")
    bare.load(tmp_path / "bare.parquet")
    assert bare.present(np.arange(9)).tolist() == [0, 1, 2, 3, 4]


def test_a_row_that_comes_twice_in_an_upsert_counts_once() -> None:
    rows = Rows(SCHEMA)
    two = pa.Table.from_batches([rows_of([1, 2], 1), rows_of([1], 2)]).combine_chunks()
    written = rows.upsert(two.to_batches()[0])
    assert ids_of(written).tolist() == [2, 1]
    assert rows.find(Eq("n", 2), 9).tolist() == [1]
    assert len(rows) == 2


def test_batches_are_viewed_not_copied() -> None:
    batch = rows_of(list(range(100)), 7)
    part = batch.slice(10, 5)
    assert vectors_of(part).shape == (5, 4)
    assert np.shares_memory(vectors_of(part), vectors_of(batch))
    assert ids_of(part).tolist() == [10, 11, 12, 13, 14]


def test_a_batch_in_another_layout_is_refused() -> None:
    batch = rows_of([1], 1)
    check(batch, SCHEMA)
    with pytest.raises(StoreError, match="column 's' is missing"):
        check(batch.drop_columns(["f1"]), SCHEMA)
    with pytest.raises(StoreError, match="column 'vector'"):
        check(batch, Schema(5, Metric.L2, SCHEMA.fields))
    with pytest.raises(StoreError, match="in this order"):
        check(batch.select(["vector", "id", "f0", "f1"]), SCHEMA)


WORDS = ["a", "it's", 'say "no"', "ü", "", "%", "a\\b", "x'; DROP TABLE t; --"]
LEAVES = st.one_of(
    st.builds(Eq, st.just("n"), st.integers(-3, 3)),
    st.builds(Eq, st.just("s"), st.sampled_from(WORDS)),
    st.builds(In, st.just("s"), st.lists(st.sampled_from(WORDS), min_size=1).map(tuple)),
    st.builds(Range, st.just("n"), gte=st.integers(-3, 3)),
    st.builds(Range, st.just("n"), gt=st.integers(-3, 3), lte=st.integers(-3, 3)),
    st.builds(IsNull, st.sampled_from(["n", "s"])),
)
FILTERS: st.SearchStrategy[Filter] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


@settings(max_examples=200)
@given(FILTERS)
def test_sql_means_what_the_algebra_means(where: Filter) -> None:
    pairs = [(n, s) for n in (None, -3, -1, 0, 2, 3) for s in (None, *WORDS)]
    table = pa.table(
        {
            "n": pa.array([n for n, _ in pairs], pa.int64()),
            "s": pa.array([s for _, s in pairs], pa.string()),
        }
    )
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (row INTEGER PRIMARY KEY, n BIGINT, s TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(i, *p) for i, p in enumerate(pairs)])
    expected = np.flatnonzero(evaluate(where, table)).tolist()
    text, values = condition(where)
    bound = connection.execute(f"SELECT row FROM t WHERE {text} ORDER BY row", values)
    assert [row for (row,) in bound] == expected
    written = connection.execute(f"SELECT row FROM t WHERE {literal(where)} ORDER BY row")
    assert [row for (row,) in written] == expected
    connection.close()


@settings(max_examples=80)
@given(
    st.sampled_from(list(Metric)),
    st.integers(1, 300),
    st.integers(1, 20),
    st.sampled_from([0.0, 1.0, 1e4]),
    st.sampled_from([1.0, 1e-16, 1e-18, 1e12]),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_exact_search_is_exact(
    metric: Metric, rows: int, k: int, shift: float, scale: float, seed: int, tied: bool
) -> None:
    """Also far from the origin, where float32 alone loses the differences, with many ties, and with
    some rows so short that float32 loses their squares."""
    rng = np.random.default_rng(seed)
    vectors = (rng.normal(size=(rows, 8)) + shift).astype(np.float32)
    vectors[rng.random(rows) < 0.5] *= np.float32(scale)
    if tied:
        vectors = vectors[rng.integers(0, max(1, rows // 10), rows)]
    query = ((rng.normal(size=8) + shift) * rng.choice([1.0, scale])).astype(np.float32)
    ids = rng.permutation(rows).astype(np.int64)
    kept = rng.random(rows) < 0.6
    got_ids, got = nearest(prepare_vectors(metric, vectors, ids, kept), query, k)
    true = distances(query, vectors, metric)
    order = np.lexsort((ids[kept], true[kept]))[:k]
    np.testing.assert_array_equal(got, true[kept][order])
    np.testing.assert_array_equal(got_ids, ids[kept][order])
