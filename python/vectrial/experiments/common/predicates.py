"""Columns made for filters whose selectivity and place are known exactly, and filters on them.

Of n rows, every filter keeps exactly m = min(n, max(1, round(s n))) for the share s wanted:

    independent  `made_order_0` holds 8 π(row), π a seeded permutation of 0 … n-1; a filter keeps a
                 window of m of its values, whatever the vectors are
    aligned      `made_rank_p` holds the rank of the row's distance from pivot p (0: the nearest;
                 equal distances by row); kept are the m rows nearest to the pivot that is nearest
                 to the query
    opposed      kept are the m rows farthest from that pivot
    shapes       `made_order_j` holds 8 π_j(row) + j, so that no value occurs twice in all columns;
                 with c_j: `made_order_j < t`, `and` is c_0 ∧ … ∧ c_d-1, `or` is c_0 ∨ … ∨ c_d-1,
                 `nested` is c_0 ∧ (c_1 ∨ (c_2 ∧ …)). A row passes exactly when the maximum, the
                 minimum, or maximum and minimum in turn of its values is below t, which is
                 therefore the (m+1)-th smallest of these: each c_j is as selective as it must be

Pivots are queries drawn by a seed; the seed and the data alone decide, so that all stores get the
same columns. How a filter correlates with the place of the query is measured, not assumed: see
`filter_properties`. `condition` makes a filter on the dataset's own columns.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model import filters
from vectrial.model.dataset import Dataset
from vectrial.model.errors import StoreError
from vectrial.model.filters import And, Eq, Filter, Or, Range
from vectrial.model.metric import Metric, distances

Shape = Literal["and", "or", "nested"]

#: The deepest shape, and the columns that shapes are made of.
DEEPEST = 8
_SEED = 20_240
_BLOCK = 1 << 22
#: Rows of each side that a query's correlation is taken from, and queries it is taken of.
_SAMPLED_ROWS, _SAMPLED_QUERIES = 256, 200


@dataclass(frozen=True)
class PredicateColumns:
    """Generated columns for filters. table: the columns, n rows. pivot_of: the pivot nearest to
    each query, (q,). pivots: number of pivots."""

    table: pa.Table
    pivot_of: NDArray[np.int64]
    pivots: int

    def with_columns(self, dataset: Dataset) -> Dataset:
        """The dataset with these columns in addition to its own, and without its filters."""
        seen = hashlib.sha256(dataset.fingerprint.encode())
        table = dataset.metadata
        for name in self.table.column_names:
            column = self.table.column(name)
            seen.update(name.encode() + np.ascontiguousarray(column.to_numpy()).tobytes())
            table = pa.table({name: column}) if table is None else table.append_column(name, column)
        return replace(dataset, metadata=table, filters=None, fingerprint=seen.hexdigest())


def make_columns(dataset: Dataset, *, orders: int, pivots: int, ranks: bool) -> PredicateColumns:
    """`orders` columns of permutations, and with `ranks` a column of ranks for each pivot.

    pivots: the maximum; never more than there are queries.
    """
    rows, queries = dataset.rows, dataset.queries
    columns: dict[str, NDArray[np.int64]] = {}
    for at in range(orders):
        drawn = np.random.default_rng([_SEED, rows, at]).permutation(rows)
        columns[_order_name(at)] = DEEPEST * drawn.astype(np.int64) + at
    pivots = min(pivots, len(queries))
    rng = np.random.default_rng([_SEED, len(queries), pivots])
    chosen = queries[np.sort(rng.choice(len(queries), pivots, replace=False))]
    if ranks:
        for at, pivot in enumerate(chosen):
            columns[_rank_name(at)] = _ranks(pivot, dataset.vectors, dataset.metric)
    # Under the inner product a vector need not be nearest to itself: directions are compared.
    near = Metric.COSINE if dataset.metric is Metric.IP else dataset.metric
    away = np.stack([distances(pivot, queries, near) for pivot in chosen], axis=1)
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    return PredicateColumns(table, away.argmin(axis=1).astype(np.int64), pivots)


def _order_name(at: int) -> str:
    return f"made_order_{at}"


def _rank_name(pivot: int) -> str:
    return f"made_rank_{pivot}"


def _ranks(
    pivot: NDArray[np.float32], vectors: NDArray[np.float32], metric: Metric
) -> NDArray[np.int64]:
    """The rank of each row by its distance from the pivot, computed in blocks."""
    rows, step = len(vectors), max(1, _BLOCK // vectors.shape[1])
    away = np.empty(rows)
    for start in range(0, rows, step):
        away[start : start + step] = distances(pivot, vectors[start : start + step], metric)
    out = np.empty(rows, np.int64)
    out[np.argsort(away, kind="stable")] = np.arange(rows)
    return out


def matching_rows(rows: int, share: float) -> int:
    """Number of rows that a filter of this share keeps."""
    return min(rows, max(1, round(share * rows)))


def independent_filters(columns: PredicateColumns, share: float) -> list[Filter]:
    """Filters that keep a window of a permutation, one per query: each pivot has a window, spread
    over the values."""
    rows = columns.table.num_rows
    kept = matching_rows(rows, share)
    starts = [at * (rows - kept) // max(1, columns.pivots - 1) for at in range(columns.pivots)]
    windows = [
        Range(_order_name(0), gte=DEEPEST * start, lt=DEEPEST * (start + kept)) for start in starts
    ]
    return [windows[pivot] for pivot in columns.pivot_of.tolist()]


def aligned_filters(columns: PredicateColumns, share: float) -> list[Filter]:
    """Filters that keep the rows nearest to a query's pivot, one for each query."""
    kept = matching_rows(columns.table.num_rows, share)
    return [Range(_rank_name(pivot), lt=kept) for pivot in columns.pivot_of.tolist()]


