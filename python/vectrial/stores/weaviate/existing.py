"""Collections of Weaviate that somebody else made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from vectrial.model.errors import UserError
from vectrial.model.existing import Description, Existing, named_vector, require_id
from vectrial.model.metric import Metric
from vectrial.model.schema import FieldType

#: Objects of a page that is looked through for one with a vector.
_PAGE = 20
#: Name of the row's id, and of the vector in a collection that names none.
ID, UNNAMED = "uuid", "default"
_METRICS = {"l2-squared": Metric.L2, "cosine": Metric.COSINE, "dot": Metric.IP}
#: A condition that names a tenant, and what the server calls one that can be read.
CONDITION = "tenant = shop-1"
_ACTIVE = ("ACTIVE", "HOT")
_TYPES: Mapping[str, FieldType] = {
    "int": FieldType.INT,
    "number": FieldType.FLOAT,
    "text": FieldType.STRING,
    "boolean": FieldType.BOOL,
}


def describe(client: Any, existing: Existing) -> Description:
    """See `Store.describe`."""
    name = existing.collection
    if not client.collections.exists(name):
        raise UserError(f"the server has no collection '{name}'", where="--collection")
    require_id(existing, ID, "their uuid")
    collection = open_collection(client, name, existing.where)
    config = collection.config.get()
    _check_tenant(client, existing, many=config.multi_tenancy_config.enabled)
    vector, index = _vector(config, existing.vector, name)
    if index.quantizer is not None:
        raise UserError(
            f"the vectors of '{name}' are compressed",
            remedy="collections with whole vectors are measured",
        )
    kind = {"hnsw": "hnsw", "flat": "flat"}.get(str(index.vector_index_type()))
    metric = _METRICS.get(str(index.distance_metric.value))
    if kind is None or metric is None:
        raise UserError(
            f"the index of '{name}' is {index.vector_index_type()} by"
            f" {index.distance_metric.value}",
            remedy=f"hnsw and flat are measured, by {', '.join(_METRICS)}",
        )
    params: dict[str, Any] = {}
    if kind == "hnsw":
        params = {
            "m": index.max_connections,
            "ef_construction": index.ef_construction,
            "filter_strategy": str(index.filter_strategy.value),
            "flat_search_cutoff": index.flat_search_cutoff,
        }
    if getattr(index, "multi_vector", None) is not None:
        raise UserError(f"an object of '{name}' has several vectors, which are not measured")
    every = collection.iterator(include_vector=include_vector(vector), cache_size=_PAGE)
    first = next((row for row in every if row.vector.get(vector)), None)
    if first is None:
        raise UserError(f"collection '{name}' holds no vectors '{vector}'")
    return Description(
        id=ID,
        vector=vector,
        rows=int(collection.aggregate.over_all(total_count=True).total_count),
        dim=len(first.vector[vector]),
        metric=metric,
        index=kind,
        params=params,
        text_ids=True,
        fields=_filterable(config),
        notes=("objects without a vector are counted here; they are not read, and in no answer",),
    )


def open_collection(client: Any, name: str, condition: str) -> Any:
    """The collection, or the part of it that belongs to the tenant named in the condition.

    Raises:
        UserError: the condition does not name a tenant.
    """
    collection = client.collections.get(name)
    return collection.with_tenant(_tenant(condition)) if condition else collection


def _tenant(condition: str) -> str:
    found = re.fullmatch(r"\s*tenant\s*=\s*(\S+)\s*", condition)
    if found is None:
        raise UserError(
            f"'{condition}' is no condition that names a tenant",
            where="--where",
            remedy=f"as in '{CONDITION}'",
        )
    return found[1]


def _check_tenant(client: Any, existing: Existing, *, many: bool) -> None:
    """Check that the condition names a tenant, readable as it is, of a collection of many."""
    name, condition = existing.collection, existing.where
    if not many and not condition:
        return
    if not many:
        raise UserError(f"collection '{name}' has no tenants", where="--where")
    if not condition:
        raise UserError(
            f"collection '{name}' is one of many tenants, of which one is measured at a time",
            remedy=f"name it: --where '{CONDITION}'",
        )
    found = client.collections.get(name).tenants.get_by_name(tenant := _tenant(condition))
    if found is None:
        raise UserError(f"collection '{name}' has no tenant '{tenant}'", where="--where")
    if found.activity_status.value not in _ACTIVE:
        raise UserError(
            f"tenant '{tenant}' is {found.activity_status.value}, and nothing is changed here",
            where="--where",
            remedy="activate it first",
        )


def include_vector(vector: str) -> bool | list[str]:
    """The argument that makes a request include the vector of this name; True if it has none."""
    return True if vector == UNNAMED else [vector]


def _vector(config: Any, requested_name: str, name: str) -> tuple[str, Any]:
    """Name and index of the vectors."""
    if not config.vector_config:
        if requested_name not in ("", UNNAMED):
            raise UserError(f"the vectors of '{name}' have no name", where="--vector")
        return UNNAMED, config.vector_index_config
    vector, about = named_vector(config.vector_config, requested_name, name)
    return vector, about.vector_index_config


def _filterable(config: Any) -> dict[str, FieldType]:
    """Properties with an index of values, and texts indexed in one piece; empty if missing values
    are not indexed, because negations need that."""
    if not config.inverted_index_config.index_null_state:
        return {}
    return {
        one.name: _TYPES[one.data_type.value]
        for one in config.properties
        if one.data_type.value in _TYPES
        and one.index_filterable
        and (one.data_type.value != "text" or str(one.tokenization.value) == "field")
    }
