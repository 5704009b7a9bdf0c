"""Filters whose values have the types of their columns, for stores that convert nothing."""

from __future__ import annotations

from vectrial.model import filters
from vectrial.model.filters import Filter
from vectrial.model.store import ARROW_TYPES, Schema


def coerce_values(where: Filter, schema: Schema) -> Filter:
    """`filters.coerce_values` for the columns of a collection."""
    return filters.coerce_values(
        where, {field.name: ARROW_TYPES[field.type] for field in schema.fields}
    )
