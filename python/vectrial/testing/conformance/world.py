"""The test data for every store: vectors, metadata, filters, and the correct answers.

Imports nothing but numpy, pyarrow and vectrial, so that the suite runs in a store's own
environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.capabilities import Capabilities, Index, IndexKind, Params
from vectrial.model.filters import (
    And,
    Eq,
    Filter,
    In,
    IsNull,
    Not,
    Or,
    Range,
    evaluate,
    fields,
    operators,
)
from vectrial.model.metric import Metric, distances
from vectrial.model.schema import ARROW_TYPES, Field, FieldType, Schema
from vectrial.model.store import Store
from vectrial.stores.common.arrow import batch_of, columns_of, ids_of
from vectrial.testing.conformance import serving

ROWS, DIM, K = 2_000, 24, 10
BATCH = 700

COLUMNS = {
    "number": FieldType.INT,
    "price": FieldType.FLOAT,
    "colour": FieldType.STRING,
    "flag": FieldType.BOOL,
}
COLOURS = ["red", "green", 'it\'s "quoted"', "ünïcödé 彩色 🦉", "back\\slash", "100%_", ""]

FILTERS: dict[str, Filter] = {
    "eq int": Eq("number", 7),
    "eq string": Eq("colour", "red"),
    "eq quotes": Eq("colour", COLOURS[2]),
    "eq unicode": Eq("colour", COLOURS[3]),
    "eq backslash": Eq("colour", COLOURS[4]),
    "eq wildcards": Eq("colour", COLOURS[5]),
    "eq empty string": Eq("colour", ""),
    "eq bool": Eq("flag", True),
    "eq nothing": Eq("number", 123_456),
    "eq no such string": Eq("colour", "red' OR '1'='1"),
    "in ints": In("number", (1, 3, 999_999)),
    "in strings": In("colour", (COLOURS[1], COLOURS[2])),
    "in one": In("number", (5,)),
    "range half open": Range("number", gte=10, lt=30),
    "range strict": Range("number", gt=10, lte=12),
    "range float": Range("price", gte=-0.5, lt=0.25),
    "range from zero": Range("price", gte=0.0, lt=0.25),
    "range one side": Range("number", lt=5),
    "range empty": Range("number", gt=30, lt=10),
    "is null": IsNull("colour"),
    "is null number": IsNull("number"),
    "not eq": Not(Eq("colour", "red")),
    "not in": Not(In("number", (1, 2, 3))),
    "not range": Not(Range("number", gte=5)),
    "not null": Not(IsNull("colour")),
    "not not": Not(Not(Eq("number", 4))),
    "and": And((Eq("colour", "green"), Range("number", gte=10))),
    "and one": And((Eq("number", 3),)),
    "or": Or((Eq("number", 1), Eq("colour", "green"))),
    "or contradiction": And((Eq("number", 1), Eq("number", 2))),
    "nested": And(
        (
            Or((Eq("colour", "red"), Range("number", lt=10), In("number", (40, 41)))),
            Or((Range("price", gt=0.0), Eq("flag", False))),
        )
    ),
    "not and": Not(And((Eq("colour", "red"), Range("number", gte=20)))),
    "not or": Not(Or((Eq("colour", "red"), Range("number", gte=20)))),
    "deep": And((Not(Or((IsNull("number"), Eq("flag", True)))), Not(Eq("colour", "green")))),
}


@dataclass(frozen=True)
class Case:
    """One store under one index and one metric.

    bare: its rows have no metadata, as in files of vectors alone.
    """

    store: type[Store]
    index: str
    metric: Metric
    bare: bool = False

    def __str__(self) -> str:
        return f"{self.store.name}-{self.index}-{self.metric}{'-bare' * self.bare}"

    @property
    def kind(self) -> IndexKind:
        return self.store.capabilities.indexes[self.index]

    @cached_property
    def capabilities(self) -> Capabilities:
        return self.store.capabilities.for_index(self.index)

    @property
    def schema(self) -> Schema:
        known = frozenset() if self.bare else self.capabilities.field_types
        columns = {n: t for n, t in COLUMNS.items() if t in known}
        return Schema(DIM, self.metric, tuple(Field(n, t) for n, t in columns.items()))

    def make(self, location: Path) -> Store:
        """The store at this folder, on the one server of its kind if it needs a server."""
        if self.store.server is None:
            return self.store(location)
        return serving.make(self.store, location)

    @property
    def build(self) -> Index:
        return Index(self.index, self.kind.build())

    @property
    def high_recall(self) -> Params:
        return self.kind.nearly_exact(K)

    def filters(self, honoured: frozenset[str]) -> dict[str, Filter]:
        """The filters that need only these operators and existing columns."""
        names = {field.name for field in self.schema.fields}
        return {
            label: where
            for label, where in FILTERS.items()
            if operators(where) <= honoured and fields(where) <= names
        }


@dataclass(frozen=True)
class World:
    """Rows as they should be in the store: ids (n,), vectors (n, d), metadata (n rows)."""

    schema: Schema
    ids: NDArray[np.int64]
    vectors: NDArray[np.float32]
    metadata: pa.Table

    def batch(self, rows: Any = slice(None)) -> pa.RecordBatch:
        at = np.arange(len(self.ids))[rows]
        columns = {
            name: self.metadata.column(name).take(pa.array(at)).combine_chunks()
            for name in self.metadata.column_names
        }
        return batch_of(self.schema, self.ids[at], self.vectors[at], columns)

    def batches(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(self.ids), BATCH):
            yield self.batch(slice(start, start + BATCH))

    def matching(self, where: Filter | None) -> NDArray[np.bool_]:
        if where is None:
            return np.ones(len(self.ids), bool)
        return evaluate(where, self.metadata)

    def distances(self, query: NDArray[np.float32]) -> NDArray[np.float64]:
        return distances(query, self.vectors, self.schema.metric)

    def accepted(self, query: NDArray[np.float32], k: int, where: Filter | None) -> set[int]:
        """All ids that may be among the k nearest, including ties with the k-th."""
        mask = self.matching(where)
        near = np.where(mask, self.distances(query), np.inf)
        found = min(k, int(mask.sum()))
        if not found:
            return set()
        kth = np.partition(near, found - 1)[found - 1]
        return set(self.ids[near <= kth + 1e-6 * abs(kth)].tolist())

    def without(self, ids: NDArray[np.int64]) -> World:
        left: NDArray[np.int64] = np.flatnonzero(~np.isin(self.ids, ids))
        return replace(
            self,
            ids=self.ids[left],
            vectors=self.vectors[left],
            metadata=self.metadata.take(left) if self.schema.fields else self.metadata,
        )

    def merged_with(self, other: World) -> World:
        return replace(
            self,
            ids=np.concatenate([self.ids, other.ids]),
            vectors=np.concatenate([self.vectors, other.vectors]),
            metadata=pa.concat_tables([self.metadata, other.metadata]),
        )


def make_world(
    schema: Schema, nulls: bool, *, rows: int, first_id: int, seed: int, between: float = 0.05
) -> World:
    """Clustered vectors with metadata, under ids that are neither dense nor in order.

    between: share of the vectors that lie between two clusters. Without them, clusters could become
        islands of a graph that no search finds (seen with pgvector after VACUUM, in 4 of 50
        graphs).
    """
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(20, schema.dim)) + 0.5
    vectors = centres[rng.integers(0, 20, rows)] + 0.3 * rng.normal(size=(rows, schema.dim))
    bridges = np.random.default_rng(seed + 100)
    at = np.flatnonzero(bridges.random(rows) < between)
    way = bridges.random((len(at), 1))
    vectors[at] += way * (vectors[bridges.integers(0, rows, len(at))] - vectors[at])
    ids = first_id + 3 * rng.permutation(rows)
    values: dict[str, list[Any]] = {
        "number": rng.integers(0, 50, rows).tolist(),
        "price": rng.normal(size=rows).round(3).tolist(),
        "colour": [COLOURS[i] for i in rng.integers(0, len(COLOURS), rows)],
        "flag": rng.integers(0, 2, rows).astype(bool).tolist(),
    }
    values["price"][:8] = [0.0, -0.0] * 4  # equal, whatever their bits
    columns = {}
    for field in schema.fields:
        column = values[field.name]
        if nulls:
            column = [None if rng.random() < 0.2 else value for value in column]
        columns[field.name] = pa.array(column, ARROW_TYPES[field.type])
    # pyarrow makes a table of no columns have no rows, which `matching` does not need.
    return World(schema, ids.astype(np.int64), vectors.astype(np.float32), pa.table(columns))


def queries(seed: int = 9, count: int = 20) -> NDArray[np.float32]:
    """Vectors like the rows, none of them a row; (count, DIM)."""
    schema = Schema(DIM, Metric.L2)
    return make_world(schema, False, rows=count, first_id=0, seed=seed, between=0).vectors


def load(store: Store, case: Case, world: World) -> None:
    """Create a collection, write in batches, and wait until everything is indexed."""
    store.create(world.schema, case.build)
    for batch in world.batches():
        store.insert(batch)
    store.flush()
    store.build()
    assert store.wait_indexed()


def folder(base: Path, name: str) -> Path:
    """A new empty folder for a store."""
    path = base / name
    path.mkdir(parents=True)
    return path


def as_rows(table: pa.Table | pa.RecordBatch, schema: Schema) -> dict[int, dict[str, Any]]:
    """Rows by id, without their vectors."""
    columns = columns_of(table, schema)
    return {
        int(id_): {name: cells[at] for name, cells in columns.items()}
        for at, id_ in enumerate(ids_of(table).tolist())
    }
