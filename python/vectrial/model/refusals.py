"""Refusals of what a store does not declare, raised when a plan is made."""

from __future__ import annotations

from collections.abc import Sequence

from vectrial.model.capabilities import Capabilities, Index, IndexKind
from vectrial.model.errors import Unsupported
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric
from vectrial.model.schema import Field, Schema
from vectrial.model.store import Store


def untested_note(store: type[Store], version: str) -> str | None:
    """A note if the store's driver was not tested with this version, else None."""
    if not store.tested or version.startswith(store.tested):
        return None
    return (
        f"{store.name} {version} is not a version that its driver was tested with: "
        f"{', '.join(f'{known}*' for known in store.tested)}"
    )


def refuse(
    store: type[Store], schema: Schema, index: Index | None = None, where: Filter | None = None
) -> None:
    """Raise `Unsupported` for what the store does not declare; called when a plan is made."""
    from vectrial.model.filters import fields

    can = store.capabilities
    if schema.metric not in can.scores:
        raise Unsupported(
            f"{store.name} has no metric '{schema.metric}'",
            remedy=f"it has {', '.join(sorted(can.scores))}",
        )
    for column in schema.fields:
        if column.type not in can.field_types:
            raise Unsupported(f"{store.name} cannot keep column '{column.name}' ({column.type})")
        _refuse_values(store, column)
    if can.columns is not None and len(schema.fields) > can.columns:
        raise Unsupported(
            f"{store.name} keeps at most {can.columns} metadata columns, not {len(schema.fields)}",
            remedy="import the dataset with `--keep`, which names those that filters read",
        )
    _refuse_vectors(store, schema)
    kind = None if index is None else _kind(store, schema, index)
    if where is not None:
        refuse_filter(store, where, kind)
        read = fields(where)
        if any(column.name in read and not column.indexed for column in schema.fields):
            refuse_unindexed(store)


def _refuse_vectors(store: type[Store], schema: Schema) -> None:
    can = store.capabilities
    if can.most_dim is not None and schema.dim > can.most_dim:
        raise Unsupported(
            f"{store.name} keeps vectors of up to {can.most_dim:,} dimensions; these have"
            f" {schema.dim:,}"
        )
    if schema.metric is not Metric.COSINE or schema.norms is None:
        return
    (least, most), (shortest, longest) = can.norms, schema.norms
    for lost, what in (
        (shortest < least, f"shorter than {least:.2g}; the shortest has {shortest:.2g}"),
        (longest > most, f"longer than {most:.2g}; the longest has {longest:.2g}"),
    ):
        if lost:
            raise Unsupported(
                f"{store.name} loses the direction of vectors that are {what}",
                remedy="scale the vectors before they are imported: their cosines stay as they are",
            )


def _kind(store: type[Store], schema: Schema, index: Index) -> IndexKind:
    """The kind of this index, which must accept such vectors."""
    can = store.capabilities
    kind = can.indexes.get(index.kind)
    if kind is None:
        raise Unsupported(
            f"{store.name} has no index '{index.kind}'", remedy=f"it has {', '.join(can.indexes)}"
        )
    if kind.metrics is not None and schema.metric not in kind.metrics:
        raise Unsupported(f"{store.name}: index '{index.kind}' has no '{schema.metric}'")
    if kind.most_dim is not None and schema.dim > kind.most_dim:
        able = [name for name, one in can.indexes.items() if _can_index(one, schema)]
        raise Unsupported(
            f"{store.name} indexes vectors of up to {kind.most_dim:,} dimensions as"
            f" '{index.kind}'; these have {schema.dim:,}",
            remedy=f"use the index {' or '.join(able)}" if able else "",
        )
    return kind


def _can_index(kind: IndexKind, schema: Schema) -> bool:
    fits = kind.most_dim is None or schema.dim <= kind.most_dim
    return fits and (kind.metrics is None or schema.metric in kind.metrics)


def refuse_k(store: type[Store], k: int) -> None:
    """Raise `Unsupported` if an answer of the store cannot have k rows."""
    most = store.capabilities.most_k
    if most is not None and k > most:
        raise Unsupported(
            f"{store.name} answers with at most {most:,} rows, not {k:,}",
            remedy=f"k of at most {most:,}",
        )


