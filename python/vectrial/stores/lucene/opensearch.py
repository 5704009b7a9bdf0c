"""OpenSearch and its k-NN plugin, driven by the official client; its server is
`vectrial.stores.lucene.server`.

The facts below hold for server and plugin 3.5.0 and opensearch-py 3.2.0: they were read in the
plugin's reference of spaces, methods and scripts, and tested.

Only the lucene engine is used: the plugin's archive in the registry has no native libraries, and
making an index of faiss or nmslib ends the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pydantic import Field as Bound

from vectrial.stores import common as vt
from vectrial.stores.lucene import existing as lucene_existing
from vectrial.stores.lucene import text as lucene_text
from vectrial.stores.lucene.common import LuceneHnswBuild, SegmentParams
from vectrial.stores.lucene.filters import Query
from vectrial.stores.lucene.store import (
    CAVEATS,
    COMMON,
    CONNECTIONS,
    KEEP,
    MERGE_S,
    REQUEST_S,
    LuceneStore,
)

_SPACES = {vt.Metric.L2: "l2", vt.Metric.COSINE: "cosinesimil", vt.Metric.IP: "innerproduct"}


class OpenSearchHnswSearch(vt.Params):
    """ef_search: candidates for which each segment's graph is searched, at least k."""

    ef_search: int = Bound(default=100, ge=1, le=10_000)


