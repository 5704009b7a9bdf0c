"""The base of stores behind a server: the collection's life cycle and both lanes' searches."""

from __future__ import annotations

import hashlib
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from vectrial.model.capabilities import Index, Params, Returning
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.existing import Description, Existing, IntegerKeys, Keys
from vectrial.model.filters import Filter
from vectrial.model.schema import Schema
from vectrial.model.store import Address, NativeSearch, Searcher, Store

if TYPE_CHECKING:
    from vectrial.model.store import LoadTarget

_POLL_S = 0.05
_INDEXING_S = 3600.0


@dataclass(frozen=True)
class SearchRequest:
    """A search with everything but the vector: see `Store.searcher_returning`."""

    k: int
    params: Params
    where: Filter | None = None
    returning: Returning = Returning.IDS


class ServerStore(Store):
    """A collection in a server, named after the store's folder: the same for the same folder.

    collection_pattern: pattern of that name, around 20 hexadecimal digits.
    native_port: the port that the native lane calls.
    """

    kind = "server"
    collection_pattern: ClassVar[str] = "Vectrial_{}"
    native_port: ClassVar[str] = "grpc"
    _schema: Schema
    _index: Index
    _names: Mapping[str, str]  #: fields → their names in the server
    #: Names of the fields with ids and vectors, and ids as the server has them: of collections
    #: made here, unless `attach` says otherwise.
    _id_name: str = "id"
    _vector_name: str = "vector"
    #: Condition of every search of a collection that somebody else made, in the store's own words.
    _own_condition: str = ""
    _keys: Keys = IntegerKeys()
    #: True if somebody else made the collection.
    _attached: bool = False

    def __init__(self, location: Path, address: Address | None = None) -> None:
        super().__init__(location, address)
        if address is None:
            raise StoreError(f"{self.name} needs the address of a server")
        self._name = collection_name(self.collection_pattern, location)
        self._address = address
        self._client: Any = self._connect(address)

    @abstractmethod
    def _connect(self, address: Address) -> Any:
        """The official client, with retries turned off if it has any."""

    @abstractmethod
    def _create(self) -> None:
        """Make the empty collection; `_schema`, `_index` and `_names` are set."""

    @abstractmethod
    def _exists(self) -> bool:
        """True if the server has the collection."""

    @abstractmethod
    def _searcher(self, request: SearchRequest) -> Searcher:
        """The searcher for what `capabilities.returns` declares; see `Store.searcher_returning`."""

    @abstractmethod
    def _native_search(self, request: SearchRequest) -> NativeSearch:
        """The search for what `capabilities.returns` declares; see `Store.native_search`."""

    def create(self, schema: Schema, index: Index) -> None:
        self._bind(schema, index)
        self.drop()  # a killed run left it behind
        self._create()

    def open(self, schema: Schema, index: Index) -> None:
        self._bind(schema, index)
        if not self._exists():
            raise StoreError(f"the server has no collection {self._name}")

    def _bind(self, schema: Schema, index: Index) -> None:
        self._schema, self._index, self._names = schema, index, schema.columns

    def describe_open(self) -> Description:
        return self.describe(Existing(self._name))

    def attach(self, existing: Existing, schema: Schema, index: Index, keys: Keys) -> None:
        own = {field.name: existing.columns.get(field.name, field.name) for field in schema.fields}
        self._schema, self._index, self._names, self._keys = schema, index, own, keys
        self._name = existing.collection
        self._id_name, self._vector_name = existing.id, existing.vector
        self._own_condition, self._attached = existing.where, True
        self._attach()
        make_read_only(self)

    def _attach(self) -> None:
        """Prepare to read a collection that somebody else made. All that is known of it is already
        set; nothing on the server is changed."""

    def _param(self, params: Params, name: str) -> Any:
        """The value of a search parameter to send; None leaves it to the setting of a collection
        that somebody else made."""
        given = not self._attached or name in params.model_fields_set
        return getattr(params, name) if given else None

    @property
    def _shards(self) -> int:
        """Number of parts with the rows: what the index asks for, or one for each node."""
        return getattr(self._index.params, "shards", None) or max(1, len(self._address.nodes))

    @property
    def _copies(self) -> int:
        """Number of copies of each part."""
        return getattr(self._index.params, "replication_factor", None) or 1

    def _wait_followers(self, shows: Callable[[Address], bool]) -> str:
        """Wait until every follower shows what the first node, which alone takes writes, holds.
        Returns words to append to a message; empty if there is one node."""
        followers = self._address.nodes[1:]

        def state() -> tuple[bool, str]:
            there = sum(map(shows, followers))
            return there == len(followers), f"{there} of {len(followers)} other nodes show it"

        return f"; {wait_until(state)}" if followers else ""

    def close(self) -> None:
        self._client.close()

    def insert(self, batch: pa.RecordBatch) -> None:
        self.upsert(batch)

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        return self._searcher(SearchRequest(k, params, where))

    def searcher_returning(
        self, returning: Returning, k: int, params: Params, where: Filter | None = None
    ) -> Searcher:
        if returning not in self.capabilities.returns:
            return super().searcher_returning(returning, k, params, where)
        return self._searcher(SearchRequest(k, params, where, returning))

    def native_search(
        self,
        k: int,
        params: Params,
        where: Filter | None = None,
        returning: Returning = Returning.IDS,
    ) -> NativeSearch:
        if returning not in self.capabilities.returns:
            raise Unsupported(f"{self.name}: a search over the wire returns no {returning}")
        return self._native_search(SearchRequest(k, params, where, returning))

    def _target(
        self,
        options: Mapping[str, str] | None = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> LoadTarget:
        """The server as the native lane's target."""
        from vectrial.engine import client

        assert self.protocol is not None
        port, host = self._address.ports[self.native_port], self._address.host_of(self.native_port)
        tls = client.tls(host, self._address.ca) if self._address.tls else None
        options = {**self.dialect, **(options or {})}
        port_name = self.native_port
        nodes = [(one.host_of(port_name), one.ports[port_name]) for one in self._address.nodes]
        return client.target(
            self.protocol,
            host,
            port,
            tls=tls,
            headers=headers,
            options=options,
            nodes=nodes,
            primary=self.capabilities.primary,
        )


#: Methods that change a collection or its server.
_WRITES = (
    *("create", "drop", "insert", "upsert", "delete", "flush", "build", "wait_indexed"),
    *("bulk_import", "import_files", "native_rows", "open"),
)


def make_read_only(store: Store) -> None:
    """Make every method of this store that changes something raise `Unsupported`. Its searches do
    not ask for a refresh either."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise Unsupported(f"{store.name}: a collection that was there already is only read")

    for name in _WRITES:
        setattr(store, name, refuse)
    store.refresh = lambda: None  # type: ignore[method-assign]


def collection_name(pattern: str, location: Path) -> str:
    """The name of a store's collection: always the same for the same folder.

    pattern: format string of the name, whose field takes 20 hexadecimal digits.
    """
    digest = hashlib.sha256(str(location.resolve()).encode()).hexdigest()
    return pattern.format(digest[:20])


def wait_until(
    state: Callable[[], tuple[bool, str]],
    limit_s: float = _INDEXING_S,
    poll_s: float = _POLL_S,
) -> str:
    """Wait until `state` returns true with a description of the state, and return that.

    Raises:
        StoreError: it did not within `limit_s`; the message is the last description.
    """
    ends = time.monotonic() + limit_s
    while True:
        done, described = state()
        if done:
            return described
        if time.monotonic() > ends:
            raise StoreError(f"{described}, after {limit_s:g} s")
        time.sleep(poll_s)
