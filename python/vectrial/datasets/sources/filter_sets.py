"""One filter per query, of every kind and selectivity, over a dataset's own columns.

The kinds take turns. *Control* filters read `random_number` and are independent of the
vectors; filters on the query's own value are correlated with them (near rows share it), and
filters on another row's value the other way round. Which rows pass is a matter of the data, so
a filter that no row passes is replaced by a control filter that some do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.sources.material import RANDOM_NUMBERS, Material
from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, evaluate

#: Shares of all rows that the control filters keep, in expectation.
SHARES = (0.9, 0.5, 0.1, 0.01, 0.001, 0.0004)
_QUANTILES = (0.5, 0.9, 0.99)

Row = Mapping[str, Any]
Case = Callable[[Row, Row], Filter]


def per_query(
    base: pa.Table, asked: pa.Table, *, categories: Sequence[str], numbers: Sequence[str], seed: int
) -> tuple[tuple[Filter, ...], NDArray[np.float64]]:
    """A filter for each row of `asked`, and the share of `base` that each keeps, (q,).

    Args:
        base: metadata of the rows that are searched, with the column `random_number`.
        asked: metadata of the queries, with the same columns.
        categories: text columns to compare for equality.
        numbers: numeric columns to take ranges of.
    """
    cases = _cases(base, categories, numbers)
    others = np.random.RandomState(seed).randint(0, base.num_rows, asked.num_rows)
    strangers = base.take(others).to_pylist()
    filters: list[Filter] = []
    shares = np.empty(asked.num_rows)
    for at, (own, other) in enumerate(zip(asked.to_pylist(), strangers, strict=True)):
        where = cases[at % len(cases)](own, other)
        passing = int(evaluate(where, base).sum())
        if not passing:
            where = Range("random_number", lte=int(other["random_number"]))
            passing = int(evaluate(where, base).sum())
        filters.append(where)
        shares[at] = passing / base.num_rows
    return tuple(filters), shares


def with_filters(made: Material, asked: pa.Table, **options: Any) -> Material:
    """Material with a filter for each query and a note of their selectivities; for the other
    arguments see `per_query`."""
    assert made.metadata is not None
    filters, shares = per_query(made.metadata, asked, **options)
    low, middle, high = np.percentile(shares, [0, 50, 100])
    note = f"filters keep {low:.5f} to {high:.3f} of the rows, median {middle:.3f}"
    return replace(made, filters=filters, notes=(*made.notes, note))


def _cases(base: pa.Table, categories: Sequence[str], numbers: Sequence[str]) -> list[Case]:
    cases: list[Case] = [_control(share) for share in SHARES]
    for column in categories:
        cases += _of_column(column)
    for first, second in pairwise(categories):
        cases.append(_either(first, second))
    for column in numbers:
        values = base.column(column).drop_null().to_numpy()
        cases += [_at_least(column, float(np.quantile(values, q))) for q in _QUANTILES]
    return cases


def _control(share: float) -> Case:
    bound = round(share * RANDOM_NUMBERS)
    return lambda own, other: Range("random_number", lt=bound)


def _equal(column: str, value: Any) -> Filter:
    return IsNull(column) if value is None else Eq(column, value)


def _of_column(column: str) -> list[Case]:
    """Own value, another row's, either of them, any but its own, its own in half the rows."""
    half = Range("random_number", lt=RANDOM_NUMBERS // 2)

    def several(own: Row, other: Row) -> Filter:
        values = sorted({row[column] for row in (own, other) if row[column] is not None})
        return In(column, tuple(values)) if values else IsNull(column)

    return [
        lambda own, other: _equal(column, own[column]),
        lambda own, other: _equal(column, other[column]),
        several,
        lambda own, other: Not(_equal(column, own[column])),
        lambda own, other: And((_equal(column, own[column]), half)),
    ]


def _either(first: str, second: str) -> Case:
    return lambda own, other: Or((_equal(first, own[first]), _equal(second, own[second])))


def _at_least(column: str, bound: float) -> Case:
    exact = int(bound) if bound.is_integer() else bound
    return lambda own, other: Range(column, gte=exact)
