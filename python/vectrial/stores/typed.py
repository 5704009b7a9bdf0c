"""Filters whose values have the types of their columns, for stores that convert nothing."""

from __future__ import annotations

from vectrial import filters
from vectrial.filters import Filter
from vectrial.stores.base import ARROW_TYPES, Schema


def fitted(where: Filter, schema: Schema) -> Filter:
    """`filters.fitted` for the columns of a collection."""
    return filters.fitted(where, {field.name: ARROW_TYPES[field.type] for field in schema.fields})
