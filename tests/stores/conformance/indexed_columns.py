"""Which columns have an index, as each store itself lists them: asked behind the driver's back,
since what the driver says is what is to be proved.

A store that declares `payload_index` has a line in `LISTS`; see docs/adding-a-store.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from vectrial.model.schema import FieldType, Schema
from vectrial.model.store import Store


@dataclass(frozen=True)
class Listed:
    """How a store is asked for its indexes.

    ask: the names under which it keeps the columns that have one. Those of the ids, of the vectors
        and of what the driver keeps for itself may be among them.
    never: types of columns that get none, whatever is asked; the driver declares that difference.
    """

    ask: Callable[[Any], Iterable[str]]
    never: frozenset[FieldType] = frozenset()


def indexed_columns(store: Store, schema: Schema) -> set[str]:
    """The columns of `schema` that have an index in the collection that `store` has open."""
    found = set(LISTS[store.name].ask(store))
    return {field for field, column in schema.columns.items() if column in found}


def _sqlite(store: Any) -> Iterable[str]:
    listed = store._connection().execute(
        "SELECT part.name"
        " FROM pragma_index_list('rows') AS one, pragma_index_info(one.name) AS part"
    )
    return [name for (name,) in listed.fetchall()]


def _postgres(store: Any) -> Iterable[str]:
    listed = store._client.main.execute(
        "SELECT indexdef FROM pg_indexes WHERE tablename = $1", (store._name,)
    )
    return [name for (text,) in listed.fetchall() for name in re.findall(r"\bf\d+\b", text)]


def _lucene(store: Any) -> Iterable[str]:
    (mapping,) = store._client.indices.get_mapping(index=store._name).values()
    for name, told in mapping["mappings"]["properties"].items():
        # A field is indexed unless its mapping says not; others may be indexed beneath it.
        if told.get("index", True) or told.get("fields"):
            yield name


def _milvus(store: Any) -> Iterable[str]:
    client, name = store._client, store._name
    return [client.describe_index(name, one)["field_name"] for one in client.list_indexes(name)]


def _lancedb(store: Any) -> Iterable[str]:
    return [name for one in store._table.list_indices() for name in one.columns]


def _weaviate(store: Any) -> Iterable[str]:
    for told in store._collection.config.get().properties:
        if told.index_filterable or told.index_searchable or told.index_range_filters:
            yield told.name


LISTS: Mapping[str, Listed] = {
    "elasticsearch": Listed(_lucene),
    "lancedb": Listed(_lancedb),
    "milvus": Listed(_milvus, never=frozenset({FieldType.BOOL})),
    "opensearch": Listed(_lucene),
    "pgvector": Listed(_postgres),
    "qdrant": Listed(lambda s: s._client.get_collection(s._name).payload_schema),
    "qdrant-edge": Listed(lambda s: s._shard.info().payload_schema),
    "sqlite": Listed(_sqlite),
    "sqlite-vec": Listed(_sqlite),
    "weaviate": Listed(_weaviate),
}
