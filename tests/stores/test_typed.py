"""Filters fitted to the types of their columns keep exactly the rows that they kept before."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, evaluate
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.stores.common.typed import coerce_values

SCHEMA = Schema(
    2,
    Metric.L2,
    (
        Field("count", FieldType.INT),
        Field("price", FieldType.FLOAT),
        Field("name", FieldType.STRING),
        Field("flag", FieldType.BOOL),
    ),
)
#: True of no number, and unknown of a missing one.
NOTHING = Range("count", gt=0, lt=0)
LEAST, GREATEST = -(2**63), 2**63 - 1
TABLE = pa.table(
    {
        "count": pa.array([*range(-4, 4), 2**53 + 2, None, LEAST, GREATEST], pa.int64()),
        "price": pa.array([*np.arange(-4, 5) / 2, None, -1e300, 1e300], pa.float64()),
        "name": pa.array([*"abcdefghi", None, "", "2"], pa.string()),
        "flag": pa.array([True, False] * 4 + [None, True, False, True], pa.bool_()),
    }
)


def leaves(where: Filter) -> list[Eq | In | Range | IsNull]:
    match where:
        case And(parts) | Or(parts):
            return [leaf for part in parts for leaf in leaves(part)]
        case Not(part):
            return leaves(part)
        case _:
            return [where]


def values(leaf: Eq | In | Range | IsNull) -> list[object]:
    match leaf:
        case Eq():
            return [leaf.value]
        case In():
            return list(leaf.values)
        case Range():
            return [b for b in (leaf.gt, leaf.gte, leaf.lt, leaf.lte) if b is not None]
        case IsNull():
            return []


@pytest.mark.parametrize(
    ("where", "becomes"),
    [
        (Range("count", gt=2.5), Range("count", gte=3)),
        (Range("count", gte=2.5), Range("count", gte=3)),
        (Range("count", lt=2.5), Range("count", lte=2)),
        (Range("count", lte=2.5), Range("count", lte=2)),
        (Range("count", gt=-2.5), Range("count", gte=-2)),
        (Range("count", gte=-2.5, lt=2.0), Range("count", gte=-2, lte=1)),
        (Range("count", lte=math.inf), Range("count", lte=GREATEST)),
        (Range("count", gte=-math.inf), Range("count", gte=LEAST)),
        (Range("count", gte=math.inf), NOTHING),
        (Range("count", lt=-1e30), NOTHING),
        (Range("count", gt=math.nan), NOTHING),
        (Range("count", gt=1, gte=4, lt=9, lte=10), Range("count", gte=4, lte=8)),
        (Eq("count", 2**70), NOTHING),
        (Eq("count", 2.0), Eq("count", 2)),
        (Eq("count", 2.5), NOTHING),
        (In("count", (1.5, 2.0, 3)), In("count", (2, 3))),
        (In("count", (1.5, 2.5)), NOTHING),
        (Range("price", gt=1, lte=2), Range("price", gt=1.0, lte=2.0)),
        (Eq("price", 1), Eq("price", 1.0)),
        (In("price", (1, 1.5)), In("price", (1.0, 1.5))),
        (Eq("name", "2"), Eq("name", "2")),
        (Eq("flag", True), Eq("flag", True)),
        (IsNull("count"), IsNull("count")),
        (Not(Range("count", gt=2.5)), Not(Range("count", gte=3))),
        (
            Or((Eq("price", 1), And((Eq("count", 2.0), Eq("name", "a"))))),
            Or((Eq("price", 1.0), And((Eq("count", 2), Eq("name", "a"))))),
        ),
    ],
)
def test_what_a_filter_becomes(where: Filter, becomes: Filter) -> None:
    got = coerce_values(where, SCHEMA)
    assert got == becomes
    # 2 == 2.0 and True == 1 in Python: the types are what this is about.
    assert [list(map(type, values(leaf))) for leaf in leaves(got)] == [
        list(map(type, values(leaf))) for leaf in leaves(becomes)
    ]


@pytest.mark.parametrize(
    "where", [Eq("price", -0.0), In("price", (-0.0,)), Range("price", gte=-0.0)]
)
def test_minus_zero_becomes_zero(where: Filter) -> None:
    (value,) = values(coerce_values(where, SCHEMA))
    assert math.copysign(1, value) == 1


def kept(where: Filter, row: dict[str, Any]) -> bool | None:
    """What a filter says of one row, in Python's exact comparisons; None where it is unknown."""
    match where:
        case And(parts) | Or(parts):
            said = {kept(part, row) for part in parts}
            decisive = isinstance(where, Or)
            return decisive if decisive in said else None if None in said else not decisive
        case Not(part):
            inner = kept(part, row)
            return None if inner is None else not inner
        case IsNull(name):
            return row[name] is None
        case _ if row[where.field] is None:
            return None
        case Eq(name, value):
            return bool(row[name] == value)
        case In(name, values):
            return row[name] in values
        case Range(name, gt, gte, lt, lte):
            value = row[name]
            return (
                (gt is None or value > gt)
                and (gte is None or value >= gte)
                and (lt is None or value < lt)
                and (lte is None or value <= lte)
            )


