"""Collections of Milvus and Milvus Lite: their schema, and rows as entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from vectrial.model.capabilities import Params
from vectrial.model.metric import Metric
from vectrial.model.schema import FieldType, Schema
from vectrial.stores.common.arrow import batch_of_rows, ids_of, row_values, vectors_of

METRICS = {Metric.L2: "L2", Metric.COSINE: "COSINE", Metric.IP: "IP"}
LONGEST_STRING = 65_535  #: bytes
#: Parameters of indexes, and of searches, each with its name in requests.
BUILD_PARAMS = {"m": "M", "ef_construction": "efConstruction", "nlist": "nlist"}
_SEARCH_PARAMS = {"ef_search": "ef", "nprobe": "nprobe"}


def build_params(params: Params) -> dict[str, int]:
    """Build parameters as a request to create a vector index names them."""
    return {
        theirs: getattr(params, ours)
        for ours, theirs in BUILD_PARAMS.items()
        if hasattr(params, ours)
    }


def search_params(params: Params) -> dict[str, int]:
    """Search parameters as a search request names them."""
    return {
        theirs: getattr(params, ours)
        for ours, theirs in _SEARCH_PARAMS.items()
        if hasattr(params, ours)
    }


def collection_schema(client: Any, schema: Schema, *, nullable: bool = False) -> Any:
    """A `pymilvus.CollectionSchema` with the fields `id`, `vector`, `f0`, `f1`, …"""
    from pymilvus import DataType

    types = {
        FieldType.INT: DataType.INT64,
        FieldType.FLOAT: DataType.DOUBLE,
        FieldType.STRING: DataType.VARCHAR,
        FieldType.BOOL: DataType.BOOL,
    }
    made = client.create_schema(auto_id=False, enable_dynamic_field=False)
    made.add_field("id", DataType.INT64, is_primary=True)
    made.add_field("vector", DataType.FLOAT_VECTOR, dim=schema.dim)
    for field in schema.fields:
        options: dict[str, Any] = {"nullable": True} if nullable else {}
        if field.type is FieldType.STRING:
            options["max_length"] = LONGEST_STRING
        if field.partitions:
            options["is_partition_key"] = True
        made.add_field(schema.columns[field.name], types[field.type], **options)
    return made


def entities(batch: pa.RecordBatch, schema: Schema) -> list[dict[str, Any]]:
    """The rows in the form that `insert` and `upsert` take."""
    rows = zip(
        ids_of(batch).tolist(),
        vectors_of(batch),
        row_values(batch, schema, missing=True),
        strict=True,
    )
    return [{"id": id_, "vector": vector, **metadata} for id_, vector, metadata in rows]


def entities_batch(schema: Schema, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """A batch in the layout of `schema`, from entities with all fields."""
    ids, vectors = [row["id"] for row in rows], [row["vector"] for row in rows]
    return batch_of_rows(schema, ids, vectors, rows)


def strong_count(client: Any, name: str, condition: str = "") -> int:
    """Number of rows in a loaded collection, including every acknowledged write. condition:
    expression that the rows must meet."""
    found = client.query(
        name, filter=condition, output_fields=["count(*)"], consistency_level="Strong"
    )
    return int(found[0]["count(*)"])
