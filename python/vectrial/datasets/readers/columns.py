"""From table columns to a block: which hold vectors, which ids, which metadata and as what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.readers.base import Block, ReaderOptions, VectorSource, choose
from vectrial.model.errors import DataError, UserError
from vectrial.util.suggest import suggestion

#: More columns than this are hardly metadata: they are refused unless some are chosen.
MOST_COLUMNS = 500
#: Columns named in a note or a message; of more their number is told.
_NAMED = 8
_UUID_BYTES = 16
#: The type of a column whose values are of kinds that no one type holds.
MIXED = pa.struct([])
#: Names that columns of vectors usually have, where a table has several that could be.
USUAL_VECTORS = ("emb", "embedding", "embeddings", "vector", "vectors", "openai")


@dataclass(frozen=True)
class ColumnPlan:
    """The columns to read from a table.

    vectors: the column of lists. ids: the integer column of ids, or None.
    labels: the column with the user's own ids if these are not numbers that can be ids: it is kept
        as metadata, and rows are numbered.
    schema: the metadata columns as they are stored, int64, float64, string or bool.
    notes: decisions and omissions, a sentence each.
    """

    vectors: str
    ids: str | None
    schema: pa.Schema
    notes: tuple[str, ...]
    labels: str | None = None

    @property
    def columns(self) -> list[str]:
        """All columns to read, each once."""
        names = [self.vectors, *([self.ids] if self.ids else []), *self.schema.names]
        return list(dict.fromkeys(names))


def by_plan(source: VectorSource, plan: ColumnPlan, of: str = "column") -> VectorSource:
    """A source whose blocks are read by a plan. of: what the format calls a column."""
    ids = f"{of} '{plan.ids}'" if plan.ids else "are generated"
    return replace(
        source,
        columns=tuple(plan.schema.names),
        has_ids=plan.ids is not None,
        labels=plan.labels,
        notes=(f"vectors are {of} '{plan.vectors}', ids {ids}", *plan.notes, *source.notes),
    )


def plan_columns(
    schema: pa.Schema, options: ReaderOptions, where: str, *, odd_ids: str | None = None
) -> ColumnPlan:
    """Decide which columns to read from a table of that schema.

    Args:
        odd_ids: why the integers that `ColumnPlan.ids` named cannot be ids ("some are negative"),
            found by `odd_ids` on reading them.

    Raises:
        UserError: a requested column does not exist or cannot be used as requested.
        DataError: two columns have the same name.
    """
    names: list[str] = schema.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"two columns are named '{twice}'", where=where)
    candidates = [field.name for field in schema if is_vector(field.type)]
    if not candidates or (options.vectors in names and options.vectors not in candidates):
        raise _no_vectors(schema, options.vectors, where)
    vectors = choose(
        options.vectors,
        candidates,
        usual=USUAL_VECTORS,
        what="column of vectors (lists of numbers)",
        where=where,
    )
    notes: list[str] = []
    ids, labels = _plan_ids(schema, options.ids, odd_ids, where, notes)
    fields: list[pa.Field[Any]] = []
    skipped, changed = dict[str, list[str]](), dict[tuple[str, str], list[str]]()
    for name in _chosen(names, options.keep, labels, where):
        if name in (vectors, ids):
            continue
        kind = schema.field(name).type
        stored = _label_type(kind) if name == labels else stored_type(kind)
        if stored is None:
            skipped.setdefault(_spelled(kind), []).append(name)
        else:
            fields.append(pa.field(name, stored))
            if (how := _how_kept(kind)) is not None:
                changed.setdefault((str(kind), how), []).append(name)
    if skipped and options.keep is not None:
        kind, (name, *_) = next(iter(skipped.items()))
        raise UserError(
            f"column {name} ({kind}) cannot be kept",
            where=where,
            remedy="numbers, text, true/false and times can",
        )
    if len(fields) > MOST_COLUMNS:
        raise UserError(
            f"{len(fields):,} columns could be metadata, and at most {MOST_COLUMNS} are kept",
            where=where,
            remedy="choose those that filters read with `--keep a,b`, or none with `--keep none`",
        )
    for (kind, how), names in changed.items():
        notes.append(f"{listed(names)} ({kind}) {'is' if len(names) == 1 else 'are'} kept as {how}")
    if skipped:
        each = [f"{listed(names)} ({kind})" for kind, names in skipped.items()]
        notes.append(f"left out, of types that no filter reads: {_first(each, '; ')}")
    return ColumnPlan(vectors, ids, pa.schema(fields), tuple(notes), labels)


def _spelled(kind: pa.DataType) -> str:
    return "of several kinds" if kind == MIXED else str(kind)


def listed(names: Sequence[str]) -> str:
    return _first([f"'{name}'" for name in names], ", ")


def _first(texts: Sequence[str], between: str) -> str:
    more = len(texts) - _NAMED
    shown = between.join(texts[:_NAMED])
    return f"{shown} and {more:,} more" if more > 0 else shown


def _no_vectors(schema: pa.Schema, requested: str | None, where: str) -> DataError:
    """The error that no (requested) column holds vectors: says what is there instead."""
    if requested is not None and requested not in schema.names:
        return DataError(
            f"there is no column '{requested}', and none of vectors (lists of numbers)",
            where=where,
            remedy=f"it has {listed(schema.names) or 'no columns'}",
        )
    names = [requested] if requested else [n for n in schema.names if n.lower() in USUAL_VECTORS]
    numbers = [f.name for f in schema if pa.types.is_floating(_plain_type(f.type))]
    remedy = "docs/datasets.md shows how DuckDB makes such a column of text or of several columns"
    if names:
        found = f"'{names[0]}' is {_spelled(schema.field(names[0]).type)}"
    elif len(numbers) > 1:
        found = f"{len(numbers):,} columns are floats, as {listed(numbers[:2])}"
    else:
        found = f"it has {listed(schema.names) or 'no columns'}"
    return DataError(
        f"there is no column of vectors (lists of numbers): {found}"
        if requested is None
        else f"column {found}, not lists of numbers",
        where=where,
        remedy=remedy,
    )


def _plan_ids(
    schema: pa.Schema, requested: str | None, odd: str | None, where: str, notes: list[str]
) -> tuple[str | None, str | None]:
    """The column of ids, or of the user's own ids that cannot be ids here; or neither."""
    names: list[str] = schema.names
    if requested == "none" and requested not in names:
        return None, None
    if requested is None:
        if "id" not in names or not pa.types.is_integer(schema.field("id").type):
            return None, None
        requested = "id"
    if requested not in names:
        raise _unknown(requested, names, where)
    kind = _plain_type(schema.field(requested).type)
    if pa.types.is_integer(kind) and odd is None:
        return requested, None
    if _label_type(kind) is None:
        raise UserError(
            f"'{requested}' is {_spelled(kind)}; ids are integers, text or UUIDs",
            where=where,
            remedy="choose another column with `--id`; `--id none` numbers the rows",
        )
    why = odd or ("they are text" if _is_text(kind) else "they are UUIDs")
    notes.append(
        f"own ids '{requested}' are kept as metadata, and rows are numbered from 0, since {why}"
    )
    return None, requested


