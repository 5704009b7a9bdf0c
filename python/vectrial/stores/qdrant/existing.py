"""Collections of Qdrant that somebody else made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vectrial.model.errors import UserError
from vectrial.model.existing import (
    SAMPLE,
    Description,
    Existing,
    are_integers,
    named_vector,
    require_id,
)
from vectrial.model.metric import Metric
from vectrial.model.schema import FieldType

#: Name of the row's id.
ID = "point"
_METRICS = {"Euclid": Metric.L2, "Cosine": Metric.COSINE, "Dot": Metric.IP}
_TYPES = {
    "integer": FieldType.INT,
    "float": FieldType.FLOAT,
    "keyword": FieldType.STRING,
    "bool": FieldType.BOOL,
}


def describe(client: Any, existing: Existing) -> Description:
    """See `Store.describe`."""
    name = existing.collection
    if not client.collection_exists(name):
        raise UserError(f"the server has no collection '{name}'", where="--collection")
    require_id(existing, ID, "their point id")
    info = client.get_collection(name)
    vector, params = _vector(info.config.params.vectors, existing.vector, name)
    graph = params.hnsw_config or info.config.hnsw_config
    if (params.quantization_config or info.config.quantization_config) is not None:
        raise UserError(
            f"the vectors of '{name}' are compressed",
            remedy="collections with whole vectors are measured",
        )
    metric = _METRICS.get(str(getattr(params.distance, "value", params.distance)))
    if metric is None:
        raise UserError(f"vectors of '{name}' are compared by {params.distance}")
    default = info.config.hnsw_config
    build = {
        ours: int(value)
        for ours, theirs in (("m", "m"), ("ef_construction", "ef_construct"))
        if (value := getattr(graph, theirs, None) or getattr(default, theirs, None))
    }
    if params.multivector_config is not None:
        raise UserError(
            f"a point of '{name}' has several vectors '{vector}', which are not measured"
        )
    there = with_vector(vector)
    first, _ = client.scroll(
        name, scroll_filter=there, limit=SAMPLE, with_payload=False, with_vectors=False
    )
    return Description(
        id=ID,
        vector=vector,
        rows=int(client.count(name, count_filter=there, exact=True).count),
        dim=int(params.size),
        metric=metric,
        index="hnsw" if build.get("m") else "flat",
        params=build if build.get("m") else {},
        text_ids=not are_integers([point.id for point in first]),
        fields={
            field: _TYPES[kind]
            for field, about in (info.payload_schema or {}).items()
            if (kind := str(getattr(about.data_type, "value", about.data_type))) in _TYPES
            and "[" not in field  # of each of several
        },
    )


def with_vector(name: str) -> Any:
    """The filter that keeps points with a vector of this name; "" is the unnamed vector."""
    from qdrant_client import models

    return models.Filter(must=[models.HasVectorCondition(has_vector=name)])


def values_at(payload: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """Values of a payload by path; None for a missing value. Dots lead into objects."""
    found: dict[str, Any] = {}
    for path in paths:
        value: Any = payload
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        found[path] = value
    return found


def _vector(vectors: Any, requested_name: str, name: str) -> tuple[str, Any]:
    """Name (empty if unnamed) and parameters of the vectors."""
    if not isinstance(vectors, dict):
        if requested_name:
            raise UserError(f"the vectors of '{name}' have no name", where="--vector")
        return "", vectors
    return named_vector(vectors, requested_name, name)
