"""Parquet: one file, or the shards of a folder as Hugging Face keeps them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from vectrial.datasets.readers.base import Block, Options, Source, check_shape, reading
from vectrial.datasets.readers.columns import Plan, block_of, odd_ids, plan_columns, storage
from vectrial.model.errors import DataError

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
#: A folder whose name says a column's value, as Hive lays them out.
_PARTITION = re.compile(r"[^=/]+=[^=/]*")
#: Numbers and the identifiers that writers give to their parts.
_NUMBERED = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
_SPLIT = re.compile(r"^(train|test|validation|valid|dev)\b")


def open_parquet(path: Path, options: Options) -> Source:
    """Open one Parquet file with a column of lists and any metadata columns."""
    return open_files(path, (path,), options, "parquet")


def open_shards(folder: Path, options: Options) -> Source:
    """Open all Parquet files below a folder as one, in the order of their names.

    Where names tell splits (`train-00000-of-00010.parquet`), only the training split is read.
    """
    files = sorted(folder.rglob("*.parquet"))
    splits = {file: match[1] for file in files if (match := _SPLIT.match(file.name))}
    left_out = [file for file, split in splits.items() if split != "train"]
    if len(left_out) < len(files):
        files = [file for file in files if file not in left_out]
    else:
        left_out = []
    source_notes: tuple[str, ...] = (
        (f"{len(left_out)} files of other splits are left out: {left_out[0].name}, …",)
        if left_out
        else ()
    )
    partitions = {
        part.split("=")[0]
        for file in files
        for part in file.relative_to(folder).parts[:-1]
        if _PARTITION.fullmatch(part)
    }
    if partitions:
        named = ", ".join(f"'{name}'" for name in sorted(partitions))
        source_notes += (f"left out, since only names of folders say it: {named}",)
    return open_files(folder, files, options, f"parquet, {len(files)} files", notes=source_notes)


def shard_pattern(parts: Sequence[str]) -> str:
    """The common part of shards' paths: without numbers, identifiers, partitions and splits."""
    named = [part for part in parts if "=" not in part]
    if named:
        named[-1] = _SPLIT.sub("", named[-1])
    return _NUMBERED.sub("#", "/".join(named))


def open_files(
    path: Path, files: Sequence[Path], options: Options, form: str, *, notes: tuple[str, ...] = ()
) -> Source:
    """Open Parquet files of one schema as one table, read row by row in the order given."""
    opened = [open_file(file) for file in files]
    plan = _plan(opened, files, options)
    for file, parquet in zip(files, opened, strict=True):
        _check_same_columns(opened[0].schema_arrow, parquet.schema_arrow, plan, file, files[0])
    claimed = sum(parquet.metadata.num_rows for parquet in opened)
    check_shape(claimed, 1, str(path))
    rows = min(options.rows or claimed, claimed)
    dim, dtype = _first_vector(opened, files, plan.vectors)
    check_shape(rows, dim, str(path))

    def read(step: int) -> Iterator[Block]:
        left = rows
        for file, parquet in zip(files, opened, strict=True):
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

    return Source(
        path,
        form,
        rows,
        dim,
        dtype,
        read,
        columns=tuple(plan.schema.names),
        has_ids=plan.ids is not None,
        labels=plan.labels,
        notes=(
            f"vectors are column '{plan.vectors}', ids "
            + (f"column '{plan.ids}'" if plan.ids else "are generated"),
            *plan.notes,
            *notes,
        ),
        on_close=tuple(parquet.close for parquet in opened),
    )


def _plan(opened: Sequence[pq.ParquetFile], files: Sequence[Path], options: Options) -> Plan:
    """The columns to read from the files; integers that cannot be ids are found by reading them."""
    schema, where = opened[0].schema_arrow, str(files[0])
    plan = plan_columns(schema, options, where)
    if plan.ids is None:
        return plan
    columns = (
        batch.column(plan.ids)
        for file, parquet in zip(files, opened, strict=True)
        if plan.ids in parquet.schema_arrow.names
        for batch in batches(file, parquet, [plan.ids], _IDS_AT_ONCE)
    )
    odd = odd_ids(columns, schema.field(plan.ids).type)
    return plan if odd is None else plan_columns(schema, options, where, odd_ids=odd)


def open_file(file: Path) -> pq.ParquetFile:
    """An opened Parquet file, or DataError."""
    with reading(file, *ARROW_ERRORS):
        return pq.ParquetFile(file, memory_map=True, pre_buffer=False)


def batches(
    file: Path, parquet: pq.ParquetFile, columns: list[str], step: int
) -> Iterator[pa.RecordBatch]:
    """Batches of at most `step` rows with the columns named, each of them validated in full."""
    with reading(file, *ARROW_ERRORS):
        for batch in parquet.iter_batches(step, columns=columns):
            batch.validate(full=True)
            yield batch


def _first_vector(
    opened: Sequence[pq.ParquetFile], files: Sequence[Path], column: str
) -> tuple[int, str]:
    for file, parquet in zip(files, opened, strict=True):
        for batch in batches(file, parquet, [column], 1):
            if not batch.num_rows:
                continue
            values = storage(batch.column(column))
            kind: Any = values.type
            if pa.types.is_fixed_size_list(kind):
                return kind.list_size, str(kind.value_type)
            first = values[0]
            if not first.is_valid:
                raise DataError("the vector is missing (null)", where=f"{file}, row 0")
            return len(first), str(kind.value_type)
    raise DataError("it holds no vectors", where=str(files[0]))


def _check_same_columns(
    expected: pa.Schema, found: pa.Schema, plan: Plan, file: Path, first: Path
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
