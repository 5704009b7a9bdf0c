"""The layout of qdrant's benchmark data sets: vectors, payloads, and queries with conditions.

    vectors.npy, or vectors.jsonl (a list a line)     payloads.jsonl: an object a line
    tests.jsonl: {query, conditions, closest_ids, closest_scores} a line
    or queries.jsonl and neighbours.jsonl, a list a line

Row numbers are the ids. `closest_scores` are similarities, and of a metric that is not said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.readers.base import Block, ReaderOptions, VectorSource, check_side_bytes
from vectrial.datasets.readers.columns import is_vector, stored_type
from vectrial.datasets.readers.jsonl import arrow_columns, infer, lines, matrix, open_jsonl
from vectrial.datasets.readers.numpy_files import open_npy
from vectrial.model.errors import DataError, Unsupported
from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, fields


def is_qdrant(folder: Path) -> bool:
    """True if the folder has this layout."""
    names = {file.name for file in folder.iterdir()}
    vectors = names & {"vectors.npy", "vectors.jsonl"}
    return bool(vectors and names & {"tests.jsonl", "queries.jsonl", "payloads.jsonl"})


def open_qdrant(folder: Path, options: ReaderOptions) -> VectorSource:
    """Open a folder of this layout.

    Raises:
        DataError: parts that are damaged or of different lengths.
        Unsupported: a query's condition that the filter algebra cannot express (geo, text, fields
            that hold lists); `options.conditions` False leaves all conditions out.
    """
    plain = ReaderOptions(rows=options.rows)
    vectors = folder / "vectors.npy"
    source = (
        open_npy(vectors, plain)
        if vectors.is_file()
        else open_jsonl(folder / "vectors.jsonl", plain)
    )
    payloads = folder / "payloads.jsonl"
    schema: pa.Schema = pa.schema([])
    notes: tuple[str, ...] = ()
    if payloads.is_file():
        schema, notes = _payload_schema(payloads, source.rows, options)
    tests = _tests(folder, source.dim, set(schema.names), options)

    def read(step: int) -> Iterator[Block]:
        rows = lines(payloads) if schema.names else iter(())
        for block in source.read(step):
            if not schema.names:
                yield block
                continue
            part = list(islice(rows, len(block.vectors)))
            table = pa.table(arrow_columns(part, schema), schema=schema)
            yield Block(block.vectors, None, table)

    return replace(
        source,
        path=folder,
        format="qdrant",
        read=read,
        queries=tests.queries,
        neighbors=tests.neighbors,
        filters=tests.filters if any(tests.filters) else None,
        columns=tuple(schema.names),
        notes=notes,
    )


def _payload_schema(
    payloads: Path, rows: int, options: ReaderOptions
) -> tuple[pa.Schema, tuple[str, ...]]:
    found = infer(payloads, options.rows and rows)
    if found.rows != rows:
        raise DataError(f"{found.rows} payloads for {rows} vectors", where=str(payloads))
    filterable, skipped = [], []
    for column in found.schema():
        if options.keep is not None and column.name not in options.keep:
            continue
        stored = None if is_vector(column.type) else stored_type(column.type)
        if stored is None:
            skipped.append(f"{column.name} ({_plain_kind(column.type)})")
        else:
            filterable.append(pa.field(column.name, stored))
    note = f"payload fields left out, of types that no filter reads: {', '.join(skipped)}"
    return pa.schema(filterable), (note,) if skipped else ()


def _plain_kind(kind: pa.DataType) -> str:
    if pa.types.is_null(kind):
        return "always null"
    return "lists" if pa.types.is_list(kind) else "objects or of mixed type"


@dataclass(frozen=True)
class _Tests:
    queries: NDArray[np.float32] | None = None
    neighbors: NDArray[np.int64] | None = None
    filters: tuple[Filter | None, ...] = ()


def _tests(folder: Path, dim: int, columns: set[str], options: ReaderOptions) -> _Tests:
    file = folder / "tests.jsonl"
    if file.is_file():
        rows = _bounded(file)
        queries = [_list(row, "query", file, i) for i, row in enumerate(rows)]
        closest = [_list(row, "closest_ids", file, i, ()) for i, row in enumerate(rows)]
        if not options.conditions and any(row.get("conditions") for row in rows):
            closest = []  # those of filtered queries are not the nearest of all rows
        row_conditions = [row.get("conditions") if options.conditions else None for row in rows]
        where = tuple(
            condition(value, f"{file}, row {i}, conditions")
            for i, value in enumerate(row_conditions)
        )
        for i, one in enumerate(where):
            missing = fields(one) - columns if one is not None else set()
            if missing:
                raise Unsupported(
                    f"the condition reads '{min(missing)}', which is no payload field of numbers,"
                    " text or true/false",
                    where=f"{file}, row {i}",
                    remedy="`--no-conditions` imports the queries without their conditions",
                )
    elif (folder / "queries.jsonl").is_file():
        file = folder / "queries.jsonl"
        queries = _bounded(file)
        closest_file = folder / "neighbours.jsonl"
        closest = _bounded(closest_file) if closest_file.is_file() else []
        where = ()
    else:
        return _Tests()
    if not queries:
        return _Tests()
    matrix_of_queries = matrix(queries, dim, file, 0).astype(np.float32)
    return _Tests(matrix_of_queries, _ids(closest, len(queries), file), where)


def _bounded(file: Path) -> list[Any]:
    check_side_bytes(file.stat().st_size, str(file))
    return list(lines(file))


def _list(row: Any, key: str, file: Path, number: int, default: Any = None) -> list[Any]:
    value = row.get(key, default) if isinstance(row, dict) else None
    if value is None or not all(type(item) in (int, float) for item in value):
        raise DataError(f"'{key}' is not a list of numbers", where=f"{file}, row {number}")
    return list(value)


def _ids(closest: list[list[Any]], queries: int, file: Path) -> NDArray[np.int64] | None:
    if not any(closest):
        return None
    if len(closest) != queries:
        raise DataError(
            f"{len(closest)} lists of neighbours for {queries} queries", where=str(file)
        )
    out = np.full((queries, max(map(len, closest))), -1, np.int64)
    for i, ids in enumerate(closest):
        if not all(type(value) is int and abs(value) < 1 << 63 for value in ids):
            raise DataError("neighbours are not integers", where=f"{file}, row {i}")
        out[i, : len(ids)] = ids
    return out


def condition(value: Any, at: str) -> Filter | None:
    """A condition of tests.jsonl in our filter algebra; None for null and {}.

        {"and": [{field: {"match": {"value": v}}}, …], "or": […]}

    Raises:
        Unsupported: text, geo and any other condition without a counterpart, naming its place.
    """
    if not value:
        return None
    if not isinstance(value, Mapping) or not set(value) <= {"and", "or"}:
        raise _unsupported("expected 'and' or 'or' with a list", at)
    parts: list[Filter] = []
    for name, build in (("and", And), ("or", Or)):
        clauses = value.get(name)
        if not clauses:
            continue
        if not isinstance(clauses, list):
            raise _unsupported(f"'{name}' is no list", at)
        found = tuple(_clause(clause, f"{at}.{name}[{i}]") for i, clause in enumerate(clauses))
        parts.append(found[0] if len(found) == 1 else build(found))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _clause(clause: Any, at: str) -> Filter:
    if not isinstance(clause, Mapping) or len(clause) != 1:
        raise _unsupported("expected one field with its criterion", at)
    ((name, criterion),) = clause.items()
    if name in ("and", "or"):
        nested = condition(clause, at)
        if nested is None:
            raise _unsupported("an empty condition", at)
        return nested
    if not isinstance(criterion, Mapping) or len(criterion) != 1:
        raise _unsupported(f"'{name}' has no single criterion", at)
    ((kind, argument),) = criterion.items()
    found = _criterion(str(name), kind, argument)
    if found is None:
        raise _unsupported(f"criterion '{kind}' with {argument!r:.100}", at)
    return found


def _criterion(name: str, kind: str, argument: Any) -> Filter | None:
    match kind, argument:
        case "match", {"value": bool() | int() | float() | str() as one, **rest} if not rest:
            return Eq(name, one)
        case "match", {"any": [_, *_] as several, **rest} if not rest and _plain(several):
            return In(name, tuple(several))
        case "match", {"except": [_, *_] as several, **rest} if not rest and _plain(several):
            return Not(In(name, tuple(several)))
        case "range", {**ends}:
            bounds: dict[str, Any] = {str(k): end for k, end in ends.items() if end is not None}
            numbers = all(type(bound) in (int, float) for bound in bounds.values())
            if bounds and numbers and set(bounds) <= {"gt", "gte", "lt", "lte"}:
                return Range(name, **bounds)
        case "is_null", True:
            return IsNull(name)
    return None


def _plain(values: list[Any]) -> bool:
    return all(isinstance(value, bool | int | float | str) for value in values)


def _unsupported(what: str, at: str) -> Unsupported:
    return Unsupported(
        f"the filter algebra cannot express this condition: {what}",
        where=at,
        remedy="`--no-conditions` imports the queries without their conditions",
    )