def odd_ids(batches: Iterable[Any], kind: pa.DataType) -> str | None:
    """Reason why a column of integers cannot hold the ids; None if it can. Negative numbers mean
    'no row', and stores have 64 signed bits.

    batches: arrays of the column, which has the type `kind`.
    """
    import pyarrow.compute as pc

    signed = pa.types.is_signed_integer(kind)
    for column in batches:
        ends: Any = pc.min_max(column)
        if signed and ends["min"].is_valid and ends["min"].as_py() < 0:
            return "some are negative"
        if ends["max"].is_valid and ends["max"].as_py() >= 1 << 63:
            return "some are 2^63 or more"
    return None


def _label_type(kind: pa.DataType) -> pa.DataType | None:
    """The type in which the user's own ids are kept, or None if they cannot be."""
    plain = _plain_type(kind)
    if pa.types.is_fixed_size_binary(plain) and plain.byte_width == _UUID_BYTES:
        return pa.string()
    if pa.types.is_integer(plain):
        return pa.string() if pa.types.is_uint64(plain) else pa.int64()
    return pa.string() if _is_text(plain) else None


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the decoded values, whatever their encoding."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    return _plain_type(kind.value_type) if pa.types.is_dictionary(kind) else kind


def _chosen(
    names: list[str], keep: tuple[str, ...] | None, labels: str | None, where: str
) -> Sequence[str]:
    for name in keep or ():
        if name not in names:
            raise _unknown(name, names, where)
    if keep is None:
        return names
    return list(dict.fromkeys([*keep, *([labels] if labels else [])]))


def _unknown(requested: str, names: list[str], where: str) -> UserError:
    return UserError(
        f"there is no column '{requested}'", where=where, remedy=suggestion(requested, names)
    )


