"""Collections of Milvus that somebody else made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vectrial.model.errors import UserError
from vectrial.model.existing import Description, Existing
from vectrial.model.schema import FieldType
from vectrial.stores.milvus.collection import BUILD_PARAMS, METRICS, strong_count
from vectrial.stores.milvus.indexes import KINDS

#: A kind of index that leaves the kind to the server.
_AUTOMATIC = "AUTOINDEX"


def describe(client: Any, existing: Existing) -> Description:
    """See `Store.describe`."""
    from pymilvus import DataType

    name = existing.collection
    if not client.has_collection(name):
        raise UserError(f"the server has no collection '{name}'", where="--collection")
    types = {
        **dict.fromkeys(
            (DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64), FieldType.INT
        ),
        DataType.DOUBLE: FieldType.FLOAT,
        DataType.VARCHAR: FieldType.STRING,
        DataType.BOOL: FieldType.BOOL,
    }
    fields = client.describe_collection(name)["fields"]
    (primary,) = [one for one in fields if one.get("is_primary")]
    if existing.id not in ("", primary["name"]):
        raise UserError(
            f"'{existing.id}' is not the primary key", where="--id", remedy="leave it out"
        )
    vector = _vector(fields, existing.vector, name, DataType.FLOAT_VECTOR)
    index = _index(client, name, vector["name"])
    if not _is_loaded(client.get_load_state(name)):
        raise UserError(
            f"collection '{name}' is not loaded, and nothing is changed here",
            remedy=f"load it: MilvusClient(…).load_collection({name!r})",
        )
    kinds = {theirs: ours for ours, theirs in KINDS.items()} | {_AUTOMATIC: "hnsw"}
    if index["index_type"] not in kinds:
        raise UserError(
            f"the index of '{vector['name']}' is of the kind {index['index_type']}",
            remedy=f"{', '.join(kinds)} are measured",
        )
    return Description(
        id=primary["name"],
        vector=vector["name"],
        rows=_count(client, existing),
        dim=int(vector["params"]["dim"]),
        metric={theirs: ours for ours, theirs in METRICS.items()}.get(index["metric_type"]),
        index=kinds[index["index_type"]],
        params={
            ours: int(index[theirs]) for ours, theirs in BUILD_PARAMS.items() if theirs in index
        },
        text_ids=primary["type"] == DataType.VARCHAR,
        fields={
            one["name"]: types[one["type"]]
            for one in fields
            if one["type"] in types and not one.get("is_primary")
        },
        notes=(*_notes(client, name, index),),
    )


def _count(client: Any, existing: Existing) -> int:
    """Number of rows in the collection that meet the application's condition.

    Raises:
        UserError: the server rejects the condition.
    """
    from pymilvus import MilvusException

    condition = existing.where and f"({existing.where})"
    try:
        return strong_count(client, existing.collection, condition)
    except MilvusException as error:
        if not condition:
            raise
        raise UserError(
            f"the server refuses the condition: {error.message}", where="--where"
        ) from error


def _notes(client: Any, name: str, index: Mapping[str, Any]) -> Iterator[str]:
    if index["index_type"] == _AUTOMATIC:
        yield (
            f"the index is {_AUTOMATIC}, whose kind the server's configuration says: it is searched"
            " as the graph (HNSW) that a server makes which is not configured otherwise"
        )
    partitions = client.list_partitions(name)
    loaded = [one for one in partitions if _is_loaded(client.get_load_state(name, one))]
    if len(loaded) < len(partitions):
        yield f"rows are those of the partitions that are loaded: {', '.join(loaded)}"


def _is_loaded(state: Mapping[str, Any]) -> bool:
    text = str(state["state"])
    return "Loaded" in text and "NotLoad" not in text


def _vector(
    fields: list[Mapping[str, Any]], requested_name: str, name: str, kind: Any
) -> Mapping[str, Any]:
    found = [one for one in fields if one["type"] == kind and requested_name in ("", one["name"])]
    if len(found) != 1:
        raise UserError(
            f"collection '{name}' has {len(found)} fields of float vectors"
            + (f" called '{requested_name}'" if requested_name else ""),
            remedy="name it: --vector NAME",
        )
    return found[0]


def _index(client: Any, name: str, vector: str) -> Mapping[str, Any]:
    for one in client.list_indexes(name):
        about: Mapping[str, Any] = client.describe_index(name, one)
        if about["field_name"] == vector:
            return about
    raise UserError(f"field '{vector}' of collection '{name}' has no index")