def opposed_filters(columns: PredicateColumns, share: float) -> list[Filter]:
    """Filters that keep the rows farthest from a query's pivot, one for each query."""
    rows = columns.table.num_rows
    kept = matching_rows(rows, share)
    return [Range(_rank_name(pivot), gte=rows - kept) for pivot in columns.pivot_of.tolist()]


#: The function that makes the filters of each predicate.
PREDICATES = {
    "independent": independent_filters,
    "aligned": aligned_filters,
    "opposed": opposed_filters,
}


def shape_filter(columns: PredicateColumns, shape: Shape, depth: int, share: float) -> Filter:
    """Conditions on `depth` columns joined to `shape`, one filter for all queries."""
    orders = [columns.table.column(_order_name(at)).to_numpy() for at in range(depth)]
    decides = orders[-1]
    for at in reversed(range(depth - 1)):
        decides = (np.maximum if _is_conjunction(shape, at) else np.minimum)(orders[at], decides)
    rows = len(decides)
    kept = matching_rows(rows, share)
    bound = DEEPEST * rows if kept == rows else int(np.partition(decides, kept)[kept])
    parts: list[Filter] = [Range(_order_name(at), lt=bound) for at in range(depth)]
    if depth == 1:
        return parts[0]
    if shape != "nested":
        return And(tuple(parts)) if shape == "and" else Or(tuple(parts))
    out = parts[-1]
    for at in reversed(range(depth - 1)):
        out = And((parts[at], out)) if _is_conjunction(shape, at) else Or((parts[at], out))
    return out


def _is_conjunction(shape: Shape, at: int) -> bool:
    return shape == "and" or (shape == "nested" and at % 2 == 0)


# -- conditions on the dataset's own columns ---------------------------------------------------


def condition(metadata: pa.Table, selectivity: float) -> Filter:
    """The condition on one column that keeps the share of rows nearest to `selectivity`, as a
    ratio: an upper bound on a numeric column, or equality with a value if there is no such column.
    Between equals, the first column wins.

    Raises:
        StoreError: no value of any column keeps any row.
    """
    numeric = [c.name for c in metadata.schema if _is_number(c.type)]
    found: list[tuple[float, Filter]] = []
    for name in numeric or metadata.column_names:
        column = metadata.column(name).drop_null()
        if not len(column):
            continue
        every = _bounds if numeric else _values
        for where, share in every(name, column, metadata.num_rows, selectivity):
            found.append((abs(math.log(share / selectivity)), where))
    if not found:
        raise StoreError("no column of the metadata has a value")
    return min(found, key=lambda one: one[0])[1]


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _values(
    name: str, column: pa.ChunkedArray[Any], rows: int, selectivity: float
) -> Iterator[tuple[Filter, float]]:
    """Equality with every value of a column without nulls, with the share that it keeps."""
    found: list[Any] = column.to_pylist()
    for value, count in Counter(found).items():
        yield Eq(name, value), count / rows


