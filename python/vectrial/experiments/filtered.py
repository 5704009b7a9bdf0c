"""Searching under filters: recall and speed against the share of the rows that a filter keeps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, field_validator

from vectrial.errors import StoreError, Unsupported
from vectrial.experiments.base import (
    Context,
    Data,
    Experiment,
    Numbers,
    Phase,
    Returns,
    search_points,
)
from vectrial.filters import Eq, Filter, Filters, Range, evaluate, to_json
from vectrial.load import lanes
from vectrial.load.lane import Lane
from vectrial.load.offered import Closed
from vectrial.stores.base import FieldType, Index, Returning, Store

Values = list[int | float | str | bool] | int | float | str | bool

_NUMBERS = frozenset({FieldType.INT, FieldType.FLOAT})
#: The value of the parameter `selectivity` that stands for the dataset's own filters.
OWN: Literal["own"] = "own"


class Filtered(Experiment):
    """Search without a filter, and under filters that keep given shares of the rows.

    selectivities: shares wanted. For each the condition is taken that comes nearest: an upper bound
        on a numeric column, or where there is none, equality with a value. Recall is judged among
        the rows that it keeps; the share that it does keep is a metric of the phase.
    own: search also under the dataset's own filters, one for each query; unless given, where it
        has them.
    search: search parameters; lists are grids. clients: of a closed loop, a number or a list.
    returns: what comes with each row found: "ids", "metadata" or "vectors"; or a list of them.
    min_s, max_s: as of recall_sweep.
    """

    name: ClassVar[str] = "filtered"
    title: ClassVar[str] = "Search under filters"
    uses_filters: ClassVar[bool] = True
    axes: ClassVar[frozenset[str]] = frozenset(
        {"selectivities", "own", "search", "returns", "clients"}
    )
    through: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    selectivities: tuple[float, ...] = (0.01, 0.1, 0.5)
    own: bool | None = None
    search: dict[str, Values] = Field(default_factory=dict)
    clients: Numbers = (1,)
    returns: Returns = (Returning.IDS,)
    min_s: float = Field(default=1.0, ge=0)
    max_s: float = Field(default=20.0, gt=0)
    warmup_queries: int = Field(default=100, ge=0)

    @field_validator("selectivities")
    @classmethod
    def _shares(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if any(not 0 < share < 1 for share in value):
            raise ValueError("expected shares of the rows between 0 and 1")
        return value

    def on(self, data: Data) -> Filtered:
        """With the dataset's own filters where it has them, unless the suite says."""
        if self.own is not None:
            return self
        return self.model_copy(update={"own": data.own_filters is not None})

    def points(self, store: type[Store], index: Index, rows: int) -> list[dict[str, Any]]:
        if not store.capabilities.under(index.kind).filters:
            raise Unsupported(f"{store.name} has no search under a filter")
        wanted: list[float | str] = [1.0, *sorted(set(self.selectivities), reverse=True)]
        if self.own:
            wanted.append(OWN)
        return [
            {"selectivity": share, "clients": clients, **point}
            for share in wanted
            for clients in dict.fromkeys(self.clients)
            for point in search_points(store, index, self.search, self.returns)
        ]

    def refuse_point(
        self,
        store: type[Store],
        index: Index,
        data: Data,
        lane: Lane,
        point: Mapping[str, Any],
    ) -> None:
        """Beside what every experiment refuses, filters that the store does not honour."""
        super().refuse_point(store, index, data, lane, point)
        can = store.capabilities.under(index.kind)
        if point["clients"] > 1 and not can.concurrent_search:
            raise Unsupported(f"{store.name} must not be searched from several threads at once")
        missing = _needed(point["selectivity"], data) - can.filters
        if missing:
            raise Unsupported(
                f"{store.name} cannot filter with '{min(missing)}'",
                remedy=f"it can: {', '.join(sorted(can.filters))}",
            )

    def clients_at(self, point: Mapping[str, Any]) -> int | None:
        """As the point says."""
        return int(point["clients"])

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        where = _where(context, point["selectivity"])
        load = Closed(int(point["clients"]), min_s=self.min_s, max_s=self.max_s)
        phase = lanes.search(context, point, load, warmup_queries=self.warmup_queries, where=where)
        phase.metrics["selectivity"] = _share(context, where)
        if where is not None and not isinstance(where, Sequence):
            phase.params = {**phase.params, "filter": to_json(where)}
        yield phase

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """The least time of a phase, half as much again, and the filtered truth."""
        return 1.0 + self.min_s * 1.5


