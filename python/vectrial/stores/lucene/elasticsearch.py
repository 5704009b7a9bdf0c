"""Elasticsearch, driven by its official client; its server is in `server`.

The facts below hold for server 8.19.21 and 9.2.4 and elasticsearch-py 8.19.3: they were read in the
reference of the field type `dense_vector` and of the kNN search, and tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field as Bound

from vectrial.stores import common as vt
from vectrial.stores.lucene import existing as lucene_existing
from vectrial.stores.lucene import text as lucene_text
from vectrial.stores.lucene.common import (
    LuceneHnswBuild,
    SegmentParams,
    authorization,
)
from vectrial.stores.lucene.filters import Query
from vectrial.stores.lucene.store import (
    CAVEATS,
    COMMON,
    CONNECTIONS,
    MERGE_S,
    REQUEST_S,
    LuceneStore,
)

_SIMILARITIES = {
    vt.Metric.L2: "l2_norm",
    vt.Metric.COSINE: "cosine",
    vt.Metric.IP: "max_inner_product",
}
#: Largest `num_candidates`.
_MOST_CANDIDATES = 10_000


class ElasticsearchHnswSearch(vt.Params):
    """ef_search: `num_candidates`, which each segment's graph is searched for, at least k; None
    lets the server choose 1.5k."""

    ef_search: int | None = Bound(default=None, ge=1, le=_MOST_CANDIDATES)


class ElasticsearchQuantizedSearch(ElasticsearchHnswSearch):
    """ef_search: see `hnsw`. oversample: this many times k candidates are compared again by
    their original vectors; None: no candidates are."""

    oversample: float | None = Bound(default=None, ge=1.0, lt=10.0)


class Elasticsearch(LuceneStore):
    """One index with one shard and no replicas."""

    name = "elasticsearch"
    title = "Elasticsearch"
    module = "elasticsearch"
    extra = "elasticsearch"
    server = "vectrial.stores.lucene.server:ELASTICSEARCH"
    tested = ("8.19.", "9.2.")
    vectors_in_columns = True
    capabilities = replace(
        COMMON,
        most_dim=4096,
        indexes={
            "hnsw": vt.IndexKind(
                LuceneHnswBuild, ElasticsearchHnswSearch, high_recall_params={"ef_search": 500}
            ),
            "int8_hnsw": vt.IndexKind(
                LuceneHnswBuild,
                ElasticsearchQuantizedSearch,
                high_recall_params={"ef_search": 500, "oversample": 5.0},
                exact_scores=False,
            ),
            "flat": vt.IndexKind(SegmentParams, exact=True),
        },
        hybrid=lucene_text.ELASTICSEARCH,
        caveats=(
            *CAVEATS,
            "ef_search is num_candidates; where fewer rows than that pass a filter, or the graph's"
            " search comes to visit more than pass it, these are scanned exactly",
            "documents are kept with their vectors as text beside the index: bytes on disk",
        ),
    )

    def _connect(self, address: vt.Address) -> Any:
        from elasticsearch import Elasticsearch as Client

        allowed = authorization(address)
        trusted: Any = {"ca_certs": str(address.ca)} if address.ca else {}
        return Client(
            [address.url("http")],
            **trusted,
            headers={"authorization": allowed} if allowed else {},
            request_timeout=REQUEST_S,
            connections_per_node=CONNECTIONS,
            max_retries=0,
            retry_on_status=(),
        )

    def _settings(self, index: vt.Index) -> Mapping[str, Any]:
        return {}

    def _vector_field(self, schema: vt.Schema, index: vt.Index) -> Mapping[str, Any]:
        options: dict[str, Any] = {"type": index.kind}
        if isinstance(index.params, LuceneHnswBuild):
            options |= {"m": index.params.m, "ef_construction": index.params.ef_construction}
        return {
            "type": "dense_vector",
            "dims": schema.dim,
            "similarity": _SIMILARITIES[schema.metric],
            "index": True,
            "index_options": options,
        }

    def _knn_body(
        self, k: int, params: vt.Params, condition: Query | None
    ) -> Callable[[list[float]], dict[str, Any]]:
        knn: dict[str, Any] = {"field": self._vector_name, "k": k}
        if candidates := _candidates(k, params):
            knn["num_candidates"] = candidates
        if isinstance(params, ElasticsearchQuantizedSearch) and params.oversample is not None:
            knn["rescore_vector"] = {"oversample": params.oversample}
        if condition is not None:
            knn["filter"] = condition
        return lambda vector: {"knn": {**knn, "query_vector": vector}}

    def _native_options(self, k: int, params: vt.Params) -> dict[str, str]:
        options = {}
        if candidates := _candidates(k, params):
            options["num_candidates"] = str(candidates)
        if isinstance(params, ElasticsearchQuantizedSearch) and params.oversample is not None:
            options["oversample"] = str(params.oversample)
        return options

    def _read_vector_field(self, field: Mapping[str, Any]) -> lucene_existing.VectorField:
        if field["type"] != "dense_vector" or not field.get("index", True):
            raise vt.UserError(f"a field of type {field['type']} without an index is not searched")
        if "dims" not in field:
            raise vt.UserError("the field has held no vector yet")
        names = {name: metric for metric, name in _SIMILARITIES.items()}
        options = field.get("index_options", {})
        return lucene_existing.VectorField(
            field["dims"],
            lucene_existing.metric_of(names, field.get("similarity", "cosine")),
            options.get("type", ""),
            {name: options[name] for name in ("m", "ef_construction") if name in options},
        )

    def _merge(self, segments: int) -> None:
        patient = self._client.options(request_timeout=MERGE_S)
        patient.indices.forcemerge(index=self._name, max_num_segments=segments)

    def _vector_arguments(self) -> dict[str, Any]:
        # Since 9.2 a document comes without its vectors unless they are named.
        if self._major < 9:
            return {}
        return {"source_includes": ["id", "vector", *self._names.values()]}


def _candidates(k: int, params: vt.Params) -> int | None:
    """`num_candidates`; None leaves the choice to the server."""
    if isinstance(params, vt.NoParams):  # every row is compared
        return k
    assert isinstance(params, ElasticsearchHnswSearch)
    return None if params.ef_search is None else max(params.ef_search, k)
