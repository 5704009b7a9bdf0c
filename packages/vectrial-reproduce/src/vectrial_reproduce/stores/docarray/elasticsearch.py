"""DocArray on Elasticsearch, by the server of the store `elasticsearch`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.stores import common as vt
from vectrial.stores.lucene import files as lucene_files
from vectrial.stores.lucene import filters as lucene_filters
from vectrial.stores.lucene.common import SCORE_ERROR, SCORES, authorization, to_declared_scores
from vectrial_reproduce.stores.docarray.indexed import (
    CAVEATS,
    OPERATORS,
    SERVED_CAVEATS,
    ServedDocumentArray,
)

_SIMILARITIES = {
    vt.Metric.L2: "l2_norm",
    vt.Metric.COSINE: "cosine",
    vt.Metric.IP: "max_inner_product",
}
_COLUMNS = {vt.FieldType.INT: "long", vt.FieldType.FLOAT: "double", vt.FieldType.BOOL: "bool"}
_REQUEST_S = 300.0
#: Largest `num_candidates`, which is DocArray's default.
_MOST_CANDIDATES = 10_000
#: Rows that one answer may hold, of which the server's own 10,000 are too few.
_MOST_ROWS = 1_000_000


class ElasticsearchArrayHnswBuild(vt.Params):
    """m, ef_construction: parameters of each segment's graph (the lowest layer has up to 2m
    links)."""

    m: int = Bound(default=16, ge=2, le=512)
    ef_construction: int = Bound(default=100, ge=2, le=3200)


class ElasticsearchArrayHnswSearch(vt.Params):
    """ef_search: `num_candidates`, which each segment's graph is searched for, at least k; None
    leaves it to DocArray, which asks for 10,000."""

    ef_search: int | None = Bound(default=None, ge=1, le=_MOST_CANDIDATES)


class DocArrayElasticsearch(ServedDocumentArray):
    """One index with the settings that DocArray gives it."""

    name = "docarray-elasticsearch"
    title = "DocArray on Elasticsearch"
    server = "vectrial.stores.lucene.server:ELASTICSEARCH"
    storage = "elasticsearch"
    score = "score"
    collection_pattern = "vectrial_docarray_{}"
    files = lucene_files.FILES
    capabilities = vt.Capabilities(
        scores=SCORES,
        score_error=SCORE_ERROR,
        indexes={
            "hnsw": vt.IndexKind(
                ElasticsearchArrayHnswBuild,
                ElasticsearchArrayHnswSearch,
                high_recall_params={"ef_search": 500},
            )
        },
        filters=OPERATORS,
        find=OPERATORS,
        find_brings_rows=True,
        field_types=frozenset(_COLUMNS),
        nulls=True,
        persistent=True,
        concurrent_search=True,
        scan=False,
        caveats=(
            *CAVEATS,
            *SERVED_CAVEATS,
            "each segment has a graph of its own, and DocArray has no merge of segments",
            "every call that writes or deletes ends with a refresh",
            "rows are sent 64 at a time (DocArray's batch_size) by 4 threads of the client",
            "searches go to _knn_search, deprecated in version 8; 9 has it for clients of 8",
            "no columns of text: DocArray has it taken apart into words",
            "max_result_window is raised to a million rows: DocArray finds by a condition in one"
            " request, of which 10,000 rows would be the most",
            "DocArray 0.21 is of 2023, the server is newer",
        ),
    )

    def _connect(self, address: vt.Address) -> Any:
        from elasticsearch import Elasticsearch

        return Elasticsearch(self._hosts(address), **self._settings(address))

    def _hosts(self, address: vt.Address) -> str:
        return f"http://{address.host}:{address.ports['http']}"

    def _settings(self, address: vt.Address) -> dict[str, Any]:
        allowed = authorization(address)
        return {
            "headers": {"authorization": allowed} if allowed else {},
            "request_timeout": _REQUEST_S,
            "max_retries": 0,
        }

    def version(self) -> str:
        node = next(iter(self._client.nodes.info()["nodes"].values()))
        return f"{super().version()} on Elasticsearch {node['version']}"

    def _config(self) -> dict[str, Any]:
        params = self._index.params
        assert isinstance(params, ElasticsearchArrayHnswBuild)
        return {
            "n_dim": self._schema.dim,
            "distance": _SIMILARITIES[self._schema.metric],
            "hosts": self._hosts(self._address),
            "es_config": self._settings(self._address),
            "index_name": self._name,
            "m": params.m,
            "ef_construction": params.ef_construction,
            "columns": self._columns(_COLUMNS),
        }

    def _new(self) -> Any:
        rows = super()._new()
        window = {"index": {"max_result_window": _MOST_ROWS}}
        self._client.indices.put_settings(index=self._name, settings=window)
        return rows

    def _exists(self) -> bool:
        return bool(self._client.indices.exists(index=self._name))

    def close(self) -> None:
        super().close()
        self._client.close()

    def drop(self) -> None:
        names = f"{self._name},offset2id__{self._name}"
        self._client.indices.delete(index=names, ignore_unavailable=True)

    def wait_indexed(self) -> str:
        """Wait for merges to end; every writing call has already refreshed."""

        def state() -> tuple[bool, str]:
            stats = self._client.indices.stats(index=self._name, metric="merge")
            merging = stats["_all"]["primaries"]["merges"]["current"]
            return not merging, f"{merging} merges are still under way"

        vt.wait_until(state)
        return "every row is in a segment with its graph, no merge runs"

    def _extend(self, documents: list[Any]) -> None:
        # DocArray looks for every new id in its whole list, which makes a load in several calls
        # take the square of its time. Each call gets a list that is empty, as a load in one has it.
        rows = self._rows
        whole, rows._offset2ids = rows._offset2ids, type(rows._offset2ids)()
        try:
            super()._extend(documents)
        finally:
            whole.extend(rows._offset2ids.ids)
            rows._offset2ids = whole

    def _finder(self, k: int, params: vt.Params) -> Callable[..., Any]:
        assert isinstance(params, ElasticsearchArrayHnswSearch)
        find: Callable[..., Any] = self._rows.find
        if params.ef_search is None:
            return find
        return partial(find, num_candidates=max(params.ef_search, k))

    def _condition(self, where: vt.Filter) -> lucene_filters.Query:
        return lucene_filters.query(vt.coerce_values(where, self._schema), self._schema.columns)

    def _declared_scores(self, scores: NDArray[np.float64]) -> NDArray[np.float32]:
        return to_declared_scores(scores, self._schema.metric)
