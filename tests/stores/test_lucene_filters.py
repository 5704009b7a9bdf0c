"""Conditions of Elasticsearch and OpenSearch know three truth values."""

from __future__ import annotations

from vectrial.model.filters import And, Eq, In, IsNull, Not, Or, Range
from vectrial.stores.lucene.filters import query

NAMES = {"number": "f0", "colour": "f1"}
RED = {"term": {"f1": "red"}}
COLOURED = {"exists": {"field": "f1"}}


def test_a_missing_value_is_neither_equal_nor_different() -> None:
    assert query(Eq("colour", "red"), NAMES) == RED
    other = {"bool": {"filter": [COLOURED], "must_not": [RED]}}
    assert query(Not(Eq("colour", "red")), NAMES) == other
    assert query(Not(Not(Eq("colour", "red"))), NAMES) == RED
    assert query(IsNull("colour"), NAMES) == {"bool": {"must_not": [COLOURED]}}
    assert query(Not(IsNull("colour")), NAMES) == COLOURED


def test_negation_is_pushed_through_and_and_or() -> None:
    low = Range("number", gte=1, lt=5)
    told = query(Not(Or((Eq("colour", "red"), low))), NAMES)
    assert told == {
        "bool": {
            "filter": [
                {"bool": {"filter": [COLOURED], "must_not": [RED]}},
                {
                    "bool": {
                        "filter": [{"exists": {"field": "f0"}}],
                        "must_not": [{"range": {"f0": {"gte": 1, "lt": 5}}}],
                    }
                },
            ]
        }
    }
    told = query(Not(And((IsNull("colour"), In("number", (1, 2))))), NAMES)
    assert told["bool"]["minimum_should_match"] == 1
    assert told["bool"]["should"][0] == COLOURED
    assert told["bool"]["should"][1]["bool"]["must_not"] == [{"terms": {"f0": [1, 2]}}]
