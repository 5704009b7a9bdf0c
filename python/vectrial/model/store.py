"""The one interface through which every store is driven.

A store is one file in this package with one class, found through the entry point group
`vectrial.stores`. Its module must import without the store's library being installed, since
plans and tables are made from the declarations alone: libraries are imported in `__init__`.

Threads: every method but the searcher is called from one thread. A searcher is called from
several threads at once when `capabilities.concurrent_search` says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Protocol, TypedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.model.capabilities import (
    Capabilities,
    Durability,
    Environment,
    Index,
    Params,
    Returning,
)
from vectrial.model.errors import Unsupported
from vectrial.model.existing import Description, Existing, Keys
from vectrial.model.file_categories import FileKinds
from vectrial.model.filters import Filter
from vectrial.model.fusion import Blend
from vectrial.model.schema import Schema


@dataclass(frozen=True)
class Footprint:
    """Bytes by kind; None for a kind that the store cannot tell."""

    raw_bytes: int | None = None
    index_bytes: int | None = None
    log_bytes: int | None = None


@dataclass(frozen=True)
class Address:
    """Address of a running server, and its credentials.

    ports: port numbers by what listens there ("http", "grpc"), as the store calls them.
    secrets: user, password, key, … by the names the store gives them; never shown or kept.
    nodes: in a cluster, the address of every node that clients may call. The first is this one.
    services: other services that the nodes of a cluster started here need, by name.
    hosts: hosts of ports that listen elsewhere than on `host`, by the ports' names.
    tls: connections are encrypted, and the server's certificate is for its host, signed by an
        authority in the PEM file `ca`, or by one that this machine trusts.
    read_only: nothing there may be changed; connections say so if the server has a way.
    """

    host: str
    ports: Mapping[str, int]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    nodes: tuple[Address, ...] = ()
    services: Mapping[str, Address] = field(default_factory=dict, repr=False)
    hosts: Mapping[str, str] = field(default_factory=dict)
    tls: bool = False
    ca: Path | None = None
    read_only: bool = False

    def host_of(self, port: str) -> str:
        """The host that listens at a port, by the port's name."""
        return self.hosts.get(port, self.host)

    def url(self, port: str) -> str:
        """The URL of a port by its name: `http://host:port`, or `https` under TLS."""
        return f"http{'s' * self.tls}://{self.host_of(port)}:{self.ports[port]}"

    def rotated(self, client: int) -> Address:
        """The address of the same cluster with the node first that the client with this number
        calls: clients take turns. The address itself without nodes."""
        if not self.nodes:
            return self
        first = client % len(self.nodes)
        nodes = self.nodes[first:] + self.nodes[:first]
        return replace(nodes[0], nodes=nodes)


#: The answer to one search: ids int64 (n,) and scores float32 (n,), best first.
Hits = tuple[NDArray[np.int64], NDArray[np.float32]]


class Searcher(Protocol):
    """A search in which everything but the vector is settled beforehand."""

    def __call__(self, vector: NDArray[np.float32], /) -> Hits:
        """Ids and scores of the nearest rows, best first, for one query (d,); both of the same
        length ≤ k. Do no copying, conversion or translation here that could be done beforehand."""
        ...


class HybridSearcher(Protocol):
    """A search by vector and text in which everything else is settled beforehand."""

    def __call__(self, vector: NDArray[np.float32], text: str, /) -> Hits:
        """Ids and scores of the best rows, best first, for one vector (d,) and one text of any
        words; both of the same length ≤ k. Scores are the fusion's, larger is better; at α = 1 and
        0 they are the scores of the one side that is searched."""
        ...


class LoadTarget(TypedDict):
    """A server. `protocol`: a name of `engine/src/protocols/mod.rs`; `headers` go with every
    request; `options` are the protocol's own (user, database, …); `nodes`: (host, port) of each
    node of a cluster, between which connections alternate; empty for one server. `primary`: writes
    go to the first node alone."""

    protocol: str
    host: str
    port: int
    tls: LoadTls | None
    headers: list[tuple[str, str]]
    options: dict[str, str]
    nodes: list[tuple[str, int]]
    primary: bool


class LoadTls(TypedDict):
    """TLS identity of a server: its name, and certificates (DER) that may have signed its own."""

    roots: list[bytes]
    name: str


