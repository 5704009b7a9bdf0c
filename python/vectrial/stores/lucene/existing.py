"""Indexes of Elasticsearch and OpenSearch that somebody else made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vectrial.model.errors import UserError
from vectrial.model.existing import (
    SAMPLE,
    Description,
    Existing,
    are_integers,
    only_vector,
    require_id,
)
from vectrial.model.metric import Metric
from vectrial.model.schema import FieldType

#: What rows are known by.
ID = "_id"
_VECTORS = ("dense_vector", "knn_vector")
_TYPES: Mapping[str, FieldType] = {
    **dict.fromkeys(("long", "integer", "short", "byte"), FieldType.INT),
    "double": FieldType.FLOAT,
    "keyword": FieldType.STRING,
    "boolean": FieldType.BOOL,
}


@dataclass(frozen=True)
class VectorField:
    """A field of vectors. metric: None where it is none of ours. kind, params: of its index."""

    dim: int
    metric: Metric | None
    kind: str
    params: Mapping[str, Any]


def describe(
    client: Any, existing: Existing, described: Callable[[Mapping[str, Any]], VectorField]
) -> Description:
    """See `Store.describe`. described: a field of vectors, from its mapping."""
    name = existing.collection
    if not client.indices.exists(index=name):
        raise UserError(f"the server has no index '{name}'", where="--collection")
    require_id(existing, ID, "_id")
    mappings = client.indices.get_mapping(index=name)
    if len(mappings) != 1:
        raise UserError(f"'{name}' stands for {len(mappings)} indexes", remedy="name one of them")
    (mapping,) = mappings.values()
    fields: Mapping[str, Any] = mapping["mappings"].get("properties", {})
    vector = existing.vector or only_vector(_vectors(fields), f"index '{name}'", "field")
    if vector not in fields:
        raise UserError(f"index '{name}' has no field '{vector}'", where="--vector")
    found = described(fields[vector])
    if found.metric is None:
        raise UserError(f"the similarity of field '{vector}' is not one that is measured")
    if found.kind not in ("hnsw", "int8_hnsw", "flat"):
        raise UserError(
            f"the index of field '{vector}' is of the kind '{found.kind}'",
            remedy="hnsw, int8_hnsw and flat are measured",
        )
    there = {"exists": {"field": vector}}
    first = client.search(
        index=name, body={"size": SAMPLE, "_source": False, "query": there, "sort": ["_doc"]}
    )
    return Description(
        id=ID,
        vector=vector,
        rows=int(client.count(index=name, body={"query": there})["count"]),
        dim=int(found.dim),
        metric=found.metric,
        index=found.kind,
        params=found.params,
        text_ids=not are_integers([hit["_id"] for hit in first["hits"]["hits"]]),
        fields={
            field: _TYPES[about["type"]]
            for field, about in fields.items()
            if about.get("type") in _TYPES and about.get("doc_values", True)
        },
    )


def _vectors(fields: Mapping[str, Any]) -> list[str]:
    return [field for field, about in fields.items() if about.get("type") in _VECTORS]
