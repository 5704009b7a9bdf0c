"""DocArray on Weaviate, by the server of the store `weaviate`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

from pydantic import Field as Bound

from vectrial.model.filters import And, Eq, Filter, In, IsNull, Not, Or, Range, Value
from vectrial.stores import common as vt
from vectrial.stores.weaviate import files as weaviate_files
from vectrial_reproduce.stores.docarray.indexed import (
    CAVEATS,
    NUMBERS,
    OPERATORS,
    SERVED_CAVEATS,
    ServedDocumentArray,
)

_DISTANCES = {vt.Metric.L2: "l2-squared", vt.Metric.COSINE: "cosine", vt.Metric.IP: "dot"}
_CONNECT_S, _ANSWER_S = 10, 300
#: The value of `ef` by which Weaviate chooses it itself.
_DYNAMIC = -1
_OPPOSITE = {
    "Equal": "NotEqual",
    "GreaterThan": "LessThanEqual",
    "GreaterThanEqual": "LessThan",
    "LessThan": "GreaterThanEqual",
    "LessThanEqual": "GreaterThan",
}


class WeaviateArrayHnswBuild(vt.Params):
    """m, ef_construction: parameters of the graph."""

    m: int = Bound(default=32, ge=4, le=2047)
    ef_construction: int = Bound(default=128, ge=4, le=100_000)


class WeaviateArrayHnswSearch(vt.Params):
    """ef_search: candidates held during the search, at least k; None lets the server choose
    8k between 100 and 500 (its dynamic ef)."""

    ef_search: int | None = Bound(default=None, ge=1, le=1_000_000)


class DocArrayWeaviate(ServedDocumentArray):
    """One class of objects, and one for the order of Documents, as DocArray makes them."""

    name = "docarray-weaviate"
    title = "DocArray on Weaviate"
    server = "vectrial.stores.weaviate.server:WEAVIATE"
    storage = "weaviate"
    score = "distance"
    collection_pattern = "Vectrialdocarray{}"
    files = weaviate_files.FILES
    capabilities = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.L2_SQUARED,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_DISTANCE,
            vt.Metric.IP: vt.ScoreKind.NEGATIVE_INNER_PRODUCT,
        },
        indexes={
            "hnsw": vt.IndexKind(
                WeaviateArrayHnswBuild,
                WeaviateArrayHnswSearch,
                high_recall_params={"ef_search": 512},
            )
        },
        filters=OPERATORS - {"is_null"},
        find=OPERATORS - {"is_null"},
        find_brings_rows=True,
        field_types=frozenset(NUMBERS),
        most_int=2**53,  # they are float64 there
        persistent=True,
        scan=False,
        caveats=(
            *CAVEATS,
            *SERVED_CAVEATS,
            "DocArray can set ef for a whole class only: here it is set by the client before the"
            " searches, and of two searches the one prepared last decides for both",
            "searches are GraphQL over HTTP, as weaviate-client 3 sends them; rows are sent 50 at"
            " a time (DocArray's batch_size), one batch after the other",
            "rows that the server refuses are printed by the client, and no error",
            "DocArray cannot give a server's key to its client: the store does",
            "every value of a column has to be there, and there are no columns of text: DocArray"
            " has it taken apart into words",
            "where a filter keeps fewer rows than Weaviate's flatSearchCutoff (40,000), these are"
            " scanned exactly whatever ef_search says",
            "DocArray 0.21 and weaviate-client 3.9 are of 2022 and 2023, the server is newer",
        ),
    )

    def _connect(self, address: vt.Address) -> Any:
        # The module in this environment is not the one whose types are known.
        client: Any = importlib.import_module("weaviate").Client
        return client(
            f"http://{address.host}:{address.ports['http']}",
            timeout_config=(_CONNECT_S, _ANSWER_S),
            additional_headers=_headers(address),
        )

    def version(self) -> str:
        return f"{super().version()} on Weaviate {self._client.get_meta()['version']}"

    def _config(self) -> dict[str, Any]:
        params = self._index.params
        assert isinstance(params, WeaviateArrayHnswBuild)
        return {
            "host": self._address.host,
            "port": self._address.ports["http"],
            "name": self._name,
            "timeout_config": (_CONNECT_S, _ANSWER_S),
            "distance": _DISTANCES[self._schema.metric],
            "max_connections": params.m,
            "ef_construction": params.ef_construction,
            "columns": self._columns(NUMBERS),
        }

    def _new(self) -> Any:
        with _with_server_key(self._address):
            return super()._new()

    def _exists(self) -> bool:
        classes = self._client.schema.get()["classes"]
        return self._name in {one["class"] for one in classes}

    def drop(self) -> None:
        for name in {one["class"] for one in self._client.schema.get()["classes"]}:
            if name in (self._name, f"{self._name}Meta"):
                self._client.schema.delete_class(name)

    def wait_indexed(self) -> str:
        """Wait until all is indexed. With ASYNC_INDEXING off, as on our own server, a vector is in
        the graph before its insert is acknowledged; with it on, the shard's queue tells."""

        def state() -> tuple[bool, str]:
            path, verbose = f"/nodes/{self._name}", {"output": "verbose"}
            nodes = self._client._connection.get(path=path, params=verbose).json()["nodes"]
            shards = [shard for node in nodes for shard in node["shards"] or ()]
            queued = sum(shard["vectorQueueLength"] for shard in shards)
            said = f"{queued} vectors are in the queues of {len(shards)} shards to be indexed"
            return bool(shards) and not queued, said

        return vt.wait_until(state)

    def _finder(self, k: int, params: vt.Params) -> Callable[..., Any]:
        assert isinstance(params, WeaviateArrayHnswSearch)
        self._set_ef(_DYNAMIC if params.ef_search is None else params.ef_search)
        find: Callable[..., Any] = self._rows.find
        return find

    def _set_ef(self, ef: int) -> None:
        # Not by `schema.update_config`, which refuses what the newer server says of a class.
        schema = self._client.schema.get(self._name)
        schema["vectorIndexConfig"]["ef"] = ef
        answer = self._client._connection.put(path=f"/schema/{self._name}", weaviate_object=schema)
        if answer.status_code != 200:
            raise vt.StoreError(f"ef was not set: {answer.status_code} {answer.text}")

    def _condition(self, where: vt.Filter) -> dict[str, Any]:
        return _where(vt.on_columns(where, self._schema), holds=True)


