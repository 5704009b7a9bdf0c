"""Metadata columns made for an experiment, the same on every machine, and conditions on them.

The rows that a condition keeps are known exactly, and are independent of the vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.experiments.common.readiness import finish
from vectrial.model import filters
from vectrial.model.context import Context
from vectrial.model.dataset import Dataset
from vectrial.model.filters import Filter
from vectrial.model.phase import Phase
from vectrial.model.schema import Field, FieldType, Schema
from vectrial.model.store import Store
from vectrial.workload import ingest

#: Distinct values of `label`; the share of rows in which `flag` is true.
LABELS, FLAGGED = 100, 0.1
_KINDS = (FieldType.INT, FieldType.STRING, FieldType.FLOAT, FieldType.BOOL)
_NAMED = ("number", "label", "ratio", "flag")
#: Masks of conditions that are held, since the same may be asked many times.
_MASKS = 64


def columns(rows: int, count: int = 4, types: Iterable[FieldType] = FieldType) -> pa.Table:
    """`count` columns of `rows` values, of the given types in turn.

    The first of each type are `number` (0 … rows-1, each once, in random order), `label` (one of
    100 strings, evenly), `ratio` (uniform in [0, 1)) and `flag` (true in a tenth); the others are
    like them, integers and strings with 10 to 100,000 distinct values.
    """
    held = [kind for kind in _KINDS if kind in set(types)]
    rng = np.random.default_rng([rows, count])
    made: dict[str, pa.Array[pa.Scalar[pa.DataType]]] = {}
    for at in range(count if held else 0):
        kind = held[at % len(held)]
        first = at < len(held)
        name = _NAMED[_KINDS.index(kind)] if first else f"{kind}_{at:02}"
        made[name] = _column(kind, rows, first, 10 ** (1 + at % 5), rng)
    return pa.table(made)


def _column(
    kind: FieldType, rows: int, first: bool, distinct: int, rng: np.random.Generator
) -> pa.Array[pa.Scalar[pa.DataType]]:
    match kind:
        case FieldType.INT:
            return pa.array(rng.permutation(rows) if first else rng.integers(0, distinct, rows))
        case FieldType.STRING:
            of = LABELS if first else distinct
            return pa.array([f"label {i:05}" for i in rng.integers(0, of, rows).tolist()])
        case FieldType.FLOAT:
            return pa.array(rng.random(rows))
        case FieldType.BOOL:
            return pa.array(rng.random(rows) < (FLAGGED if first else 0.5))


def conditions(
    rows: int, samples: int, operators: Iterable[str], names: Iterable[str], seed: int
) -> Mapping[str, Sequence[Filter]]:
    """`samples` conditions by name, on the columns `names` and with the given operators only: for
    one row, a hundredth, a tenth, and a hundredth by two conditions at once. All conditions differ,
    since a second answer may come from a cache: there are fewer if fewer exist."""
    rng, tenth = np.random.default_rng(seed), max(1, rows // 10)
    numbers = rng.permutation(rows)[:samples].tolist()
    starts = rng.permutation(max(1, rows - tenth))[:samples].tolist()
    labels = [f"label {i:05}" for i in rng.permutation(LABELS)[:samples].tolist()]
    ranges = [filters.Range("number", gte=start, lt=start + tenth) for start in starts]
    flagged = filters.Eq("flag", True)
    every: dict[str, list[Filter]] = {
        "one row": [filters.Eq("number", value) for value in numbers],
        "1 in 100": [filters.Eq("label", value) for value in labels],
        "1 in 10": list(ranges),
        "1 in 100, by two": [filters.And((part, flagged)) for part in ranges],
    }
    can, there = set(operators), set(names)
    return {
        name: asked
        for name, asked in every.items()
        if filters.operators(asked[0]) <= can and filters.fields(asked[0]) <= there
    }


def with_columns(dataset: Dataset, table: pa.Table) -> Dataset:
    """The dataset with these columns instead of its own."""
    return replace(dataset, metadata=table if table.num_columns else None)


def schema_of(context: Context, table: pa.Table, *, indexed: bool) -> Schema:
    """The schema of the context's dataset with these columns, all indexed or none."""
    kinds = {
        pa.int64(): FieldType.INT,
        pa.float64(): FieldType.FLOAT,
        pa.string(): FieldType.STRING,
        pa.bool_(): FieldType.BOOL,
    }
    fields = tuple(Field(c.name, kinds[c.type], indexed) for c in table.schema)
    return Schema(context.schema.dim, context.schema.metric, fields)


def load_collection(
    context: Context, store: Store, dataset: Dataset, schema: Schema
) -> tuple[Phase, list[ingest.Step]]:
    """Create the collection, load it, wait until the final index serves it, and search once;
    returns the load, and the steps after it."""
    store.create(schema, context.index)
    load = ingest.load(store, dataset, schema, context.batch_rows, context.progress)
    there = replace(context, store=store, dataset=dataset, schema=schema)
    return load, finish(there, {})


def count_right_answers(
    ids: NDArray[np.int64],
    table: pa.Table,
    conditions_sent: Sequence[Filter],
    answers: Sequence[NDArray[np.int64] | None],
    limit: int,
) -> int:
    """Number of answers with as many matching rows as exist, up to `limit`, each once.

    ids: ids of the rows of `table`.
    """
    order = np.argsort(ids)
    mask_of = lru_cache(_MASKS)(lambda where: filters.evaluate(where, table))
    right = 0
    for where, found in zip(conditions_sent, answers, strict=False):
        if found is None or len(found) != len(np.unique(found)):
            continue
        mask = mask_of(where)
        at = np.minimum(np.searchsorted(ids, found, sorter=order), len(ids) - 1)
        rows = order[at]
        known = bool((ids[rows] == found).all())
        right += known and bool(mask[rows].all()) and len(found) == min(limit, int(mask.sum()))
    return right