NUMBERS = st.one_of(
    st.integers(-5, 5),
    st.integers(-10, 10).map(lambda n: n / 4),
    st.sampled_from([0.1, 2.0**53 + 1, 16777216.5]),
)
BOUNDS = st.one_of(NUMBERS, st.sampled_from([math.inf, -math.inf]))
NUMERIC = st.sampled_from(["count", "price"])
RANGES = st.builds(
    lambda name, lower, low, upper, high: Range(name, **{lower: low, upper: high}),
    NUMERIC, st.sampled_from(["gt", "gte"]), BOUNDS, st.sampled_from(["lt", "lte"]), BOUNDS,
)  # fmt: skip
LEAVES = st.one_of(
    st.builds(Eq, NUMERIC, NUMBERS),
    st.builds(In, NUMERIC, st.lists(NUMBERS, min_size=1, max_size=3).map(tuple)),
    RANGES,
    st.builds(IsNull, st.sampled_from(["count", "price", "name", "flag"])),
    st.builds(Eq, st.just("name"), st.sampled_from("ab2")),
    st.builds(Eq, st.just("flag"), st.booleans()),
)
FILTERS: st.SearchStrategy[Filter] = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        st.lists(part, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
        st.lists(part, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
        part.map(Not),
    ),
    max_leaves=5,
)


@given(FILTERS)
def test_a_fitted_filter_keeps_the_same_rows(where: Filter) -> None:
    """Missing values included: what is true of no number stays unknown of none, under Not too.
    So does `evaluate`, which everything else is measured by."""
    want = [kept(where, row) is True for row in TABLE.to_pylist()]
    got = coerce_values(where, SCHEMA)
    assert [kept(got, row) is True for row in TABLE.to_pylist()] == want
    assert evaluate(where, TABLE).tolist() == want


def test_a_list_of_values_may_be_long() -> None:
    """As a chain of comparisons it ended the process, from some ten thousand values on."""
    whole = tuple(range(40_000))
    assert evaluate(In("count", whole), TABLE).tolist() == [*[False] * 4, *[True] * 4, *[False] * 4]
    missing = [cell is None for cell in TABLE["price"].to_pylist()]
    zeros = evaluate(In("price", (*map(float, whole[1:]), -0.0, math.nan)), TABLE)
    others = evaluate(Not(In("price", (*map(float, whole[1:]), -0.0, math.nan))), TABLE)
    assert zeros.tolist() == [False] * 4 + [True, False, True, False, True] + [False] * 3
    assert (zeros | others | missing).all()
    assert not (zeros & others).any()


@given(FILTERS)
def test_every_value_has_the_type_of_its_column(where: Filter) -> None:
    types = {"count": int, "price": float, "name": str, "flag": bool}
    for leaf in leaves(coerce_values(where, SCHEMA)):
        assert {type(value) for value in values(leaf)} <= {types[leaf.field]}
