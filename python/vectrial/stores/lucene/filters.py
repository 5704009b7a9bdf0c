"""The filter algebra as queries of Elasticsearch and OpenSearch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range

Query = dict[str, Any]


def query(where: Filter, names: Mapping[str, str]) -> Query:
    """The query that keeps the same rows as `where`.

    names: fields' names by the columns that `where` reads. Its values already have the columns'
        types (`vectrial.stores.common.typed.coerce_values`).
    """
    return _condition(where, names, holds=True)


def _condition(where: Filter, names: Mapping[str, str], *, holds: bool) -> Query:
    """The query under which `where` is true (`holds`), or false and not unknown.

    Negation is pushed down to the comparisons: in Lucene a document without a value fails a
    comparison, and so would match its negation.
    """
    match where:
        case Not(part):
            return _condition(part, names, holds=not holds)
        case And(parts) | Or(parts):
            conditions = [_condition(part, names, holds=holds) for part in parts]
            if isinstance(where, And) is holds:
                return _bool_query(conditions)
            return {"bool": {"should": conditions, "minimum_should_match": 1}}
        case IsNull(column):
            there = {"exists": {"field": names[column]}}
            return _bool_query([], unless=there) if holds else there
        case Eq(column, value):
            return _comparison_or_opposite({"term": {names[column]: value}}, names[column], holds)
        case In(column, values):
            return _comparison_or_opposite(
                {"terms": {names[column]: list(values)}}, names[column], holds
            )
        case Range(column):
            return _comparison_or_opposite(
                {"range": {names[column]: where.bounds}}, names[column], holds
            )


def _comparison_or_opposite(comparison: Query, name: str, holds: bool) -> Query:
    return comparison if holds else _bool_query([{"exists": {"field": name}}], unless=comparison)


def _bool_query(conditions: Sequence[Query], unless: Query | None = None) -> Query:
    clauses: Query = {}
    if conditions:
        clauses["filter"] = list(conditions)
    if unless is not None:
        clauses["must_not"] = [unless]
    return {"bool": clauses}