def _bounds(
    name: str, column: pa.ChunkedArray[Any], rows: int, selectivity: float
) -> Iterator[tuple[Filter, float]]:
    """Upper bounds on a column without nulls, with the share that each keeps: the bounds on both
    sides of the wanted share."""
    values = np.sort(column.to_numpy())
    values = values[np.isfinite(values)]
    if not len(values):
        return
    at = min(max(round(selectivity * rows) - 1, 0), len(values) - 1)
    below = max(int(np.searchsorted(values, values[at], "left")) - 1, 0)
    for bound in (values[at].item(), values[below].item()):
        kept = int(np.searchsorted(values, bound, "right"))
        yield Range(name, lte=bound), kept / rows


# -- what filters have to do with their queries ------------------------------------------------


@dataclass(frozen=True)
class FilterProperties:
    """Properties of filters, on the rows and for the queries that they were used with.

    selectivity: share of the rows kept, for each query, (q,).
    correlation: correlation for a sample of the queries whose filter keeps some rows, but not all.
    violations: number of checked answers with a row that the filter does not keep.
    """

    selectivity: NDArray[np.float64]
    correlation: NDArray[np.float64]
    violations: int


def filter_properties(
    dataset: Dataset, where: Filter | Sequence[Filter], answers: Mapping[int, NDArray[np.int64]]
) -> FilterProperties:
    """Evaluate every distinct filter once, holding no more than one mask.

    The correlation of a filter with a query is the rank-biserial correlation, 2 P(a < b) + P(a = b)
    - 1, where a and b are the query's distances from a row that the filter keeps and from a row
    that it does not keep: 1 if all kept rows are nearer than all others, 0 if the filter is
    unrelated to where the query is, -1 if they are all farther. It is estimated from up to 256 rows
    of each side.

    Args:
        answers: ids that were returned, by query.
    """
    queries = len(dataset.queries)
    each = list(where) if isinstance(where, Sequence) else [where] * queries
    asking: dict[str, list[int]] = {}
    for at, one in enumerate(each):
        asking.setdefault(filters.to_json(one), []).append(at)
    assert dataset.metadata is not None
    sampled = set(np.linspace(0, queries - 1, min(queries, _SAMPLED_QUERIES)).astype(int).tolist())
    order = np.argsort(dataset.ids) if answers else np.zeros(0, np.int64)
    selectivity = np.empty(queries)
    correlation: list[float] = []
    violations = 0
    for group in asking.values():
        mask = filters.evaluate(each[group[0]], dataset.metadata)
        selectivity[group] = mask.mean()
        correlation += _correlations(dataset, mask, [at for at in group if at in sampled])
        for at in group:
            if at in answers:
                violations += not _keeps_all(dataset.ids, order, mask, answers[at])
    return FilterProperties(selectivity, np.array(correlation), violations)


def _correlations(dataset: Dataset, mask: NDArray[np.bool_], queries: Sequence[int]) -> list[float]:
    inside, outside = np.flatnonzero(mask), np.flatnonzero(~mask)
    if not len(inside) or not len(outside) or not queries:
        return []
    rng = np.random.default_rng([_SEED, len(mask), len(inside)])
    sides = [
        dataset.vectors[np.sort(rng.choice(side, min(len(side), _SAMPLED_ROWS), replace=False))]
        for side in (inside, outside)
    ]
    out = []
    for at in queries:
        near, far = (distances(dataset.queries[at], side, dataset.metric) for side in sides)
        far.sort()
        # Pairs in which the row kept is the nearer one, and those in which it is no farther.
        above = len(far) - np.searchsorted(far, near, "right")
        least = len(far) - np.searchsorted(far, near, "left")
        out.append(float((above + least).mean() / len(far) - 1))
    return out


def _keeps_all(
    ids: NDArray[np.int64],
    order: NDArray[np.int64],
    mask: NDArray[np.bool_],
    found: NDArray[np.int64],
) -> bool:
    """True if the mask keeps the row of every id found. order: the order that sorts `ids`."""
    at = np.minimum(np.searchsorted(ids, found, sorter=order), len(ids) - 1)
    rows = order[at]
    return bool((ids[rows] == found).all() and mask[rows].all())
