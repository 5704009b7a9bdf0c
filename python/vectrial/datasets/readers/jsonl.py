"""JSON lines: an object a line with a list of numbers and metadata, or just the list.

Types of metadata are those of all rows together, found in a first pass; the second reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.readers.base import Block, ReaderOptions, VectorSource, check_shape
from vectrial.datasets.readers.columns import MIXED, block_of, by_plan, plan_columns
from vectrial.model.errors import DataError

#: A longer line is no row of a data set.
_MAX_LINE_BYTES = 64 << 20
_INT64 = range(-(1 << 63), 1 << 63)
#: A table as wide as this is some other kind of data.
_MAX_KEYS = 10_000
#: Kinds of values that are kept as text where texts are among them, or numbers beyond 64 bits.
_WRITTEN = frozenset({"str", "huge", "int", "float", "bool"})
#: Kinds of values, nulls apart → the column's type; any others together are not stored.
_ARROW: dict[frozenset[str], pa.DataType] = {
    frozenset(): pa.null(),
    frozenset({"bool"}): pa.bool_(),
    frozenset({"int"}): pa.int64(),
    frozenset({"float"}): pa.float64(),
    frozenset({"int", "float"}): pa.float64(),
    frozenset({"str"}): pa.string(),
    frozenset({"list"}): pa.list_(pa.string()),
    frozenset({"numbers"}): pa.list_(pa.float64()),
    frozenset({"numbers", "list"}): pa.list_(pa.float64()),
}


def open_jsonl(path: Path, options: ReaderOptions) -> VectorSource:
    """Open a .jsonl file of vectors, with or without metadata.

    Raises:
        DataError: naming the line that is not JSON, or not an object with a vector.
    """
    first = next(lines(path), None)
    if first is None:
        raise DataError("it holds no vectors", where=str(path))
    if isinstance(first, list):
        return _open_lists(path, options)
    found = infer(path, options.rows)
    plan = plan_columns(found.schema(), options, str(path))
    if plan.ids is not None and plan.ids in found.negative:
        odd = "some are negative"
        plan = plan_columns(found.schema(), options, str(path), odd_ids=odd)
    dim = len(_vector(first.get(plan.vectors), path, 0, plan.vectors))
    check_shape(found.rows, dim, str(path))
    rest = [one for one in found.schema() if one.name in plan.columns and one.name != plan.vectors]

    def read(step: int) -> Iterator[Block]:
        for at, rows, values in _matrices(path, found.rows, dim, plan.vectors, step):
            lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), dim)
            batch = pa.record_batch({plan.vectors: lists, **arrow_columns(rows, rest)})
            yield block_of(batch, plan, dim, at, str(path))

    source = VectorSource(path, "jsonl", found.rows, dim, "json number", read)
    return by_plan(source, plan, "key")


def _open_lists(path: Path, options: ReaderOptions) -> VectorSource:
    count = sum(1 for _ in islice(lines(path, parse=False), options.rows))
    dim = len(_vector(next(lines(path)), path, 0, "the line"))
    check_shape(count, dim, str(path))

    def read(step: int) -> Iterator[Block]:
        return (Block(values) for _, _, values in _matrices(path, count, dim, None, step))

    return VectorSource(path, "jsonl", count, dim, "json number", read)


def _matrices(
    path: Path, count: int, dim: int, key: str | None, step: int
) -> Iterator[tuple[int, list[Any], NDArray[np.float64]]]:
    """The rows in batches: number of the first row, rows, vectors; without a key, rows are the
    vectors."""
    rows = islice(lines(path), count)
    at = 0
    while batch := list(islice(rows, step)):
        vectors = [
            _vector(row if key is None else row.get(key), path, at + i, key or "the line")
            for i, row in enumerate(batch)
        ]
        yield at, batch, matrix(vectors, dim, path, at)
        at += len(batch)


def lines(path: Path, *, parse: bool = True) -> Iterator[Any]:
    """The values of a JSON lines file, one per line; empty lines are skipped.

    parse: False yields the unparsed lines, to be counted only.

    Raises:
        DataError: naming the line.
    """
    with path.open("rb") as file:
        number = 0
        while line := file.readline(_MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > _MAX_LINE_BYTES:
                raise DataError(
                    f"the line is longer than {_MAX_LINE_BYTES} bytes",
                    where=f"{path}, line {number}",
                    remedy="it has to be JSON lines: one row a line",
                )
            if not line.strip():
                continue
            if not parse:
                yield line
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"the line is not JSON: {error}",
                    where=f"{path}, line {number}",
                    remedy="it is cut short, or not JSON lines (one row a line)",
                ) from error
            if not isinstance(value, dict | list):
                raise DataError(
                    "the line is neither an object nor a list", where=f"{path}, line {number}"
                )
            yield value


@dataclass
class Inferred:
    """The kinds of the values of each key over all rows, and the keys with a negative number."""

    rows: int = 0
    kinds: dict[str, set[str]] = field(default_factory=dict)
    negative: set[str] = field(default_factory=set)

    def schema(self) -> pa.Schema:
        """Every key as a column; with a type that is not stored if its values disagree."""
        return pa.schema([pa.field(name, _type(kinds)) for name, kinds in self.kinds.items()])


def _type(kinds: Set[str]) -> pa.DataType:
    kinds = frozenset(kinds - {"null"})
    if kinds & {"str", "huge"} and kinds <= _WRITTEN:
        return pa.string()
    return _ARROW.get(kinds, MIXED)


def infer(path: Path, rows: int | None = None) -> Inferred:
    """Infer the kinds of values from all rows (or the first so many), which must be objects."""
    found = Inferred()
    for row in islice(lines(path), rows):
        if not isinstance(row, dict):
            raise DataError("the row is a list, others are objects", where=_row(path, found.rows))
        for key, value in row.items():
            found.kinds.setdefault(key, set()).add(_kind(value))
            if type(value) is int and value < 0:
                found.negative.add(key)
        if len(found.kinds) > _MAX_KEYS:
            raise DataError(f"there are more than {_MAX_KEYS} keys", where=_row(path, found.rows))
        found.rows += 1
    return found


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int():
            return "int" if value in _INT64 else "huge"
        case float():
            return "float"
        case str():
            # JSON can spell half a surrogate pair, which is no text in UTF-8.
            return "str" if value.isascii() or _is_text(value) else "broken text"
        case list() if value and all(type(item) in (int, float) for item in value):
            return "numbers"
        case list():
            return "list"
        case _:
            return "object"


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def arrow_columns(rows: list[dict[str, Any]], fields: Iterable[pa.Field[Any]]) -> dict[str, Any]:
    """The named keys as Arrow arrays; null for a row that lacks the key."""
    out: dict[str, Any] = {}
    for column in fields:
        values = [row.get(column.name) for row in rows]
        if pa.types.is_floating(column.type):
            values = [None if value is None else float(value) for value in values]
        elif pa.types.is_string(column.type):
            values = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
        out[column.name] = pa.array(values, column.type)
    return out


def matrix(vectors: list[list[Any]], dim: int, path: Path, first_row: int) -> NDArray[np.float64]:
    """Lists of numbers as a matrix; DataError names the row whose length is not `dim`."""
    for i, vector in enumerate(vectors):
        if len(vector) != dim:
            raise DataError(
                f"the vector has {len(vector)} components where the first has {dim}",
                where=_row(path, first_row + i),
                remedy="every vector must have the same number of components",
            )
    flat = chain.from_iterable(vectors)
    try:
        return np.fromiter(flat, np.float64, len(vectors) * dim).reshape(len(vectors), dim)
    except OverflowError as error:
        raise DataError(
            "a component is too large for a float",
            where=f"{path}, rows {first_row} to {first_row + len(vectors) - 1}",
        ) from error


def _vector(value: Any, path: Path, row: int, name: str) -> list[Any]:
    if not isinstance(value, list) or not all(type(item) in (int, float) for item in value):
        raise DataError(f"'{name}' is not a list of numbers", where=_row(path, row))
    return value


def _row(path: Path, row: int) -> str:
    return f"{path}, row {row}"
