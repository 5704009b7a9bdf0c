"""Parquet: one file, or the shards of a folder as Hugging Face keeps them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from vectrial.datasets.readers.base import Block, ReaderOptions, VectorSource, check_shape, reading
from vectrial.datasets.readers.columns import (
    ColumnPlan,
    block_of,
    by_plan,
    odd_ids,
    plan_columns,
    storage,
)
from vectrial.model.errors import DataError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

#: What Arrow raises on damaged files.
ARROW_ERRORS = (
    pa.ArrowException,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    OverflowError,
    MemoryError,
)
_IDS_AT_ONCE = 1 << 20
_Part = tuple[Path, "pq.ParquetFile"]
#: A folder whose name says a column's value, as Hive lays them out.
_PARTITION = re.compile(r"[^=/]+=[^=/]*")
#: Numbers and the identifiers that writers give to their parts.
_NUMBERED = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
_SPLIT = re.compile(r"^(train|test|validation|valid|dev)\b")


def open_parquet(path: Path, options: ReaderOptions) -> VectorSource:
    """Open one Parquet file with a column of lists and any metadata columns."""
    return open_files(path, (path,), options, "parquet")


def open_shards(folder: Path, files: Sequence[Path], options: ReaderOptions) -> VectorSource:
    """Open Parquet files below a folder as one source, in the order given."""
    notes: tuple[str, ...] = ()
    partitions = {
        part.split("=")[0]
        for file in files
        for part in file.relative_to(folder).parts[:-1]
        if _PARTITION.fullmatch(part)
    }
    if partitions:
        named = ", ".join(f"'{name}'" for name in sorted(partitions))
        notes += (f"left out, since only names of folders say it: {named}",)
    return open_files(folder, files, options, f"parquet, {len(files)} files", notes=notes)


def shard_pattern(parts: Sequence[str]) -> str:
    """The common part of shards' paths, without numbers, identifiers, partitions and splits."""
    named = [part for part in parts if "=" not in part]
    if named:
        named[-1] = _SPLIT.sub("", named[-1])
    return _NUMBERED.sub("#", "/".join(named))


def open_files(
    path: Path,
    files: Sequence[Path],
    options: ReaderOptions,
    form: str,
    *,
    notes: tuple[str, ...] = (),
) -> VectorSource:
    """Open Parquet files of one schema as one table, read row by row in the order given."""
    parts = [(file, open_file(file)) for file in files]
    first = parts[0][1].schema_arrow
    plan = _plan(parts, options)
    for file, parquet in parts:
        _check_same_columns(first, parquet.schema_arrow, plan, file, files[0])
    claimed = sum(parquet.metadata.num_rows for _, parquet in parts)
    check_shape(claimed, 1, str(path))
    rows = min(options.rows or claimed, claimed)
    dim, dtype = _first_vector(parts, plan.vectors)
    check_shape(rows, dim, str(path))

    def read(step: int) -> Iterator[Block]:
        left = rows
        for file, parquet in parts:
            at = 0
            for batch in batches(file, parquet, plan.columns, min(step, max(left, 1))):
                if left <= 0:
                    return
                batch = batch.slice(0, left)
                with reading(file, *ARROW_ERRORS):
                    block = block_of(batch, plan, dim, at, str(file))
                yield block
                at += batch.num_rows
                left -= batch.num_rows

    closing = tuple(parquet.close for _, parquet in parts)
    source = VectorSource(path, form, rows, dim, dtype, read, notes=notes, on_close=closing)
    return by_plan(source, plan)


def _plan(parts: Sequence[_Part], options: ReaderOptions) -> ColumnPlan:
    """The columns to read from the files; integers that cannot be ids are found by reading them."""
    schema, where = parts[0][1].schema_arrow, str(parts[0][0])
    plan = plan_columns(schema, options, where)
    if plan.ids is None:
        return plan
    columns = (
        batch.column(plan.ids)
        for file, parquet in parts
        if plan.ids in parquet.schema_arrow.names
        for batch in batches(file, parquet, [plan.ids], _IDS_AT_ONCE)
    )
    odd = odd_ids(columns, schema.field(plan.ids).type)
    return plan if odd is None else plan_columns(schema, options, where, odd_ids=odd)


def open_file(file: Path) -> pq.ParquetFile:
    """An opened Parquet file. Raises DataError if it cannot be read."""
    import pyarrow.parquet as pq  # here: loading it takes a while

    with reading(file, *ARROW_ERRORS):
        return pq.ParquetFile(file, memory_map=True, pre_buffer=False)


def batches(
    file: Path, parquet: pq.ParquetFile, columns: list[str], step: int
) -> Iterator[pa.RecordBatch]:
    """Batches of at most `step` rows with the named columns, each validated in full."""
    with reading(file, *ARROW_ERRORS):
        for batch in parquet.iter_batches(step, columns=columns):
            batch.validate(full=True)
            yield batch


def _first_vector(parts: Sequence[_Part], column: str) -> tuple[int, str]:
    for file, parquet in parts:
        for batch in batches(file, parquet, [column], 1):
            if not batch.num_rows:
                continue
            values = storage(batch.column(column))
            kind: Any = values.type
            if pa.types.is_fixed_size_list(kind):
                return kind.list_size, str(kind.value_type)
            if not values[0].is_valid:
                raise DataError("the vector is missing (null)", where=f"{file}, row 0")
            return len(values[0]), str(kind.value_type)
    raise DataError("it holds no vectors", where=str(parts[0][0]))


def _check_same_columns(
    expected: pa.Schema, found: pa.Schema, plan: ColumnPlan, file: Path, first: Path
) -> None:
    for name in plan.columns:
        at = found.get_field_index(name)
        kind = found.field(at).type if at >= 0 else "missing"
        if kind != expected.field(name).type:
            raise DataError(
                f"column '{name}' is {kind} where {first.name} has {expected.field(name).type}",
                where=str(file),
                remedy="all files of a folder must have the same columns",
            )