def is_vector(kind: pa.DataType) -> bool:
    """True if a column of this type can hold vectors: lists of real numbers."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if not (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        return False
    item: pa.DataType = kind.value_type
    return pa.types.is_floating(item) or pa.types.is_integer(item)


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def stored_type(kind: pa.DataType) -> pa.DataType | None:
    """The type that a column of `kind` is stored as: int64, float64, string, bool; None if it
    cannot be."""
    if pa.types.is_dictionary(kind):
        return stored_type(kind.value_type)
    if isinstance(kind, pa.UuidType):
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType):
        return stored_type(kind.storage_type)
    if pa.types.is_boolean(kind):
        return pa.bool_()
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        # An interval of months and days is no number.
        return None if pa.types.is_interval(kind) else pa.int64()
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pa.float64()
    return pa.string() if _is_text(kind) else None


def _how_kept(kind: pa.DataType) -> str | None:
    """The conversion of values that are stored as another type; None if they stay unchanged."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_decimal(kind):
        return "floats"
    if not pa.types.is_temporal(kind) or pa.types.is_interval(kind):
        return None
    if pa.types.is_date32(kind):
        return "days since 1970"
    unit = "ms" if pa.types.is_date64(kind) else str(getattr(kind, "unit", "s"))
    since = " since 1970, in UTC" if pa.types.is_timestamp(kind) and kind.tz else ""
    return f"integers, in {unit}{since}"


def block_of(
    batch: pa.RecordBatch, plan: ColumnPlan, dim: int, first_row: int, where: str
) -> Block:
    """The rows of a batch as vectors (r, dim), ids and metadata.

    Args:
        first_row: number of the batch's first row in its file, for messages.

    Raises:
        DataError: naming the row whose vector or id is missing or does not fit.
    """
    vectors = matrix_of(storage(batch.column(plan.vectors)), dim, first_row, where)
    ids = None
    if plan.ids is not None:
        ids = ids_of(storage(batch.column(plan.ids)), plan.ids, first_row, where)
    if plan.labels is not None:
        _check_no_null(batch.column(plan.labels), f"id '{plan.labels}'", first_row, where)
    if not plan.schema.names:
        return Block(vectors, ids)
    columns = [
        stored_column(batch.column(field.name), field, first_row, where) for field in plan.schema
    ]
    return Block(vectors, ids, pa.Table.from_arrays(columns, schema=plan.schema))


def storage(column: Any) -> Any:
    """The decoded values of a column, whatever their encoding."""
    if isinstance(column, pa.ExtensionArray):
        return storage(column.storage)
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    return column


def _check_no_null(column: Any, what: str, first_row: int, where: str) -> None:
    if column.null_count:
        missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        more = f", and so are {len(missing) - 1:,} more near it" if len(missing) > 1 else ""
        raise DataError(
            f"{what} is missing (null){more}",
            where=f"{where}, row {first_row + int(missing[0])}",
            remedy="leave such rows out of the file, or fill them in",
        )


def matrix_of(column: Any, dim: int, first_row: int, where: str) -> NDArray[Any]:
    """A list column as a matrix (rows, dim); every list must have exactly `dim` numbers."""
    _check_no_null(column, "the vector", first_row, where)
    if not pa.types.is_fixed_size_list(column.type):
        lengths = np.diff(column.offsets.to_numpy())
        other = np.flatnonzero(lengths != dim)
        if other.size:
            row = int(other[0])
            raise DataError(
                f"the vector has {lengths[row]} components where the first has {dim}",
                where=f"{where}, row {first_row + row}",
                remedy="every vector must have the same number of components",
            )
    flat = column.flatten()
    if flat.null_count:
        at = int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(
            f"component {at % dim} is missing (null)", where=f"{where}, row {first_row + at // dim}"
        )
    values: NDArray[Any] = flat.to_numpy(zero_copy_only=False)
    return values.reshape(len(column), dim)


def ids_of(column: Any, name: str, first_row: int, where: str) -> NDArray[np.int64]:
    """An integer column as int64 ids."""
    _check_no_null(column, f"id '{name}'", first_row, where)
    try:
        ids: NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise DataError(
            f"an id in '{name}' does not fit in 64 signed bits: {error}",
            where=f"{where}, rows from {first_row}",
        ) from error
    return ids


def stored_column(column: Any, field: pa.Field[Any], first_row: int, where: str) -> Any:
    """A column cast to the type it is stored as; see `stored_type`."""
    column = storage(column)
    if pa.types.is_fixed_size_binary(column.type):
        texts = [None if raw is None else str(UUID(bytes=raw)) for raw in column.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
        column = column.cast(pa.int32())
    # Whole numbers beyond 2^53 lose digits as float64, but only decimals take that way.
    safe = not (pa.types.is_decimal(column.type) or pa.types.is_floating(column.type))
    try:
        return column.cast(field.type, safe=safe)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"column '{field.name}' ({column.type}) does not fit in {field.type}: {error}",
            where=f"{where}, rows from {first_row}",
            remedy="`--keep` names the columns to keep, without it",
        ) from error
