"""Made columns and the filters on them: exact shares, whatever the shape, and where they lie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vectrial.experiments.common.predicates import (
    DEEPEST,
    PREDICATES,
    Shape,
    aligned_filters,
    filter_properties,
    make_columns,
    matching_rows,
    opposed_filters,
    shape_filter,
)
from vectrial.model.dataset import Dataset, Provenance
from vectrial.model.filters import And, Eq, Filter, Or, Range, evaluate, fields, to_json
from vectrial.model.metric import Metric, distances

SHARES = st.floats(0.0001, 0.9999)


def dataset(rows: int, queries: int = 12, dim: int = 4, metric: Metric = Metric.L2) -> Dataset:
    rng = np.random.default_rng([rows, queries])
    return Dataset(
        "made",
        metric,
        rng.standard_normal((rows, dim)).astype(np.float32),
        7 * rng.permutation(rows).astype(np.int64) - 50,
        rng.standard_normal((queries, dim)).astype(np.float32),
        "made",
        Provenance("made", "none", "none"),
    )


@settings(max_examples=60)
@given(
    rows=st.integers(1, 400),
    pivots=st.integers(1, 9),
    share=SHARES,
    name=st.sampled_from(sorted(PREDICATES)),
    metric=st.sampled_from(list(Metric)),
)
def test_every_filter_keeps_exactly_the_rows_of_its_share(
    rows: int, pivots: int, share: float, name: str, metric: Metric
) -> None:
    data = dataset(rows, metric=metric)
    made = make_columns(data, orders=1, pivots=pivots, ranks=True)
    where = PREDICATES[name](made, share)
    assert len(where) == len(data.queries)
    for one in where:
        assert evaluate(one, made.table).sum() == matching_rows(rows, share) >= 1
    assert len({to_json(one) for one in where}) <= made.pivots


def test_there_are_as_many_filters_as_pivots() -> None:
    """As many as there are pivots, each asked by the queries that are nearest to its own."""
    data = dataset(500, queries=100)
    made = make_columns(data, orders=1, pivots=64, ranks=False)
    where = PREDICATES["independent"](made, 0.1)
    distinct = {to_json(one) for one in where}
    assert len(distinct) == len(set(made.pivot_of.tolist())) == 64
    assert all(evaluate(one, made.table).sum() == 50 for one in where)


@settings(max_examples=60)
@given(
    rows=st.integers(1, 300),
    depth=st.integers(1, DEEPEST),
    shape=st.sampled_from(["and", "or", "nested"]),
    share=SHARES,
)
def test_every_shape_keeps_exactly_the_rows_of_its_share(
    rows: int, depth: int, shape: Shape, share: float
) -> None:
    made = make_columns(dataset(rows), orders=DEEPEST, pivots=1, ranks=False)
    where = shape_filter(made, shape, depth, share)
    assert evaluate(where, made.table).sum() == matching_rows(rows, share)
    assert len(fields(where)) == depth


def test_shapes_are_joined_as_they_are_called() -> None:
    made = make_columns(dataset(100), orders=4, pivots=1, ranks=False)

    def form(where: Filter) -> str:
        if isinstance(where, And | Or):
            word = " and " if isinstance(where, And) else " or "
            return f"({word.join(map(form, where.parts))})"
        assert isinstance(where, Range)
        return where.field[-1]

    assert form(shape_filter(made, "and", 3, 0.1)) == "(0 and 1 and 2)"
    assert form(shape_filter(made, "or", 3, 0.1)) == "(0 or 1 or 2)"
    assert form(shape_filter(made, "nested", 4, 0.1)) == "(0 and (1 or (2 and 3)))"
    assert form(shape_filter(made, "nested", 1, 0.1)) == "0"


@pytest.mark.parametrize("metric", list(Metric))
def test_aligned_are_the_rows_nearest_to_the_querys_pivot_and_opposed_the_farthest(
    metric: Metric,
) -> None:
    data = dataset(200, queries=5, metric=metric)
    made = make_columns(data, orders=0, pivots=5, ranks=True)  # every query is a pivot
    near, far = aligned_filters(made, 0.1), opposed_filters(made, 0.1)
    for at, query in enumerate(data.queries):
        away = distances(query, data.vectors, metric)
        for one, expected in ((near[at], np.sort(away)[:20]), (far[at], np.sort(away)[-20:])):
            kept = evaluate(one, made.table)
            np.testing.assert_array_equal(np.sort(away[kept]), expected)


def test_what_is_made_depends_on_the_data_alone_and_is_known_by_a_fingerprint() -> None:
    data = dataset(50)
    made = make_columns(data, orders=2, pivots=3, ranks=True)
    again = make_columns(data, orders=2, pivots=3, ranks=True)
    assert made.table.equals(again.table)
    told = made.with_columns(replace(data, metadata=pa.table({"own": range(50)})))
    assert told.metadata is not None
    assert told.metadata.column_names == ["own", *made.table.column_names]
    assert told.fingerprint == again.with_columns(data).fingerprint != data.fingerprint
    fewer = make_columns(data, orders=1, pivots=3, ranks=True)
    assert fewer.with_columns(data).fingerprint != told.fingerprint


def test_correlation_says_where_the_rows_are_that_a_filter_keeps() -> None:
    data = dataset(2_000, queries=40)
    made = make_columns(data, orders=1, pivots=40, ranks=True)
    there = made.with_columns(data)
    told = {name: filter_properties(there, PREDICATES[name](made, 0.2), {}) for name in PREDICATES}
    assert told["aligned"].correlation.mean() == 1.0
    assert told["opposed"].correlation.mean() == -1.0
    assert abs(told["independent"].correlation.mean()) < 0.1
    for one in told.values():
        np.testing.assert_array_equal(one.selectivity, 0.2)


def test_correlation_is_that_of_all_pairs_where_few_rows_are_left() -> None:
    data = replace(dataset(60, queries=3), metadata=pa.table({"n": [i % 3 for i in range(60)]}))
    mask = np.arange(60) % 3 == 1
    told = filter_properties(data, Eq("n", 1), {})
    for at, query in enumerate(data.queries):
        away = distances(query, data.vectors, data.metric)
        pairs = np.sign(away[~mask][None, :] - away[mask][:, None])
        assert told.correlation[at] == pytest.approx(pairs.mean())


def test_filters_that_keep_all_or_nothing_have_no_correlation() -> None:
    data = replace(dataset(10, queries=2), metadata=pa.table({"n": range(10)}))
    told = filter_properties(data, [Range("n", lt=0), Range("n", lt=10)], {})
    assert told.correlation.tolist() == []
    assert told.selectivity.tolist() == [0.0, 1.0]


def test_violations_are_answers_with_a_row_that_is_left_out_or_unknown() -> None:
    data = replace(dataset(10, queries=4), metadata=pa.table({"n": range(10)}))
    kept, left = data.ids[:5], data.ids[5:]
    unknown = np.array([data.ids.max() + 1])
    where = Range("n", lt=5)
    right = {0: kept, 1: kept[:0]}
    assert filter_properties(data, where, right).violations == 0
    wrong = {2: np.concatenate([kept[:2], left[:1]]), 3: unknown}
    assert filter_properties(data, where, right | wrong).violations == 2
