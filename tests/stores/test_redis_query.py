"""What is said to Redis' query engine; there is none here to answer."""

from __future__ import annotations

import pytest

from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.stores.redis import query as redis_query
from vectrial.stores.redis.search import QueryEngineBuild, RedisSearch

SCHEMA = Schema(4, Metric.L2, (Field("n", FieldType.INT), Field("c", FieldType.STRING)))
NAMES = {"n": "f0", "c": "f1"}
TYPES = {"n": FieldType.INT, "c": FieldType.STRING}


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (Eq("n", -3), "(@f0:[-3 -3])"),
        (Eq("c", "a b-ü_%"), r"(@f1:{a\ b\-ü_\%25})"),
        (Eq("c", ""), '(@f1:{""})'),
        (Eq("c", " red\n"), r"(@f1:{\%20red\%0A})"),
        (In("n", (1, 2)), "((@f0:[1 1] | @f0:[2 2]))"),
        (Range("n", gt=1, lte=9), "((@f0:[2 +inf] @f0:[-inf 9]))"),
        (Range("n", lt=-(2**53)), f"((@f0:[-inf {-(2**53) - 2}]))"),
        (Range("n", gt=2**53), f"((@f0:[{2**53 + 2} +inf]))"),
        (Eq("n", 2**53 + 1), f"(@f0:[{2**53 + 2} {2**53 + 2}])"),
        (IsNull("c"), "(ismissing(@f1))"),
        (Not(IsNull("c")), "(-ismissing(@f1))"),
        (Not(Eq("c", "x")), "(-ismissing(@f1) -(@f1:{x}))"),
        (And((Eq("n", 1), Eq("n", 2))), "((@f0:[1 1]) (@f0:[2 2]))"),
        (
            Not(Or((Eq("n", 1), IsNull("c")))),
            "((-ismissing(@f0) -(@f0:[1 1])) (-ismissing(@f1)))",
        ),
    ],
)
def test_filters(where: Filter, said: str) -> None:
    assert redis_query.condition(where, NAMES, TYPES) == said


def test_schemas() -> None:
    told = redis_query.vector_field(SCHEMA, "hnsw", QueryEngineBuild(m=8))
    assert told[:4] == ["vector", "VECTOR", "HNSW", 10]
    assert told[4:] == [
        *("TYPE", "FLOAT32", "DIM", 4, "DISTANCE_METRIC", "L2"),
        *("M", 8, "EF_CONSTRUCTION", 200),
    ]
    flat = RedisSearch.capabilities.indexes["flat"].build()
    assert redis_query.vector_field(SCHEMA, "flat", flat)[3] == 6
    assert redis_query.fields(SCHEMA)[:3] == ["f0", "NUMERIC", "INDEXMISSING"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (-(2**63), FieldType.INT),
        (0.1, FieldType.FLOAT),
        ("ü", FieldType.STRING),
        ("", FieldType.STRING),
        ("  red ", FieldType.STRING),
        ("50% off%20\x00\x1f\n", FieldType.STRING),
        (True, FieldType.BOOL),
        (False, FieldType.BOOL),
    ],
)
def test_values_are_read_as_they_were_stored(value: int | float | str, kind: FieldType) -> None:
    assert redis_query.from_hash_text(redis_query.to_hash_text(value).encode(), kind) == value
    assert redis_query.from_hash_text(None, kind) is None
