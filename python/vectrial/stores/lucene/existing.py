"""Indexes of Elasticsearch and OpenSearch that somebody else made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from vectrial.stores.lucene.common import parse_condition
from vectrial.stores.lucene.filters import Query

#: Name of the row's id.
ID = "_id"
_BAD_REQUEST = 400
_VECTORS = ("dense_vector", "knn_vector")
_TYPES: Mapping[str, FieldType] = {
    **dict.fromkeys(("long", "integer", "short", "byte"), FieldType.INT),
    "double": FieldType.FLOAT,
    "keyword": FieldType.STRING,
    "boolean": FieldType.BOOL,
}


@dataclass(frozen=True)
class VectorField:
    """A field of vectors. metric: None where each search says it. kind, params: kind and parameters
    of its index."""

    dim: int
    metric: Metric | None
    kind: str
    params: Mapping[str, Any]


def describe(
    client: Any, existing: Existing, read_vector_field: Callable[[Mapping[str, Any]], VectorField]
) -> Description:
    """See `Store.describe`. read_vector_field: reads a vector field from its mapping."""
    name = existing.collection
    if not client.indices.exists(index=name):
        raise UserError(f"the server has no index '{name}'", where="--collection")
    require_id(existing, ID, "_id")
    mappings = client.indices.get_mapping(index=name)
    if len(mappings) != 1:
        raise UserError(f"'{name}' stands for {len(mappings)} indexes", remedy="name one of them")
    (mapping,) = mappings.values()
    nested: list[str] = []
    fields = dict(_fields(mapping["mappings"].get("properties", {}), nested))
    if nested and not _vector_names(fields):
        raise UserError(
            f"vectors of '{name}' are in nested documents ({', '.join(nested)}), several in a row",
            remedy="fields of whole documents are measured",
        )
    vector = existing.vector or only_vector(_vector_names(fields), f"index '{name}'", "field")
    if vector not in fields:
        raise UserError(f"index '{name}' has no field '{vector}'", where="--vector")
    if (element := fields[vector].get("element_type", "float")) not in ("float", "bfloat16"):
        raise UserError(f"field '{vector}' holds vectors of the type {element}, not of floats")
    found = read_vector_field(fields[vector])
    if found.kind not in ("hnsw", "int8_hnsw", "flat"):
        raise UserError(
            f"the index of field '{vector}' is of the kind '{found.kind}'",
            remedy="hnsw, int8_hnsw and flat are measured",
        )
    there = vector_rows_query(vector, parse_condition(existing.where))
    body = {"size": SAMPLE, "_source": False, "query": there, "sort": ["_doc"]}
    first = _first_answer(existing, lambda: client.search(index=name, body=body))
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


def vector_rows_query(vector: str, condition: Query | None) -> Query:
    """The query for documents that have a vector in this field, and meet the condition."""
    there: Query = {"exists": {"field": vector}}
    return there if condition is None else {"bool": {"filter": [there, condition]}}


def _first_answer(existing: Existing, ask: Callable[[], Any]) -> Any:
    """The answer to the first request that carries the application's condition.

    Raises:
        UserError: the server rejects the condition.
    """
    try:
        return ask()
    except Exception as error:  # each client has errors of its own
        if not existing.where or status_of(error) != _BAD_REQUEST:
            raise
        raise UserError(f"the server refuses the condition: {error}", where="--where") from error


def status_of(error: Exception) -> int | None:
    """The HTTP status in an error of either client; None if it has none."""
    status = getattr(error, "status_code", None)  # opensearchpy has words there without an answer
    return status if isinstance(status, int) else None


def _fields(
    properties: Mapping[str, Any], nested: list[str], prefix: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every field of a document by its path, including fields in objects and multi-fields
    (`title.keyword`). nested: collects the paths of vectors in nested documents."""
    for name, about in properties.items():
        path = f"{prefix}{name}"
        below = {**about.get("properties", {}), **about.get("fields", {})}
        inner = _fields(below, nested, f"{path}.")
        if about.get("type") == "nested":
            nested += _vector_names(dict(inner))
        else:
            yield path, about
            yield from inner


def metric_of(metrics: Mapping[str, Metric], name: str) -> Metric:
    """The metric that the server calls `name`. Raises `UserError` if there is none."""
    if name not in metrics:
        raise UserError(
            f"vectors are compared by {name}", remedy=f"{', '.join(metrics)} are measured"
        )
    return metrics[name]


def single_or_list(values: Sequence[Any]) -> Any:
    """The value of a field in a document; a list if there are several, as any field may have."""
    return values[0] if len(values) == 1 else list(values)


def paths(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a document by its path, including values in objects."""
    for name, value in document.items():
        if isinstance(value, Mapping):
            yield from paths(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _vector_names(fields: Mapping[str, Any]) -> list[str]:
    return [field for field, about in fields.items() if about.get("type") in _VECTORS]
