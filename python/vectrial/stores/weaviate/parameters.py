"""Parameters of indexes and searches, and the settings of a collection that they make."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field as Bound

from vectrial.stores import common as vt
from vectrial.stores.weaviate import text as weaviate_text


class FilterStrategy(StrEnum):
    """Strategy of the graph search under a filter that keeps many rows."""

    SWEEPING = "sweeping"
    ACORN = "acorn"


class WeaviateConsistency(StrEnum):
    """Copies of a row that answer a request before the server does."""

    ONE = "one"
    QUORUM = "quorum"  # more than half
    ALL = "all"


class Protocol(StrEnum):
    """Protocol of searches through the official client."""

    GRPC = "grpc"
    GRAPHQL = "graphql"


class WeaviateSpreading(vt.Spreading):
    """shards, replication_factor: see `Spreading`. write_consistency: level of inserts and deletes;
    None leaves it to the server, which waits for a quorum."""

    write_consistency: WeaviateConsistency | None = None


class WeaviateReads(vt.Params):
    """consistency: level of searches: the copies among which their rows are compared; None leaves
    it to the server. protocol: protocol of plain searches through the official client."""

    consistency: WeaviateConsistency | None = None
    protocol: Protocol = Protocol.GRPC


class WeaviateHnswBuild(WeaviateSpreading):
    """m, ef_construction: parameters of each shard's graph (the lowest layer has up to 2m links).
    filter_strategy: strategy of the graph search under a filter. flat_search_cutoff: where a filter
    keeps fewer rows than this, these are scanned exactly instead of searching the graph. shards,
    replication_factor, write_consistency: see `WeaviateSpreading`."""

    m: int = Bound(default=32, ge=4, le=2047)
    ef_construction: int = Bound(default=128, ge=4, le=100_000)
    filter_strategy: FilterStrategy = FilterStrategy.ACORN
    flat_search_cutoff: int = Bound(default=40_000, ge=0, le=2**31 - 1)


class WeaviateHnswSearch(WeaviateReads):
    """ef_search: candidates held during the search, at least k; None lets the server choose
    8k between 100 and 500 (its dynamic ef). consistency, protocol: see `WeaviateReads`."""

    ef_search: int | None = Bound(default=None, ge=1, le=1_000_000)


def property_of(field: vt.Field) -> dict[str, Any]:
    """Data type and indexes of a column: text in one piece, unless its words are indexed; numbers
    also for ranges. Without any of these, the server does not index missing values either."""
    from weaviate.classes.config import DataType, Tokenization

    if field.text:
        return weaviate_text.text_property()
    by_value = {"index_filterable": field.indexed}
    by_range = {**by_value, "index_range_filters": field.indexed}
    match field.type:
        case vt.FieldType.INT:
            return {"data_type": DataType.INT, **by_range}
        case vt.FieldType.FLOAT:
            return {"data_type": DataType.NUMBER, **by_range}
        case vt.FieldType.BOOL:
            return {"data_type": DataType.BOOL, **by_value}
        case vt.FieldType.STRING:
            whole = {"tokenization": Tokenization.FIELD, "index_searchable": False}
            return {"data_type": DataType.TEXT, **whole, **by_value}


def vector_index(params: vt.Params, distance: Any) -> Any:
    """The graph, or the exact index of a build without one; vectors are never quantized."""
    from weaviate.classes.config import Configure, VectorFilterStrategy

    exact = Configure.VectorIndex.Quantizer.none()
    if not isinstance(params, WeaviateHnswBuild):
        return Configure.VectorIndex.flat(distance_metric=distance, quantizer=exact)
    return Configure.VectorIndex.hnsw(
        distance_metric=distance,
        max_connections=params.m,
        ef_construction=params.ef_construction,
        filter_strategy=VectorFilterStrategy(params.filter_strategy.value),
        flat_search_cutoff=params.flat_search_cutoff,
        quantizer=exact,
    )
