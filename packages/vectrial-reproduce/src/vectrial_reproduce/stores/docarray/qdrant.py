"""DocArray on Qdrant, by the server of the store `qdrant`, which no package registry has: its calls
were tried in the client's own in-memory mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pydantic import Field as Bound

from vectrial.model.filters import Range
from vectrial.stores import common as vt
from vectrial.stores.qdrant.common import NORMS
from vectrial.stores.qdrant.filters import ConditionConstructors, translate
from vectrial_reproduce.stores.docarray.indexed import CAVEATS, SERVED_CAVEATS, ServedDocumentArray

_DISTANCES = {vt.Metric.L2: "euclidean", vt.Metric.COSINE: "cosine", vt.Metric.IP: "dot"}
#: Names of scores in DocArray's answers.
_SCORES = {vt.Metric.L2: "euclid", vt.Metric.COSINE: "cosine", vt.Metric.IP: "dot"}
_COLUMNS = {vt.FieldType.INT: "int", vt.FieldType.FLOAT: "float", vt.FieldType.STRING: "str"}
_TIMEOUT_S = 300


def _within(key: str, where: Range) -> dict[str, Any]:
    bounds = {"gt": where.gt, "gte": where.gte, "lt": where.lt, "lte": where.lte}
    return {"key": key, "range": {op: one for op, one in bounds.items() if one is not None}}


def _any_of(key: str, values: Sequence[str | int]) -> dict[str, Any]:
    return {"key": key, "match": {"any": list(values)}}


#: Conditions as DocArray takes them: as they are in Qdrant's JSON.
_WORDS = ConditionConstructors(
    must=lambda conditions: {"must": conditions},
    should=lambda conditions: {"should": conditions},
    must_not=lambda conditions: {"must_not": conditions},
    empty=lambda key: {"is_empty": {"key": key}},
    equal=lambda key, value: {"key": key, "match": {"value": value}},
    any_of=_any_of,
    within=_within,
)


class QdrantArrayHnswBuild(vt.Params):
    """m, ef_construction: parameters of the graph. full_scan_threshold_kb: where fewer kilobytes of
    vectors than this qualify, they are scanned exactly; None leaves it to the server."""

    m: int = Bound(default=16, ge=2, le=1024)
    ef_construction: int = Bound(default=100, ge=4, le=100_000)
    full_scan_threshold_kb: int | None = Bound(default=None, ge=10, le=2**31 - 1)


class QdrantArrayHnswSearch(vt.Params):
    """ef_search: candidates held during the search; None means ef_construction."""

    ef_search: int | None = Bound(default=None, ge=1, le=1_000_000)


class DocArrayQdrant(ServedDocumentArray):
    """One collection with one unnamed vector per point, as DocArray makes it."""

    name = "docarray-qdrant"
    title = "DocArray on Qdrant"
    server = "vectrial.stores.qdrant.server:QDRANT"
    storage = "qdrant"
    collection_pattern = "vectrial_docarray_{}"
    capabilities = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_SIMILARITY,
            vt.Metric.IP: vt.ScoreKind.INNER_PRODUCT,
        },
        indexes={
            "hnsw": vt.IndexKind(
                QdrantArrayHnswBuild, QdrantArrayHnswSearch, high_recall_params={"ef_search": 512}
            )
        },
        find=vt.ALL_OPERATORS,
        find_brings_rows=True,
        field_types=frozenset(_COLUMNS),
        nulls=True,
        norms=NORMS,
        most_int=2**53,  # they are float64 there
        persistent=True,
        scan=False,
        caveats=(
            *CAVEATS,
            *SERVED_CAVEATS,
            "it was tried in the in-memory mode of qdrant-client 1.7, and with no server, which"
            " no package registry has",
            "DocArray asks for qdrant-client 0.10, which does not live with pydantic 2",
            "segments below the server's indexing threshold have no graph, and DocArray has no"
            " setting for it",
            "rows are sent 65 at a time (DocArray's scroll_batch_size), each batch waited for",
            "a search under a filter is not offered: it could not be tried with a server",
        ),
    )

    def _connect(self, address: vt.Address) -> Any:
        return connect(address)

    def _config(self) -> dict[str, Any]:
        params = self._index.params
        assert isinstance(params, QdrantArrayHnswBuild)
        self.score = f"{_SCORES[self._schema.metric]}_similarity"
        return {
            **_connection(self._address),
            "n_dim": self._schema.dim,
            "collection_name": self._name,
            "distance": _DISTANCES[self._schema.metric],
            "m": params.m,
            "ef_construct": params.ef_construction,
            "full_scan_threshold": params.full_scan_threshold_kb,
            "columns": self._columns(_COLUMNS),
        }

    def _exists(self) -> bool:
        return self._name in {one.name for one in self._client.get_collections().collections}

    def drop(self) -> None:
        for name in (self._name, f"{self._name}_meta"):
            self._client.delete_collection(name)

    def wait_indexed(self) -> str:
        def state() -> tuple[bool, str]:
            status = str(self._client.get_collection(self._name).status.value)
            return status == "green", f"the collection's status is {status}"

        return vt.wait_until(state)

    def _finder(self, k: int, params: vt.Params) -> Callable[..., Any]:
        assert isinstance(params, QdrantArrayHnswSearch)
        find: Callable[..., Any] = self._rows.find
        if params.ef_search is None:
            return find
        return partial(find, search_params={"hnsw_ef": params.ef_search})

    def _condition(self, where: vt.Filter) -> dict[str, Any]:
        columns = self._schema.columns
        types = {columns[field.name]: field.type for field in self._schema.fields}
        condition: dict[str, Any] = translate(vt.on_columns(where, self._schema), types, _WORDS)
        return condition


def connect(address: vt.Address) -> Any:
    """The official client, of the version that DocArray uses."""
    from qdrant_client import QdrantClient

    return QdrantClient(**_connection(address), timeout=_TIMEOUT_S)


def _connection(address: vt.Address) -> dict[str, Any]:
    return {
        "host": address.host,
        "port": address.ports["http"],
        "grpc_port": address.ports["grpc"],
        "prefer_grpc": True,  # as DocArray's own benchmark has it
        "https": False,
        "api_key": address.secrets.get("api_key"),
    }
