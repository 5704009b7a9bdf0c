"""Arrow Flight with Longbow's tickets and actions, by pyarrow's own client.

The server is that of `stores.flight.server`, our reference server, for which everything below is
declared and tested. Longbow itself is the store of `stores.flight.longbow`.

A store is a dataset, made by a put of no rows, whose schema names the metric.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field as Bound

from vectrial.model.filters import Filter, In, renamed
from vectrial.stores import common as vt
from vectrial.util.arrow import load_without_pandas
from vectrial_reproduce.stores.flight import text as flight_text
from vectrial_reproduce.stores.flight.filters import to_members

if TYPE_CHECKING:
    from pyarrow import flight


#: Names that the protocol has for columns of its own, in puts and in answers.
_RESERVED = frozenset({"id", "vector", "embedding", "score", "metadata"})
_METRICS = {vt.Metric.L2: "euclidean", vt.Metric.COSINE: "cosine", vt.Metric.IP: "dot_product"}
#: Parts of rows that a search returns, as members of its ticket.
_RETURNING: Mapping[vt.Returning, Mapping[str, bool]] = {
    vt.Returning.IDS: {},
    vt.Returning.METADATA: {"include_metadata": True},
    vt.Returning.VECTORS: {"include_vectors": True},
}
#: Longest time of a call.
_ASK_S = 300.0


class FlightHnswBuild(vt.Params):
    """m: links per node and level; ef_construction: candidates while building."""

    m: int = Bound(default=16, ge=2, le=512)
    ef_construction: int = Bound(default=200, ge=1, le=100_000)


class FlightHnswSearch(vt.Params):
    """ef_search: candidates held during the search; None leaves it to the server (10)."""

    ef_search: int | None = Bound(default=None, ge=1, le=1_000_000)


class FlightStore(vt.ServerStore):
    """One dataset of a Flight server."""

    name = "flight"
    title = "Arrow Flight"
    module = "pyarrow.flight"
    extra = "flight"
    server = "vectrial_reproduce.stores.flight.server:FLIGHT"
    protocol = "flight"
    capabilities = vt.Capabilities(
        scores={
            vt.Metric.L2: vt.ScoreKind.INVERSE_L2,
            vt.Metric.COSINE: vt.ScoreKind.COSINE_SIMILARITY,
            vt.Metric.IP: vt.ScoreKind.INNER_PRODUCT,
        },
        default_index="hnsw",
        indexes={
            "hnsw": vt.IndexKind(
                FlightHnswBuild,
                FlightHnswSearch,
                high_recall_params={"ef_search": 512},
                # After replacements and deletes under inner product, 0.7 was seen under a filter.
                filtered_floors={vt.Metric.IP: 0.5},
            ),
            "flat": vt.IndexKind(exact=True),
        },
        filters=vt.ALL_OPERATORS,
        find=vt.ALL_OPERATORS,
        field_types=frozenset(vt.FieldType),
        nulls=True,
        persistent=True,
        concurrent_search=True,
        returns=frozenset(vt.Returning),
        durability={
            vt.Durability.MEMORY: "a put is acknowledged when it is in the index; flush writes it",
        },
        hybrid=flight_text.HYBRID,
        caveats=(
            "the server is a reference for the transport, one Python process of ours over hnswlib"
            " and FAISS; it is no competitor",
            "vectors and filters of a search travel as JSON",
            "of two searches at the same time with different ef_search either value may hold",
            "a filter is evaluated when it first comes after a write, and kept; in the graph a"
            " Python function checks every candidate",
            "metadata columns have no index, but for the words of texts",
            "flush writes the whole dataset to files and syncs them",
        ),
    )

    def _connect(self, address: vt.Address) -> Any:
        self._options = call_options(address)
        load_without_pandas()  # else the first search would do it, and be charged with it
        return connect(address)

    def version(self) -> str:
        if "server-info" not in {
            action.type for action in self._client.list_actions(self._options)
        }:
            return f"a Flight server that does not say which (pyarrow {pa.__version__})"
        info = self._act("server-info")
        versions = ", ".join(f"{name} {version}" for name, version in info["versions"].items())
        return f"{info['server']} ({versions}, pyarrow {pa.__version__})"

    def _create(self) -> None:
        metadata = {
            "longbow.metric": _METRICS[self._schema.metric],
            "vectrial.index": self._index.kind,
            "vectrial.params": self._index.params.model_dump_json(),
            "vectrial.text": flight_text.columns(self._schema, self._names),
        }
        self._put(self._wire_schema.with_metadata(metadata), [])

    def _exists(self) -> bool:
        return bool(self._readiness()["status"] != "NOT_FOUND")

    def _bind(self, schema: vt.Schema, index: vt.Index) -> None:
        super()._bind(schema, index)
        self._names = self._column_names(schema)
        arrow = zip(schema.arrow(), self._wire_columns, strict=True)
        self._wire_schema = pa.schema([column.with_name(name) for column, name in arrow])

    def _column_names(self, schema: vt.Schema) -> Mapping[str, str]:
        """Fields → columns on the wire: the fields' names, which a server may be given for its text
        index, unless one is the protocol's own; then `f0`, `f1`, …"""
        own = {field.name: field.name for field in schema.fields}
        return schema.columns if _RESERVED & set(own) else own

    @property
    def _wire_columns(self) -> list[str]:
        """Names of all columns, in the order of `Schema.arrow`."""
        return ["id", "vector", *self._names.values()]

    def drop(self) -> None:
        self._act("delete-dataset", dataset=self._name)

    def flush(self) -> None:
        self._act("flush", dataset=self._name)

    def wait_indexed(self) -> str:
        """Wait until every row is in the index. The server's own word is not enough: it may report
        itself ready before it has begun."""
        rows: int | None = None

        def state() -> tuple[bool, str]:
            nonlocal rows
            ready, described = self._index_state(rows or 0)
            if ready and rows is None:
                rows = self._indexable_rows()
                return self._index_state(rows)
            return ready, described

        return vt.wait_until(state)

    def _indexable_rows(self) -> int:
        """Number of rows that the index must hold."""
        return self.count()

    def _index_state(self, rows: int) -> tuple[bool, str]:
        """True if the server is ready with `rows` rows in its index, and its description."""
        answer = self._readiness()
        if answer["status"] != "READY":
            return False, f"the dataset is {answer['status']}: {answer.get('reason')}"
        indexed = int(answer["index_len"])
        if indexed < rows:
            return False, f"check_readiness says READY, with {indexed} of {rows} rows in the index"
        return True, f"check_readiness says READY, with {indexed} rows in the index"

    def _readiness(self) -> dict[str, Any]:
        return self._act("check_readiness", dataset=self._name)

    def _act(self, name: str, **members: Any) -> dict[str, Any]:
        """The answer to an action: a JSON object, or empty."""
        from pyarrow import flight

        action = flight.Action(name, _json(members))
        results = [one.body.to_pybytes() for one in self._client.do_action(action, self._options)]
        if not results or not results[0].startswith(b"{"):
            return {}
        answer: dict[str, Any] = json.loads(results[0])
        return answer

    def upsert(self, batch: pa.RecordBatch) -> None:
        vt.check(batch, self._schema)
        if batch.num_rows:
            self._put(self._wire_schema, [batch.rename_columns(self._wire_columns)])

    def _put(self, schema: pa.Schema, batches: list[pa.RecordBatch]) -> None:
        from pyarrow import flight

        descriptor = flight.FlightDescriptor.for_path(self._name)
        writer, _ = self._client.do_put(descriptor, schema, self._options)
        with writer:  # leaving waits until the server has taken everything
            for batch in batches:
                writer.write_batch(batch)

    def delete(self, ids: NDArray[np.int64]) -> None:
        self._act("delete", dataset=self._name, ids=ids.tolist())

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        if not len(ids):
            return vt.table_of(self._schema, [])
        which = to_members(In("id", tuple(np.unique(ids).tolist())))
        return vt.table_of(self._schema, self._scan_batches({"filters": which}))

    def count(self) -> int:
        return int(self._readiness()["index_len"])

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        for batch in self._scan_batches({}):
            for start in range(0, batch.num_rows, batch_size):
                yield batch.slice(start, batch_size)

    def _scan_batches(self, members: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        for chunk in self._get({"name": self._name, **members}):
            if chunk.data is not None:
                columns = chunk.data.select(self._wire_columns).columns
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow())

    def _get(self, ticket: Mapping[str, Any]) -> flight.FlightStreamReader:
        from pyarrow import flight

        client: flight.FlightClient = self._client
        return client.do_get(flight.Ticket(_json(ticket)), self._options)

    def _searcher(self, request: vt.SearchRequest) -> vt.Searcher:
        from pyarrow import flight

        search = self._search_json(request)
        get, options, ticket = self._client.do_get, self._options, flight.Ticket

        def run(vector: NDArray[np.float32], /) -> vt.Hits:
            return hits(get(ticket(b'{"search":%b}' % search(vector)), options).read_all())

        return run

    def _search_json(self, request: vt.SearchRequest) -> Callable[[NDArray[np.float32]], bytes]:
        """The search as a JSON object; only the vector is written at each call."""
        search: dict[str, Any] = {"dataset": self._name, "k": request.k}
        search |= _members(request.params, request.returning)
        if request.where is not None:
            search["filters"] = self._translate(request.where)
        head = _json(search)[:-1]
        return lambda vector: b'%b,"vector":%b}' % (head, _json(vector.tolist()))

    def hybrid_searcher(self, k: int, params: vt.Params, blend: vt.Blend) -> vt.HybridSearcher:
        if blend.alpha == 1.0:
            near = self.searcher(k, params)
            return lambda vector, text, /: near(vector)
        search = {"dataset": self._name, "k": k, **_members(params, vt.Returning.IDS)}
        ticket, get = flight_text.build_query(search, blend, self._names[blend.field]), self._get

        def run(vector: NDArray[np.float32], text: str, /) -> vt.Hits:
            return hits(get(ticket(vector.tolist(), text)).read_all())

        return run

    def _native_search(self, request: vt.SearchRequest) -> vt.NativeSearch:
        members = json.dumps(_members(request.params, request.returning))
        options = {"dataset": self._name, "params": members}
        where = request.where
        condition = None if where is None else _json(self._translate(where))
        return vt.NativeSearch(self._native_target(), options, condition)

    def native_rows(self) -> vt.NativeRows:
        options = {"dataset": self._name, "metric": _METRICS[self._schema.metric]}
        return vt.NativeRows(self._native_target(), options, self._names)

    def _native_target(self) -> vt.LoadTarget:
        return self._target(headers=_headers(self._address))

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        members = {
            "name": self._name,
            "filters": self._translate(where),
            "limit": limit,
            "columns": ["id"],
        }
        return np.asarray(self._get(members).read_all().column("id").to_numpy(), np.int64)

    def _translate(self, where: Filter) -> list[dict[str, Any]]:
        return to_members(renamed(vt.coerce_values(where, self._schema), self._names))


