"""Tables that somebody else made, as PostgreSQL's catalogue describes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vectrial.model.errors import UserError
from vectrial.model.existing import Description, Existing, only_vector
from vectrial.model.metric import Metric
from vectrial.model.schema import FieldType
from vectrial.stores.common.sql import quoted
from vectrial.stores.postgres.search_plan import (
    OPERANDS,
    PlannedIndexes,
    RunSql,
    SearchTarget,
    mentions,
    planned_indexes,
)
from vectrial.stores.postgres.sql import INTEGERS, TableNames

_TYPES: Mapping[str, FieldType] = {
    **dict.fromkeys(INTEGERS, FieldType.INT),
    "double precision": FieldType.FLOAT,
    "text": FieldType.STRING,
    "character varying": FieldType.STRING,
    "character": FieldType.STRING,
    "boolean": FieldType.BOOL,
}
#: Columns that the role may read. Those of a collation in which different texts are equal have
#: filters of their own kind.
_COLUMNS = """\
SELECT attname, format_type(atttypid, NULL), format_type(atttypid, atttypmod), atttypmod,
coalesce(collisdeterministic, true)
FROM pg_attribute LEFT JOIN pg_collation ON pg_collation.oid = attcollation
WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
AND has_column_privilege(attrelid, attnum, 'SELECT') ORDER BY attnum"""
_PRIMARY = """\
SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
WHERE indrelid = $1::regclass AND indisprimary"""
#: Settings that decide how a search is answered.
_SETTINGS = (
    *("hnsw.ef_search", "hnsw.iterative_scan", "hnsw.max_scan_tuples", "ivfflat.probes"),
    *("ivfflat.iterative_scan", "enable_seqscan", "enable_indexscan", "work_mem"),
)


@dataclass(frozen=True)
class _Column:
    """kind, whole: its type without and with its modifier. deterministic: see `_COLUMNS`."""

    kind: str
    whole: str
    modifier: int
    deterministic: bool


@dataclass(frozen=True)
class FoundTable:
    """A table. place: as searches name it."""

    description: Description
    place: TableNames


def find_table(run_sql: RunSql, existing: Existing) -> FoundTable:
    """The table with the collection's name, and how it is searched.

    Raises:
        UserError: there is no such table, or the user must say what is searched in it.
    """
    name, table = existing.collection, _sql_path(existing.collection)
    columns, primary = _columns(run_sql, name), _primary_key(run_sql, table)
    id_name = existing.id or primary
    if id_name is None:
        raise UserError(
            f"table '{name}' has no primary key of one column",
            remedy="name the column with the ids: --id NAME",
        )
    vector, expression = _vector(existing, columns)
    for column in (id_name, vector):
        if column not in columns:
            raise UserError(
                f"table '{name}' has no column '{column}'", remedy=f"it has {', '.join(columns)}"
            )
    if (operand := columns[vector].kind) not in OPERANDS:
        raise UserError(
            f"column '{vector}' is of type {operand}",
            remedy=f"columns of the types {' and '.join(OPERANDS)} are searched",
        )
    plain = SearchTarget(vector, "", operand, existing.where, list(Metric))
    indexes = planned_indexes(run_sql, table, plain, existing.metric, expression)
    searched = indexes.searched if indexes else plain
    namespace, _, own_name = name.rpartition(".")
    place = TableNames(
        own_name,
        id_name,
        vector,
        namespace,
        columns[id_name].whole,
        searched.expression,
        searched.operand,
        searched.predicate,
        own=False,
    )
    if id_name != primary:
        _check_ids(run_sql, place)
    counted = f"SELECT count(*) FROM {table} WHERE {place.with_vector}"
    description = Description(
        id=id_name,
        vector=searched.expression or vector,
        rows=int(run_sql(counted).fetchone()[0]),
        dim=_dim(run_sql, place, columns[vector].modifier),
        metric=indexes.metric if indexes else None,
        index=indexes.index if indexes else "flat",
        params=indexes.params if indexes else {},
        text_ids=place.id_type not in INTEGERS or _has_negative(run_sql, place),
        fields={
            column: _TYPES[about.kind]
            for column, about in columns.items()
            if about.kind in _TYPES and about.deterministic and column != id_name
        },
        search={"seqscan": False} if indexes and indexes.forced else {},
        notes=tuple(_notes(run_sql, indexes, existing.where)),
    )
    return FoundTable(description, place)


def _vector(existing: Existing, columns: Mapping[str, _Column]) -> tuple[str, str | None]:
    """The vector column, and what of it is searched, in the form that `planned_indexes` takes.

    Raises:
        UserError: there are several columns, and none is named.
    """
    vectors = [column for column, about in columns.items() if about.kind in OPERANDS]
    if not existing.vector:
        return only_vector(vectors, f"table '{existing.collection}'", "column"), None
    for column in vectors:
        if existing.vector not in columns and mentions(existing.vector, column):
            return column, existing.vector
    return existing.vector, ""


def _notes(run_sql: RunSql, indexes: PlannedIndexes | None, where: str) -> Iterator[str]:
    """Notes for the reader on how the table is searched."""
    if where:
        yield f"searches have the condition {where}, and the rows are those that it keeps"
    if indexes is None:
        yield "a search is planned over no index of its vectors: every row is compared"
        return
    yield f"a search is planned over {', '.join(indexes.names)}"
    if indexes.searched.expression:
        yield f"the index is over {indexes.searched.expression}, which is what is searched"
    if indexes.searched.predicate and not where:
        predicate = indexes.searched.predicate
        yield f"the index has the rows with {predicate}, which are what is searched"
    if indexes.forced:
        yield (
            "with the server's own settings the table is read instead of the index: both are"
            " measured, the second with enable_seqscan = off"
        )
    known = (
        (name, run_sql("SELECT current_setting($1, true)", (name,)).fetchone())
        for name in _SETTINGS
    )
    yield "own settings: " + ", ".join(
        f"{name} = {row[0]}" for name, row in known if row and row[0]
    )


def _dim(run_sql: RunSql, place: TableNames, modifier: int) -> int:
    """Number of dimensions of what is searched.

    Raises:
        UserError: there is none, or it differs from row to row.
    """
    if modifier > 0 and not place.expression:
        return modifier
    every = f"SELECT DISTINCT vector_dims({place.searched}) FROM {place.path}"
    found = run_sql(f"{every} WHERE {place.with_vector} LIMIT 2").fetchall()
    if len(found) != 1:
        what = "vectors of several lengths" if found else "no vector"
        raise UserError(
            f"column '{place.vector}' holds {what}",
            remedy="make a view of the rows that are searched, and name that" if found else "",
        )
    return int(found[0][0])


def _check_ids(run_sql: RunSql, place: TableNames) -> None:
    """Check that the id column is unique if it is not a primary key.

    Raises:
        UserError: several rows have the same value, which the message names.
    """
    each = f"SELECT {quoted(place.id)}::text, count(*) FROM {place.path} WHERE {place.with_vector}"
    twice = run_sql(f"{each} GROUP BY {quoted(place.id)} HAVING count(*) > 1 LIMIT 1").fetchone()
    if twice is not None:
        raise UserError(
            f"{twice[1]:,} rows have {place.id} = {twice[0]}, so that it tells no rows apart",
            where="--id",
            remedy="name a column whose values are distinct",
        )


def _has_negative(run_sql: RunSql, place: TableNames) -> bool:
    """True if an id is negative: such ids are numbered, as text ids are."""
    below = f"SELECT EXISTS (SELECT 1 FROM {place.path} WHERE {quoted(place.id)} < 0)"
    return bool(run_sql(below).fetchone()[0])


def _sql_path(collection: str) -> str:
    """The table in SQL; `collection` may include the name of its schema."""
    namespace, _, table = collection.rpartition(".")
    return ".".join(quoted(part) for part in (namespace, table) if part)


def _columns(run_sql: RunSql, collection: str) -> dict[str, _Column]:
    """Columns of the table that the role may read, by name."""
    table = _sql_path(collection)
    if run_sql("SELECT to_regclass($1)::text", (table,)).fetchone()[0] is None:
        raise UserError(
            f"the database has no table '{collection}'",
            where="--collection",
            remedy="TABLE or SCHEMA.TABLE, as it is written in the catalogue",
        )
    found = {name: _Column(*about) for name, *about in run_sql(_COLUMNS, (table,)).fetchall()}
    if not found:
        raise UserError(f"the role may read no column of table '{collection}'")
    return found


def _primary_key(run_sql: RunSql, table: str) -> str | None:
    names = [name for (name,) in run_sql(_PRIMARY, (table,)).fetchall()]
    return str(names[0]) if len(names) == 1 else None