def _needed(selectivity: float | str, data: Data) -> frozenset[str]:
    """Operators that a point's filters use.

    Raises:
        Unsupported: there is nothing to filter by.
    """
    if selectivity == OWN:
        if data.own_filters is None:
            raise Unsupported("the dataset has no filter of its own for every query")
        return data.own_filters
    if selectivity == 1.0:
        return frozenset()
    if not data.schema.fields:
        raise Unsupported("the dataset has no metadata to filter by")
    numeric = any(field.type in _NUMBERS for field in data.schema.fields)
    return frozenset({"range" if numeric else "eq"})


def _where(context: Context, selectivity: float | str) -> Filters:
    if selectivity == 1.0:
        return None
    if selectivity != OWN:
        assert context.dataset.metadata is not None, "the plan refuses it"
        return condition(context.dataset.metadata, float(selectivity))
    kept = [one for one in context.dataset.filters or () if one is not None]
    if len(kept) != len(context.dataset.queries):
        raise StoreError("the dataset has no filter of its own for every query")
    return kept


def _share(context: Context, where: Filters) -> float:
    """The share of the rows that the filters keep, mean over queries."""
    if where is None:
        return 1.0
    assert context.dataset.metadata is not None
    each = where if isinstance(where, Sequence) else [where]
    shares: dict[str, float] = {}
    for one in each:
        text = to_json(one)
        if text not in shares:
            shares[text] = float(evaluate(one, context.dataset.metadata).mean())
    return float(np.mean([shares[to_json(one)] for one in each]))


def condition(metadata: pa.Table, selectivity: float) -> Filter:
    """The condition on one column that keeps the share of the rows nearest to `selectivity`, as a
    ratio: an upper bound on a numeric column, or equality with a value where there is none. Of
    equals the first column's.

    Raises:
        StoreError: no value of any column keeps any row.
    """
    numeric = [c.name for c in metadata.schema if _is_number(c.type)]
    found: list[tuple[float, Filter]] = []
    for name in numeric or metadata.column_names:
        column = metadata.column(name).drop_null()
        if not len(column):
            continue
        every = _bounds if numeric else _values
        for where, share in every(name, column, metadata.num_rows, selectivity):
            found.append((abs(math.log(share / selectivity)), where))
    if not found:
        raise StoreError("no column of the metadata has a value")
    return min(found, key=lambda one: one[0])[1]


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _values(
    name: str, column: pa.ChunkedArray[Any], rows: int, selectivity: float
) -> Iterator[tuple[Filter, float]]:
    """Equality with every value of a column without nulls, with the share that it keeps."""
    found: list[Any] = column.to_pylist()
    for value, count in Counter(found).items():
        yield Eq(name, value), count / rows


def _bounds(
    name: str, column: pa.ChunkedArray[Any], rows: int, selectivity: float
) -> Iterator[tuple[Filter, float]]:
    """Upper bounds on a column without nulls, with the share that each keeps: those on both sides
    of the share wanted."""
    values = np.sort(column.to_numpy())
    values = values[np.isfinite(values)]
    if not len(values):
        return
    at = min(max(round(selectivity * rows) - 1, 0), len(values) - 1)
    below = max(int(np.searchsorted(values, values[at], "left")) - 1, 0)
    for bound in (values[at].item(), values[below].item()):
        kept = int(np.searchsorted(values, bound, "right"))
        yield Range(name, lte=bound), kept / rows