def refuse_rows(store: type[Store], index: Index, rows: int) -> None:
    """Raise `Unsupported` if so few rows are not enough to build the index."""
    least_rows = store.capabilities.indexes[index.kind].least_rows
    if least_rows is not None and rows < (least := least_rows(index.params)):
        raise Unsupported(
            f"{store.name} builds an index '{index.kind}' of at least {least:,} rows, not {rows:,}",
            remedy="use another index, or more rows",
        )


def refuse_nodes(store: type[Store], index: Index, nodes: int) -> None:
    """Raise `Unsupported` if the store has no clusters of so many nodes, or the index more copies
    of its parts than there are nodes for them."""
    if nodes > 1 and store.server is None:
        raise Unsupported(f"{store.name} is a library: it has no nodes", remedy="nodes = 1")
    if nodes > 1 and not store.capabilities.clusters:
        raise Unsupported(f"{store.name} runs as one node here", remedy="nodes = 1")
    copies = getattr(index.params, "replication_factor", None) or 1
    if copies > nodes:
        raise Unsupported(
            f"{store.name} keeps {copies} copies of a part on as many nodes, and has {nodes}",
            remedy=f"nodes = {copies}, or a smaller replication_factor",
        )


def _refuse_values(store: type[Store], column: Field) -> None:
    can, remedy = store.capabilities, "import the dataset with `--keep`, and without this column"
    if column.missing and not can.nulls:
        raise Unsupported(
            f"{store.name} keeps no missing values, as column '{column.name}' has", remedy=remedy
        )
    if column.nul_row is not None and not can.nul_in_text:
        raise Unsupported(
            f"{store.name} keeps no text with a U+0000, as column '{column.name}' has in row"
            f" {column.nul_row:,}",
            remedy=remedy,
        )
    if can.kept_int is not None and column.largest > can.kept_int:
        raise Unsupported(
            f"{store.name} keeps whole numbers up to {can.kept_int:,}, and column"
            f" '{column.name}' has one of magnitude {column.largest:,}",
            remedy=remedy,
        )
    if can.text_bytes is not None and column.longest > can.text_bytes and not column.text:
        raise Unsupported(
            f"{store.name} keeps texts of at most {can.text_bytes:,} bytes, and column"
            f" '{column.name}' has one of {column.longest:,}",
            remedy=remedy,
        )


def refuse_filters_on(store: type[Store], columns: Sequence[Field]) -> None:
    """Raise `Unsupported` if filters of the store do not distinguish the values of a column."""
    for column in columns:
        if why := indistinct_values(store.capabilities, column):
            raise Unsupported(
                f"{store.name} {why} in filters, as column '{column.name}' has",
                remedy="import the dataset with `--keep`, and without this column",
            )


def indistinct_values(can: Capabilities, column: Field) -> str:
    """Effect of filters on values that they do not tell apart; empty if they tell all apart."""
    if column.spaced_row is not None and not can.spaces_in_text:
        return f"ignores white space at an end of a text (row {column.spaced_row:,})"
    if can.most_int is not None and column.largest > can.most_int:
        return f"compares whole numbers up to {can.most_int:,} ({column.largest:,})"
    return ""


def refuse_filter(store: type[Store], where: Filter, kind: IndexKind | None = None) -> None:
    """Raise `Unsupported` when a search of `store` cannot honour `where`."""
    from vectrial.model.filters import operators

    honoured = store.capabilities.filters
    if kind is not None and kind.filters is not None:
        honoured = kind.filters
    missing = operators(where) - honoured
    if missing:
        raise Unsupported(
            f"{store.name} cannot filter with '{min(missing)}'",
            remedy=f"it can: {', '.join(sorted(honoured)) or 'no filter at all'}",
        )


def refuse_operation(store: Store, index: Index, operation: str) -> None:
    """Raise `Unsupported` when this kind of index has no such operation: "get", "scan", …."""
    if operation in store.capabilities.indexes[index.kind].unsupported:
        raise Unsupported(f"{store.name}: index '{index.kind}' has no {operation}")


def refuse_unindexed(store: type[Store]) -> None:
    """Raise `Unsupported` if `store` cannot filter by a column without an index."""
    if store.capabilities.filters_need_index:
        raise Unsupported(f"{store.name} filters by no column without an index")