def _json(value: Any) -> bytes:
    """Text as it is: Longbow takes an escape such as \\u00fc for six letters."""
    return json.dumps(value, ensure_ascii=False).encode()


def _members(params: vt.Params, returning: vt.Returning) -> dict[str, Any]:
    """Members of a search beyond those that every search has."""
    members: dict[str, Any] = dict(_RETURNING[returning])
    if isinstance(params, FlightHnswSearch) and params.ef_search is not None:
        members["ef"] = params.ef_search
    return members


def hits(rows: pa.Table) -> vt.Hits:
    """Ids and scores of an answer."""
    return rows.column("id").to_numpy().view(np.int64), rows.column("score").to_numpy()


def connect(address: vt.Address) -> flight.FlightClient:
    """A client of the server, not connected yet."""
    from pyarrow import flight

    return flight.FlightClient(f"grpc://{address.host}:{address.ports['grpc']}")


def call_options(address: vt.Address, timeout_s: float = _ASK_S) -> flight.FlightCallOptions:
    """Options of every call; a call fails if it takes longer than `timeout_s`."""
    from pyarrow import flight

    # pyarrow takes bytes, whatever its types say.
    headers: Any = [(name.encode(), value.encode()) for name, value in _headers(address)]
    return flight.FlightCallOptions(timeout=timeout_s, headers=headers)


def _headers(address: vt.Address) -> list[tuple[str, str]]:
    token = address.secrets.get("token")
    return [("authorization", f"Bearer {token}")] if token else []
