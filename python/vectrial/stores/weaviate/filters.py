"""Filters as conditions of Weaviate's client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vectrial.model.filters import (
    OPPOSITES,
    And,
    Eq,
    Filter,
    In,
    IsNull,
    Not,
    Or,
    Range,
)
from vectrial.model.schema import FieldType, Schema
from vectrial.stores.common.typed import coerce_values

if TYPE_CHECKING:
    from weaviate.collections.classes.filters import _FilterByProperty, _Filters

#: Bounds of a range, as the client calls them.
_METHODS = {
    "gt": "greater_than",
    "gte": "greater_or_equal",
    "lt": "less_than",
    "lte": "less_or_equal",
}


def translate(where: Filter, names: Mapping[str, str], schema: Schema) -> _Filters:
    """The condition that keeps the same rows as `where`. names: columns → properties."""
    return _Columns(names, schema.types).condition(coerce_values(where, schema), holds=True)


@dataclass(frozen=True)
class _Columns:
    """Columns by name: the property that each is kept in, and its type."""

    names: Mapping[str, str]
    types: Mapping[str, FieldType]

    def condition(self, where: Filter, *, holds: bool) -> _Filters:
        """The condition under which `where` is true (`holds`), or false and not unknown.

        Negation is pushed down to the comparisons: to Weaviate a row without a value is not
        unknown, but unequal to everything.
        """
        from weaviate.classes.query import Filter as Where

        match where:
            case Not(part):
                return self.condition(part, holds=not holds)
            case And(parts) | Or(parts):
                every = isinstance(where, And) is holds
                conditions = [self.condition(part, holds=holds) for part in parts]
                return Where.all_of(conditions) if every else Where.any_of(conditions)
            case IsNull(column):
                return self._missing(column) if holds else self._present(column)
            case Eq(column, value):
                by = self._property_filter(column)
                return by.equal(value) if holds else by.not_equal(value) & self._present(column)
            case In(column, values):
                if holds:
                    each: list[Any] = list(values)
                    return self._property_filter(column).contains_any(each)
                return Where.all_of([self.condition(Eq(column, v), holds=False) for v in values])
            case Range():
                return self._range(where, holds)

    def _property_filter(self, column: str) -> _FilterByProperty:
        from weaviate.classes.query import Filter as Where

        return Where.by_property(self.names[column])

    def _missing(self, column: str) -> _Filters:
        by = self._property_filter(column)
        if self.types[column] is FieldType.STRING:  # Weaviate treats empty text as missing
            return by.is_none(True) & by.not_equal("")
        return by.is_none(True)

    def _present(self, column: str) -> _Filters:
        by = self._property_filter(column)
        if self.types[column] is FieldType.STRING:
            return by.is_none(False) | by.equal("")
        return by.is_none(False)

    def _range(self, where: Range, holds: bool) -> _Filters:
        from weaviate.classes.query import Filter as Where

        by = self._property_filter(where.field)
        bounds = [
            getattr(by, _METHODS[key if holds else OPPOSITES[key]])(bound)
            for key, bound in where.bounds.items()
        ]
        return Where.all_of(bounds) if holds else Where.any_of(bounds)
