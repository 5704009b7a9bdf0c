"""Tables that somebody else made, as PostgreSQL's catalogue describes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vectrial.model.errors import UserError
from vectrial.model.existing import Description, Existing, only_vector
from vectrial.model.metric import Metric
from vectrial.model.schema import FieldType
from vectrial.stores.common.sql import quoted
from vectrial.stores.postgres.sql import INTEGERS, Place

#: Runs SQL with values for $1, $2, …, and returns a cursor.
Ask = Callable[..., Any]

_TYPES: Mapping[str, FieldType] = {
    **dict.fromkeys(INTEGERS, FieldType.INT),
    "double precision": FieldType.FLOAT,
    "text": FieldType.STRING,
    "character varying": FieldType.STRING,
    "boolean": FieldType.BOOL,
}
_METRICS = {
    "vector_l2_ops": Metric.L2,
    "vector_cosine_ops": Metric.COSINE,
    "vector_ip_ops": Metric.IP,
}
#: Kinds of index and their parameters, each with its name there.
_KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "hnsw": ("hnsw", {"m": "m", "ef_construction": "ef_construction"}),
    "ivfflat": ("ivf_flat", {"lists": "nlist"}),
}
_COLUMNS = """\
SELECT attname, format_type(atttypid, NULL), atttypmod FROM pg_attribute
WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_PRIMARY = """\
SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
WHERE indrelid = $1::regclass AND indisprimary"""
#: Indexes of one column: their method, options, and the class of operators, which has the metric.
_INDEXES = """\
SELECT amname, coalesce(reloptions, '{}'), opcname FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam
JOIN pg_opclass ON pg_opclass.oid = indclass[0]
JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
WHERE indrelid = $1::regclass AND attname = $2 AND indisvalid AND indpred IS NULL
AND amname IN ('hnsw', 'ivfflat')"""


def describe(ask: Ask, existing: Existing) -> Description:
    """See `Store.describe`."""
    columns = _columns(ask, existing.collection)
    table = _path(existing.collection)
    id_name = existing.id or _primary_key(ask, table, existing.collection)
    vectors = [name for name, (kind, _) in columns.items() if kind == "vector"]
    vector = existing.vector or only_vector(vectors, f"table '{existing.collection}'", "column")
    for name in (id_name, vector):
        if name not in columns:
            raise UserError(
                f"table '{existing.collection}' has no column '{name}'",
                remedy=f"it has {', '.join(columns)}",
            )
    if columns[vector][0] != "vector":
        raise UserError(
            f"column '{vector}' is of type {columns[vector][0]}",
            remedy="only columns of the type vector are searched",
        )
    metric, index, params = _index(ask, table, vector)
    counted = f"SELECT count(*) FROM {table} WHERE {quoted(vector)} IS NOT NULL"
    return Description(
        id=id_name,
        vector=vector,
        rows=int(ask(counted).fetchone()[0]),
        dim=_dim(ask, table, vector, columns[vector][1]),
        metric=metric,
        index=index,
        params=params,
        text_ids=columns[id_name][0] not in INTEGERS,
        fields={
            name: _TYPES[kind]
            for name, (kind, _) in columns.items()
            if kind in _TYPES and name != id_name
        },
    )


def place_of(ask: Ask, collection: str, id_name: str, vector: str) -> Place:
    """The table and its columns, for searches."""
    namespace, _, table = collection.rpartition(".")
    kind = _columns(ask, collection)[id_name][0]
    return Place(table, id_name, vector, namespace, kind)


def _path(collection: str) -> str:
    """The table in SQL; its name may have that of its schema before it."""
    namespace, _, table = collection.rpartition(".")
    return ".".join(quoted(part) for part in (namespace, table) if part)


def _columns(ask: Ask, collection: str) -> dict[str, tuple[str, int]]:
    """Columns of the table by name: their type, and the modifier of the type."""
    table = _path(collection)
    if ask("SELECT to_regclass($1)::text", (table,)).fetchone()[0] is None:
        raise UserError(
            f"the database has no table '{collection}'",
            where="--collection",
            remedy="TABLE or SCHEMA.TABLE, as it is written in the catalogue",
        )
    return {name: (kind, mod) for name, kind, mod in ask(_COLUMNS, (table,)).fetchall()}


def _primary_key(ask: Ask, table: str, collection: str) -> str:
    names = [name for (name,) in ask(_PRIMARY, (table,)).fetchall()]
    if len(names) != 1:
        raise UserError(
            f"table '{collection}' has no primary key of one column",
            remedy="name the column with the ids: --id NAME",
        )
    return str(names[0])


def _index(ask: Ask, table: str, vector: str) -> tuple[Metric | None, str, dict[str, int]]:
    """Metric, kind and parameters of the index of a column; an exact scan where there is none."""
    found = [
        (method, options, operators)
        for method, options, operators in ask(_INDEXES, (table, vector)).fetchall()
        if operators in _METRICS
    ]
    if not found:
        return None, "flat", {}
    if len(found) > 1:
        raise UserError(
            f"column '{vector}' has {len(found)} indexes, of which the server chooses one",
            remedy="it is measured where there is one",
        )
    ((method, options, operators),) = found
    kind, names = _KINDS[method]
    given = dict(option.split("=", 1) for option in options)
    params = {names[name]: int(value) for name, value in given.items() if name in names}
    return _METRICS[operators], kind, params


def _dim(ask: Ask, table: str, vector: str, modifier: int) -> int:
    if modifier > 0:
        return modifier
    found = ask(
        f"SELECT vector_dims({quoted(vector)}) FROM {table}"
        f" WHERE {quoted(vector)} IS NOT NULL LIMIT 1"
    ).fetchone()
    if found is None:
        raise UserError(f"column '{vector}' holds no vector")
    return int(found[0])