def _headers(address: vt.Address) -> dict[str, str]:
    key = address.secrets.get("api_key")
    return {"authorization": f"Bearer {key}"} if key else {}


@contextmanager
def _with_server_key(address: vt.Address) -> Iterator[None]:
    """Make DocArray, which has no setting for it, create its client with the server's key."""
    backend: Any = importlib.import_module("docarray.array.storage.weaviate.backend")
    module = backend.weaviate
    client = partial(module.Client, additional_headers=_headers(address))
    backend.weaviate = SimpleNamespace(Client=client)
    try:
        yield
    finally:
        backend.weaviate = module


def _where(where: Filter, *, holds: bool) -> dict[str, Any]:
    """The condition under which `where` is true (`holds`), or false."""
    match where:
        case Not(part):
            return _where(part, holds=not holds)
        case And(parts) | Or(parts):
            every = isinstance(where, And) is holds
            return _join("And" if every else "Or", [_where(one, holds=holds) for one in parts])
        case Eq(name, value):
            return _comparison(name, "Equal", value, holds)
        case In(name, values):
            each = [_comparison(name, "Equal", value, holds) for value in values]
            return _join("Or" if holds else "And", each)
        case Range(name):
            bounds = {
                "GreaterThan": where.gt,
                "GreaterThanEqual": where.gte,
                "LessThan": where.lt,
                "LessThanEqual": where.lte,
            }
            each = [_comparison(name, op, v, holds) for op, v in bounds.items() if v is not None]
            return _join("And" if holds else "Or", each)
        case IsNull():
            raise vt.Unsupported("docarray-weaviate has no condition 'is_null'")


def _join(operator: str, conditions: list[dict[str, Any]]) -> dict[str, Any]:
    if len(conditions) == 1:
        return conditions[0]
    return {"operator": operator, "operands": conditions}


def _comparison(name: str, operator: str, value: Value, holds: bool) -> dict[str, Any]:
    kind = "valueNumber" if isinstance(value, float) else "valueInt"
    if isinstance(value, bool):
        value = int(value)
    return {"path": [name], "operator": operator if holds else _OPPOSITE[operator], kind: value}
