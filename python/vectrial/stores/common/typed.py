"""Filters whose values have the types of their columns, for stores that convert nothing."""

from __future__ import annotations

from vectrial.model import filters
from vectrial.model.filters import Filter, renamed
from vectrial.model.schema import ARROW_TYPES, Schema


def coerce_values(where: Filter, schema: Schema) -> Filter:
    """`filters.coerce_values` for the columns of a collection."""
    types = {name: ARROW_TYPES[kind] for name, kind in schema.types.items()}
    return filters.coerce_values(where, types)


def on_columns(where: Filter, schema: Schema) -> Filter:
    """The filter of `coerce_values`, on columns (`f0`, `f1`, …) instead of fields."""
    return renamed(coerce_values(where, schema), schema.columns)