@dataclass(frozen=True)
class NativeSearch:
    """A search by the native lane: the server, and the search in its protocol's words.

    target: made by `vectrial.engine.client.target`.
    options: options of every search, as the protocol takes them: collection, search parameters, ….
    filter: the condition in the protocol's own words; None if there is none.
    convert: turns scores (k,), as the engine reads them from answers, into the scores that
        `Capabilities.scores` declares; None if they are the same. Left out of comparisons: searches
        of one index convert alike, but functions made for each would differ.
    """

    target: LoadTarget
    options: Mapping[str, str] = field(default_factory=dict)
    filter: bytes | None = None
    convert: Callable[[NDArray[np.float32]], NDArray[np.float32]] | None = field(
        default=None, compare=False
    )

    def convert_scores(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores (k,) of an answer, converted to what the store declares."""
        return scores if self.convert is None else self.convert(scores)


@dataclass(frozen=True)
class NativeRows:
    """Writes, reads and deletes of rows by their ids through the native lane.

    target: made by `vectrial.engine.client.target`.
    options: options of every request, as the protocol takes them.
    columns: names of the schema's fields → names under which their values are written.
    """

    target: LoadTarget
    options: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)


class Store(ABC):
    """A database or library under test.

    Life: `__init__` → `create` → writes → `flush` → `build` → `wait_indexed` → questions →
    `close`; and `__init__` at the same place → `open` on what was persisted.
    Failures of the store are raised as `StoreError` (or `PartialFailure` from writes) or as the
    library's own exceptions; nothing is retried and nothing swallowed.

    name: as in suites and reports. kind: "embedded" or "server".
    module: the library to import, for `vectrial stores` (None when it needs nothing).
    extra: the extra that installs it, of the package that registers the store.
    environment: set when the store cannot live in the main environment.
    server: for a store of kind "server", the `vectrial.servers.base.Recipe` that runs it, as
        `module:NAME`, resolved only where servers are started.
    tested: the versions, as `version` gives them, that this driver was tested with: beginnings
        such as "1.35."; another one is noted in its trials. Empty: any will do.
    protocol: the wire protocol of the native lane, a name of `engine/src/protocols/mod.rs`; None
        when it has no native lane. Set together with `native_search`.
    files: categories of the files in its data folders, or its server's; empty: not known.
    dialect: options of `native_search` that choose one of the protocol's searches (`engine` over
        redis, `search` over flight): the client's ceiling is measured with them.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    kind: ClassVar[str] = "embedded"
    module: ClassVar[str | None] = None
    extra: ClassVar[str | None] = None
    environment: ClassVar[Environment | None] = None
    server: ClassVar[str | None] = None
    tested: ClassVar[tuple[str, ...]] = ()
    protocol: ClassVar[str | None] = None
    dialect: ClassVar[Mapping[str, str]] = MappingProxyType({})
    files: ClassVar[FileKinds] = MappingProxyType({})
    capabilities: ClassVar[Capabilities]

    #: The durability that writes must have, one of `capabilities.durability`; None: the store's
    #: default. It is set before `create` or `open`.
    durability: Durability | None = None
    #: Making a searcher calls `refresh` first. Experiments that measure how soon writes are seen
    #: turn it off.
    auto_refresh: bool = True

    def __init__(self, location: Path, address: Address | None = None) -> None:
        """A store in the folder `location`, which exists and belongs to it alone. A store of kind
        "server" lives in the server at `address`, as a collection named after `location`, and
        writes nothing to the folder. Many stores may share a server."""
        self.location = location

    # -- life ------------------------------------------------------------------------------

    @abstractmethod
    def version(self) -> str:
        """Version that the library or server reports."""

    @abstractmethod
    def create(self, schema: Schema, index: Index) -> None:
        """Make an empty collection. The schema and index were checked with `refuse`."""

    def open(self, schema: Schema, index: Index) -> None:
        """Open what was created, flushed and closed at this location."""
        raise Unsupported(f"{self.name} does not persist")

    def describe(self, existing: Existing) -> Description:
        """Describe a collection that somebody else made, from its server; nothing is changed.

        Raises:
            UserError: there is no such collection or field, or it is of a kind that is not read.
        """
        raise Unsupported(f"{self.name} reads no collections that were made by others")

    def describe_open(self) -> Description:
        """The server's description of the collection that is open here.

        Raises:
            UserError: it is of a kind that is not read.
        """
        raise Unsupported(f"{self.name} does not say what it has built")

    def attach(self, existing: Existing, schema: Schema, index: Index, keys: Keys) -> None:
        """Open a collection that somebody else made, to read and search it. Afterwards any call
        that would change it, or a setting of its server, raises `Unsupported`.

        Args:
            existing: with `id` and `vector` as `describe` gives them.
            schema: schema of its rows as they are returned here.
            keys: ids of its rows.
        """
        raise Unsupported(f"{self.name} reads no collections that were made by others")

    @abstractmethod
    def close(self) -> None:
        """Let go of every handle. Calling it twice is harmless."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the collection and its files."""

    def flush(self) -> None:  # noqa: B027 - nothing to do is a valid answer
        """Make everything written durable, where the store is persistent."""

    def build(self) -> None:  # noqa: B027
        """Build the final index over what was inserted, where that is a separate step."""

    def wait_indexed(self) -> str:
        """Block until every row is served by the final index; returns how the store knows."""
        return "inserts and builds are synchronous"

    def unindexed_rows(self) -> int | None:
        """Rows that searches now find without the final index, such as those in growing segments;
        None if the store cannot tell."""
        return None

    # -- data ------------------------------------------------------------------------------

    @abstractmethod
    def insert(self, batch: pa.RecordBatch) -> None:
        """Add new rows in the layout of `Schema.arrow`. Their ids must not exist yet."""

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Add rows, or replace the vector and metadata of rows whose ids exist."""
        raise Unsupported(f"{self.name} has no upsert")

    def delete(self, ids: NDArray[np.int64]) -> None:
        """Remove rows; absent ids are ignored."""
        raise Unsupported(f"{self.name} has no delete")

    def get(self, ids: NDArray[np.int64]) -> pa.Table:
        """The rows with these ids, in the layout of `Schema.arrow`, in any order; ids that do
        not exist are absent. Vectors are as stored: under cosine they may be normalised."""
        raise Unsupported(f"{self.name} has no get")

    @abstractmethod
    def count(self) -> int:
        """Number of live rows."""

    def scan(self, batch_size: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Every live row once, in any order, in the layout of `Schema.arrow`."""
        raise Unsupported(f"{self.name} has no scan")

    # -- questions -------------------------------------------------------------------------

    @abstractmethod
    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        """A search for the k nearest among the rows that `where` keeps.

        Valid until the next write. Making it is outside the clock; calling it is timed. The work
        that makes earlier writes visible is part of the call too, or of `refresh`, which is timed
        if rows change while they are searched.
        """

    def refresh(self) -> None:  # noqa: B027 - nothing to do is a valid answer
        """Make every acknowledged write visible to searchers that are made afterwards. Do nothing
        if writes are visible once acknowledged, or if a search itself waits for them."""

    def searcher_returning(
        self, returning: Returning, k: int, params: Params, where: Filter | None = None
    ) -> Searcher:
        """A `searcher` whose calls also fetch what `returning` names of every row found, as the
        client library gives it. A store that can ask for it in the search itself declares so in
        `capabilities.returns` and overrides this."""
        search = self.searcher(k, params, where)
        if returning is Returning.IDS:
            return search
        get = self.get

        def run(vector: NDArray[np.float32], /) -> Hits:
            found = search(vector)
            if len(found[0]):
                get(found[0])
            return found

        return run

    def hybrid_searcher(self, k: int, params: Params, blend: Blend) -> HybridSearcher:
        """A search for the k best rows by a vector and the words of a text, of which a row may have
        any, over the field `blend.field`, which was created with `text`.

        At `blend.alpha` 1 it is the store's search by vector alone, and at 0 its search by text
        alone. Otherwise see `searcher`.
        """
        raise Unsupported(f"{self.name} {self.capabilities.hybrid}")

    def native_search(
        self,
        k: int,
        params: Params,
        where: Filter | None = None,
        returning: Returning = Returning.IDS,
    ) -> NativeSearch:
        """The search of `searcher_returning` with the same arguments, for the native lane: the same
        question to the same server, which must give the same answer.

        Raises:
            Unsupported: `returning` is not among `capabilities.returns`.
        """
        raise Unsupported(f"{self.name} has no native lane")

    def native_rows(self) -> NativeRows:
        """Writes, reads and deletes of this existing collection's rows through the native lane; its
        inserts have the effect of `insert`."""
        raise Unsupported(f"{self.name} has no native lane for rows")

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        """Ids of at most `limit` rows that `where` keeps, in any order; no vector involved."""
        raise Unsupported(f"{self.name} has no find by condition")

    def import_files(self, batch: pa.RecordBatch) -> Mapping[str, bytes]:
        """Rows as files that `bulk_import` reads, by name."""
        raise Unsupported(f"{self.name} imports no files")

    def bulk_import(self, folders: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Import the files of `import_files` from these folders of the bucket that
        `Capabilities.bulk_import` names. All are requested at once; yields the number of each
        folder whose rows are persisted, with an empty text, or with the reason of its failure."""
        raise Unsupported(f"{self.name} imports no files")

    def footprint(self) -> Footprint:
        """Bytes by kind, if the store itself can tell. Files are measured elsewhere."""
        return Footprint()
