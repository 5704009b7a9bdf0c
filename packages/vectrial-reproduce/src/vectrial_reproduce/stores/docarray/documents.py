"""Documents of DocArray 0.21 to and from Arrow, and filters, for the stores built on it.

Columns are kept as tags named `f0`, `f1`, … in the order of the schema's fields: AnnLite puts
the names into SQL as they are, and DocArray splits them at double underscores, so a column
called "order" or "a__b" would break either. A missing value is a missing tag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.capabilities import Environment
from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range
from vectrial.model.schema import Schema
from vectrial.stores.common.arrow import batch_of_rows, check, row_values, vectors_of
from vectrial.stores.common.arrow import ids_of as arrow_ids_of

if TYPE_CHECKING:
    from docarray import Document

#: AnnLite and DocArray 0.21 live together, with numpy 1.26, beside old clients of servers.
ENVIRONMENT = Environment("docarray")

_BOUNDS = {"gt": "$gt", "gte": "$gte", "lt": "$lt", "lte": "$lte"}
_OPPOSITE = {"$gt": "$lte", "$gte": "$lt", "$lt": "$gte", "$lte": "$gt"}


def to_documents(batch: pa.RecordBatch, schema: Schema) -> list[Document]:
    """One Document per row; embeddings are rows of one copy of the batch's vectors."""
    from docarray import Document

    check(batch, schema)
    vectors = vectors_of(batch).copy()  # a store in memory must not hold a view of a mapped file
    tags = row_values(batch, schema)
    return [
        Document(id=str(id_), embedding=vector, tags=row)
        for id_, vector, row in zip(arrow_ids_of(batch).tolist(), vectors, tags, strict=True)
    ]


def to_batch(documents: Sequence[Document], schema: Schema) -> pa.RecordBatch:
    """The rows of `documents` in the layout of `Schema.arrow`."""
    vectors = np.empty((len(documents), schema.dim), dtype=np.float32)
    for row, document in zip(vectors, documents, strict=True):
        row[:] = document.embedding
    return batch_of_rows(schema, ids_of(documents), vectors, [one.tags for one in documents])


def ids_of(documents: Sequence[Document]) -> NDArray[np.int64]:
    """Ids (n,) of the documents, whose own ids are decimal text."""
    return np.fromiter((int(d.id) for d in documents), dtype=np.int64, count=len(documents))


def to_query(where: Filter, schema: Schema, *, prefix: str = "", sql_nulls: bool) -> dict[str, Any]:
    """`where` in the query language that AnnLite and DocArray take from MongoDB.

    Neither has a negation that leaves null alone, so `Not` is pushed down to the comparisons, which
    De Morgan's laws allow in three-valued logic too.

    Args:
        prefix: prefix of a tag in a query (DocArray: "tags__").
        sql_nulls: a comparison with a missing value is false by itself, and there is no operator to
            test for one (AnnLite). Otherwise `$neq` and `$nin` hold for a missing value and are
            guarded (DocArray).
    """
    names = {field: f"{prefix}{column}" for field, column in schema.columns.items()}
    return _query(where, names, guard=not sql_nulls, negate=False)


def _query(where: Filter, names: Mapping[str, str], *, guard: bool, negate: bool) -> dict[str, Any]:
    match where:
        case Not(part):
            return _query(part, names, guard=guard, negate=not negate)
        case And(parts) | Or(parts):
            every = isinstance(where, And) is not negate
            inner = [_query(part, names, guard=guard, negate=negate) for part in parts]
            return {"$and" if every else "$or": inner}
        case IsNull(name):
            return {names[name]: {"$exists": negate}}
        case Range():
            bounds = {_BOUNDS[k]: v for k in _BOUNDS if (v := getattr(where, k)) is not None}
            name = names[where.field]
            if negate:
                return {"$or": [{name: {_OPPOSITE[op]: v}} for op, v in bounds.items()]}
            return {"$and": [{name: {op: v}} for op, v in bounds.items()]}
        case Eq(field, value):
            # DocArray takes text that starts with a brace for the name of another attribute,
            # but not inside a list.
            text = isinstance(value, str) and value.startswith("{")
            condition: dict[str, Any] = {"$eq": value} if not text else {"$in": [value]}
            if negate:
                condition = {"$neq": value} if not text else {"$nin": [value]}
            return _unless_missing(names[field], condition, guard and negate)
        case In(field, values):
            condition = {"$nin" if negate else "$in": list(values)}
            return _unless_missing(names[field], condition, guard and negate)


def _unless_missing(name: str, condition: dict[str, Any], guarded: bool) -> dict[str, Any]:
    if not guarded:
        return {name: condition}
    return {"$and": [{name: {"$exists": True}}, {name: condition}]}