class OpenSearch(LuceneStore):
    """One index with one shard and no replicas, of the lucene engine."""

    name = "opensearch"
    title = "OpenSearch"
    module = "opensearchpy"
    extra = "opensearch"
    server = "vectrial.stores.lucene.server:OPENSEARCH"
    tested = ("3.5.",)
    dialect = MappingProxyType({"flavor": "opensearch"})
    vectors_in_columns = False
    text_boost = 2.2
    capabilities = replace(
        COMMON,
        indexes={
            "hnsw": vt.IndexKind(
                LuceneHnswBuild,
                OpenSearchHnswSearch,
                high_recall_params={"ef_search": 500},
                most_dim=16_000,
            ),
            "flat": vt.IndexKind(SegmentParams, exact=True),
        },
        hybrid=lucene_text.OPENSEARCH,
        caveats=(
            *CAVEATS,
            "only the lucene engine: the plugin in the registry has no native libraries for faiss",
            "flat is a script that compares with every row",
            "documents are kept with their vectors as text beside the index (derived source is off,"
            " with which searches that return vectors were seen to fail)",
            "where few rows pass a filter these are scanned exactly",
        ),
    )

    def _connect(self, address: vt.Address) -> Any:
        from opensearchpy import OpenSearch as Client

        user, password = address.secrets.get("user"), address.secrets.get("password")
        return Client(
            hosts=[{"host": address.host, "port": address.ports["http"]}],
            use_ssl=address.tls,
            ca_certs=address.ca and str(address.ca),
            http_auth=(user, password) if user is not None else None,
            timeout=REQUEST_S,
            pool_maxsize=CONNECTIONS,
            max_retries=0,
            retry_on_status=(),
        )

    def _settings(self, index: vt.Index) -> Mapping[str, Any]:
        if index.kind != "hnsw":
            return {"knn": False}
        # Graphs are built however small a segment is. Documents keep their vectors: with those
        # derived from the index, searches that return vectors were seen to fail, all of one index.
        threshold = {"knn.advanced.approximate_threshold": 0}
        return {"knn": True, "knn.derived_source.enabled": False, **threshold}

    def _vector_field(self, schema: vt.Schema, index: vt.Index) -> Mapping[str, Any]:
        field = {"type": "knn_vector", "dimension": schema.dim}
        params = index.params
        if not isinstance(params, LuceneHnswBuild):
            return field
        graph = {"m": params.m, "ef_construction": params.ef_construction}
        method = {"name": "hnsw", "engine": "lucene", "parameters": graph}
        return {**field, "space_type": _SPACES[schema.metric], "method": method}

    def _knn_body(
        self, k: int, params: vt.Params, condition: Query | None
    ) -> Callable[[list[float]], dict[str, Any]]:
        if isinstance(params, vt.NoParams):
            return self._scan(condition)
        assert isinstance(params, OpenSearchHnswSearch)
        query: dict[str, Any] = {"k": k}
        if (ef := self._param(params, "ef_search")) is not None:
            query["method_parameters"] = {"ef_search": ef}
        if condition is not None:
            query["filter"] = condition
        return lambda vector: {"query": {"knn": {self._vector_name: {**query, "vector": vector}}}}

    def _condition(self, where: vt.Filter | None) -> Query | None:
        """The filter, without documents that lack the vector that the script reads."""
        condition = super()._condition(where)
        if not self._attached or self._index.kind != "flat":
            return condition
        rows = self._all_rows_query()
        return rows if condition is None else {"bool": {"filter": [condition, rows]}}

    def _scan(self, condition: Query | None) -> Callable[[list[float]], dict[str, Any]]:
        condition = condition or {"match_all": {}}
        query = {"field": self._vector_name, "space_type": _SPACES[self._schema.metric]}

        def question(vector: list[float]) -> dict[str, Any]:
            params = {**query, "query_value": vector}
            script = {"lang": "knn", "source": "knn_score", "params": params}
            return {"query": {"script_score": {"query": condition, "script": script}}}

        return question

    def _native_options(self, k: int, params: vt.Params) -> dict[str, str]:
        if isinstance(params, vt.NoParams):
            return {"exact": _SPACES[self._schema.metric]}
        assert isinstance(params, OpenSearchHnswSearch)
        return {} if (ef := self._param(params, "ef_search")) is None else {"ef": str(ef)}

    def describe(self, existing: vt.Existing) -> vt.Description:
        found = super().describe(existing)
        name = existing.collection
        (about,) = self._client.indices.get_settings(index=name, flat_settings=True).values()
        settings = about["settings"]
        if found.index == "flat" and settings.get("index.knn") == "true":
            raise vt.UserError(f"the vectors of '{name}' have the graph that the server chooses")
        derived = settings.get("index.knn.derived_source.enabled", "true") != "false"
        if derived and settings.get("index.knn") == "true":
            self._check_derived(name, found.vector)
        return found

    def _check_derived(self, name: str, vector: str) -> None:
        """Check that searches return vectors that documents derive from the index: in 3.5, one
        index of many returned none.

        Raises:
            UserError: searches return no vectors.
        """
        from opensearchpy import TransportError

        body = {"size": 1, "query": {"exists": {"field": vector}}, "_source": [vector]}
        try:
            self._client.search(index=name, body=body)
        except TransportError as error:
            raise vt.UserError(
                f"documents of index '{name}' derive their vectors from the index, and a search"
                f" that returns them fails: {error.error}",
                remedy="an index made with knn.derived_source.enabled = false is measured",
            ) from error

    def _read_vector_field(self, field: Mapping[str, Any]) -> lucene_existing.VectorField:
        if field["type"] != "knn_vector":
            raise vt.UserError(f"a field of type {field['type']} is not searched")
        method = field.get("method")
        if method is None:
            return lucene_existing.VectorField(field["dimension"], None, "flat", {})
        space = method.get("space_type") or field.get("space_type", "l2")
        kind = method["name"] if method.get("engine") == "lucene" else f"{method['engine']} engine"
        params = method.get("parameters", {})
        return lucene_existing.VectorField(
            field["dimension"],
            lucene_existing.metric_of({name: one for one, name in _SPACES.items()}, space),
            kind,
            {name: params[name] for name in ("m", "ef_construction") if name in params},
        )

    def _pages(self, body: dict[str, Any], size: int) -> Iterator[list[Any]]:
        """Hits read at a point in time. A scroll is avoided: closing one (3.5.0) breaks every later
        search that returns derived vectors, including the application's."""
        point = self._client.create_pit(index=self._name, params={"keep_alive": KEEP})["pit_id"]
        try:
            page = {**body, "size": size, "sort": ["_shard_doc"]}
            page["pit"] = {"id": point, "keep_alive": KEEP}
            while hits := self._client.search(body=page)["hits"]["hits"]:
                yield hits
                page["search_after"] = hits[-1]["sort"]
        finally:
            self._client.delete_pit(body={"pit_id": [point]})

    def _merge(self, segments: int) -> None:
        self._client.indices.forcemerge(
            index=self._name, max_num_segments=segments, request_timeout=MERGE_S
        )
