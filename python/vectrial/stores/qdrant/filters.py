"""The filter algebra in Qdrant's conditions, whichever library spells them.

Qdrant Edge and the server's client have the same conditions, but classes of their own for them:
`ConditionConstructors` holds these. A missing value is a missing key of the payload. Qdrant's
`must_not` is two-valued, so negation is pushed down to the comparisons, each of which then also
requires that the field exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range
from vectrial.model.schema import FieldType


@dataclass(frozen=True)
class ConditionConstructors:
    """Constructors of a library's conditions.

    must, should, must_not: a filter all, any, or none of whose conditions hold.
    empty: the field at this path has no value.
    equal: text, an integer or a boolean is exactly this. any_of: it is one of these (text or
        integers). within: a number is in the range.
    """

    must: Callable[[list[Any]], Any]
    should: Callable[[list[Any]], Any]
    must_not: Callable[[list[Any]], Any]
    empty: Callable[[str], Any]
    equal: Callable[[str, str | int | bool], Any]
    any_of: Callable[[str, Sequence[str | int]], Any]
    within: Callable[[str, Range], Any]


def translate(
    where: Filter, types: Mapping[str, FieldType], constructors: ConditionConstructors
) -> Any:
    """The filter that keeps the rows for which `where` is true.

    types: types of the columns that `where` reads.
    """
    return constructors.must([_condition(where, types, constructors, holds=True)])


def _condition(
    where: Filter,
    types: Mapping[str, FieldType],
    constructors: ConditionConstructors,
    *,
    holds: bool,
) -> Any:
    """The condition under which `where` is true (`holds`), or false and not unknown."""
    match where:
        case Not(part):
            return _condition(part, types, constructors, holds=not holds)
        case And(parts) | Or(parts):
            conditions = [_condition(part, types, constructors, holds=holds) for part in parts]
            every = isinstance(where, And) is holds
            return constructors.must(conditions) if every else constructors.should(conditions)
        case IsNull(name):
            empty = constructors.empty(name)
            return constructors.must([empty]) if holds else constructors.must_not([empty])
        case _:
            comparison = _comparison(where, types, constructors)
            if holds:
                return comparison
            return constructors.must_not([comparison, constructors.empty(where.field)])


def _comparison(
    where: Eq | In | Range, types: Mapping[str, FieldType], constructors: ConditionConstructors
) -> Any:
    match where:
        case Eq(name, value):
            # Qdrant matches text, integers and booleans; a float equals through a range.
            if isinstance(value, float) or types[name] is FieldType.FLOAT:
                assert not isinstance(value, str)
                return constructors.within(name, Range(name, gte=value, lte=value))
            return constructors.equal(name, value)
        case In(name, values):
            expected = {FieldType.INT: int, FieldType.STRING: str}.get(types[name])
            exact = [value for value in values if type(value) is expected]
            if exact and len(exact) == len(values):
                return constructors.any_of(name, exact)  # type: ignore[arg-type]
            return constructors.should(
                [_comparison(Eq(name, value), types, constructors) for value in values]
            )
        case Range():
            return constructors.within(where.field, where)
