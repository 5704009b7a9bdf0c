"""The one interface through which every store is driven.

A store is one file in this package with one class, found through the entry point group
`vectrial.stores`. Its module must import without the store's library being installed, since
plans and tables are made from the declarations alone: libraries are imported in `__init__`.

Threads: every method but the searcher is called from one thread. A searcher is called from
several threads at once when `capabilities.concurrent_search` says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ConfigDict

from vectrial.model.errors import Unsupported
from vectrial.model.file_categories import FileKinds
from vectrial.model.filters import OPERATORS, Filter
from vectrial.model.fusion import Blend, Fusion
from vectrial.model.inputs import ExactModel
from vectrial.model.metric import Metric, ScoreKind

if TYPE_CHECKING:
    from vectrial.model.target import LoadTarget

#: All operators of the filter algebra, for stores that translate every one.
ALL_OPERATORS = frozenset(OPERATORS)


class FieldType(StrEnum):
    """The types of metadata columns."""

    INT = "int"  # int64
    FLOAT = "float"  # float64
    STRING = "string"
    BOOL = "bool"


ARROW_TYPES: Mapping[FieldType, pa.DataType] = {
    FieldType.INT: pa.int64(),
    FieldType.FLOAT: pa.float64(),
    FieldType.STRING: pa.string(),
    FieldType.BOOL: pa.bool_(),
}


@dataclass(frozen=True)
class Field:
    """A metadata column. `indexed` asks for a payload index where the store can choose. `text` asks
    for a full-text index of a string column, for `hybrid_searcher`; where a store has one index of
    a column or the other, filters on such a column need not hold.

    missing: some rows have no value. longest: bytes of the longest text, as UTF-8. Both of the rows
    that are loaded first, for stores that have limits."""

    name: str
    type: FieldType
    indexed: bool = True
    text: bool = False
    missing: bool = False
    longest: int = 0


@dataclass(frozen=True)
class Schema:
    """Layout of the rows: vectors of `dim` float32 under `metric`, int64 ids, metadata `fields`."""

    dim: int
    metric: Metric
    fields: tuple[Field, ...] = ()

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """Names of fields → names of their columns in batches: `f0`, `f1`, …. A field may have any
        name, also `id` or `vector`; its column in a batch, and in most stores, never collides."""
        return {field.name: f"f{at}" for at, field in enumerate(self.fields)}

    def arrow(self) -> pa.Schema:
        """The schema of the batches given to `insert` and returned by `get` and `scan`:
        `id` int64, `vector` fixed_size_list<float32>[dim], then the fields (nullable), under the
        names in `columns`."""
        vector = pa.list_(pa.field("item", pa.float32(), nullable=False), self.dim)
        return pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("vector", vector, nullable=False),
                *(pa.field(self.columns[f.name], ARROW_TYPES[f.type]) for f in self.fields),
            ]
        )


class Params(ExactModel):
    """Base of a store's build and search parameters: validated when the plan is made."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class NoParams(Params):
    """For an index that has nothing to set."""


class Returning(StrEnum):
    """Parts of a row that a search returns, beside its id and score."""

    IDS = "ids"  # nothing
    METADATA = "metadata"  # every metadata column
    VECTORS = "vectors"  # the vector


class Durability(StrEnum):
    """State of a write when it is acknowledged."""

    SYNCED = "synced"  # it is on the disk: it outlives a power cut
    BUFFERED = "buffered"  # it is in a log or a file that the system writes out within seconds
    MEMORY = "memory"  # it is in the process, and gone with it


@dataclass(frozen=True)
class IndexKind:
    """One kind of index that a store offers.

    build, search: the parameter models. Use the field's names: m, ef_construction, ef_search,
        nlist, nprobe. Defaults are the store's own, so that a suite may leave them out.
    exact: every search returns the true neighbours. Such an index is called "flat".
    recall_floor: the recall that the gate demands at `high_recall_params`, on data with structure;
        recall_floors: by metric, where it differs; filtered_floor: of filtered searches, where
        these lose more.
    high_recall_params: search parameters at which a correct index is nearly exact; the first is
        the one that trades speed for recall.
    tuning_ranges: least and greatest values of build parameters worth tuning, where these differ
        from the ranges of `vectrial.tune.space`.
    strong_consistency_params: search parameters under which a search sees every change that was
        acknowledged before it, where the store's default does not promise that.
    filters: operators a search under this index may use; None means the store's.
    unsupported: the store's operations that this index does not have, by their names in
        `Capabilities`: "get", "scan", "upsert", "delete", "inserts_after_build", ….
    exact_scores: scores are those of the vectors; False: estimates from compressed vectors.
    """

    build: type[Params] = NoParams
    search: type[Params] = NoParams
    exact: bool = False
    recall_floor: float = 0.9
    recall_floors: Mapping[Metric, float] = field(default_factory=dict)
    filtered_floor: float | None = None
    high_recall_params: Mapping[str, Any] = field(default_factory=dict)
    tuning_ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    strong_consistency_params: Mapping[str, Any] = field(default_factory=dict)
    metrics: frozenset[Metric] | None = None
    filters: frozenset[str] | None = None
    unsupported: frozenset[str] = frozenset()
    exact_scores: bool = True

    def __post_init__(self) -> None:
        """Refuse parameters that no model of this kind has.

        Raises:
            ValueError: naming them.
        """
        for field_name, names, model in (
            ("high_recall_params", self.high_recall_params, self.search),
            ("strong_consistency_params", self.strong_consistency_params, self.search),
            ("tuning_ranges", self.tuning_ranges, self.build),
        ):
            if unknown := sorted(set(names) - model.model_fields.keys()):
                raise ValueError(f"{field_name}: {model.__name__} has no {', '.join(unknown)}")

    @property
    def recall_parameter(self) -> str | None:
        """The search parameter that trades speed for recall; None where there is none."""
        return next(iter(self.high_recall_params), None)

    def floor(self, metric: Metric, *, filtered: bool = False) -> float:
        """The recall that the gate demands under a metric, and under a filter or none."""
        if filtered and self.filtered_floor is not None:
            return self.filtered_floor
        return self.recall_floors.get(metric, self.recall_floor)


@dataclass(frozen=True)
class Index:
    """An index as a suite asks for it: a kind of the store's, with validated parameters."""

    kind: str
    params: Params


@dataclass(frozen=True)
class Hybrid:
    """A store's search by a vector and a text at once.

    fusions: the default first, each with how the store does it and which rows take part.
    text: tokenization and scoring of words, for the reader.
    whole_text: every row with a word of the query takes part, and not only the best of them.
    """

    fusions: Mapping[Fusion, str]
    text: str
    whole_text: bool = False


@dataclass(frozen=True)
class Capabilities:
    """A store's abilities, declared: nothing outside looks them up by the store's name.

    scores: the metrics, each with the meaning of the scores its searches return.
    indexes: kinds of index by the name used in suites.
    default_index: the kind of a suite that names none; unless given, the only kind there is.
    filters: operators of the filter algebra that `search` honours; empty: no filtered search.
    find: operators that `find` (no vector) honours; empty: no find.
    field_types: metadata column types; empty: no metadata at all.
    nulls: metadata values may be missing. text_bytes: of the longest text of a column; columns: the
        most of them; None: no limit is known.
    payload_index: `Field.indexed` makes a difference: an index can be left off.
    filters_need_index: a column without an index can be kept and read, but not filtered by.
    get, scan, upsert, delete: the operation exists.
    replaces: `upsert` gives an existing id a new vector and metadata (else it is refused).
    persistent: what was flushed is there after `close` and `open`.
    concurrent_search: searchers may be called from several threads at once.
    inserts_after_build: rows may be added after `build` without building anew.
    refuses_duplicates: `insert` raises for an id that is there already or twice in its batch;
        else what happens then is the library's own affair, and the caller sees to it.
    returns: what a search can bring back by itself; of the rest `searcher_returning` fetches the
        rows by a second request, as a user of the store would have to.
    durability: what a write can be asked to be when it is acknowledged, the default first, each
        with the setting by which that is so; empty: nobody promises anything.
    hybrid: how it searches by vector and text at once; or why it does not, after its name.
    caveats: what the store forces that others do not, in short sentences for the reader.
    """

    scores: Mapping[Metric, ScoreKind]
    indexes: Mapping[str, IndexKind]
    default_index: str | None = None
    filters: frozenset[str] = frozenset()
    find: frozenset[str] = frozenset()
    field_types: frozenset[FieldType] = frozenset()
    nulls: bool = False
    text_bytes: int | None = None
    columns: int | None = None
    payload_index: bool = False
    filters_need_index: bool = False
    get: bool = True
    scan: bool = True
    upsert: bool = True
    delete: bool = True
    persistent: bool = False
    concurrent_search: bool = False
    inserts_after_build: bool = True
    refuses_duplicates: bool = False
    returns: frozenset[Returning] = frozenset({Returning.IDS})
    durability: Mapping[Durability, str] = field(default_factory=dict)
    hybrid: Hybrid | str = "has no search by the words of a text"
    caveats: tuple[str, ...] = ()

    def index_or_default(self, named: str | None) -> str | None:
        """The kind of index of a suite that names this one, or none; None where it has to name
        one."""
        only = next(iter(self.indexes)) if len(self.indexes) == 1 else None
        return named or self.default_index or only

    def under(self, index: str) -> Capabilities:
        """The capabilities under one kind of index; KeyError when there is no such kind."""
        kind = self.indexes[index]
        lacking: dict[str, Any] = dict.fromkeys(kind.unsupported, False)
        metrics = self.scores if kind.metrics is None else kind.metrics
        return replace(
            self,
            scores={metric: score for metric, score in self.scores.items() if metric in metrics},
            filters=self.filters if kind.filters is None else kind.filters,
            **lacking,
        )


@dataclass(frozen=True)
class Environment:
    """A Python environment of a store's own, for pins that conflict with everyone else's.

    name: its lock file, `vectrial/locks/<name>.lock`; see `vectrial.util.environments`.
    python: the interpreter it needs ("3.11").
    """

    name: str
    python: str = "3.11"


@dataclass(frozen=True)
class Footprint:
    """Bytes by kind, as far as the store can tell; what it cannot tell is None."""

    raw_bytes: int | None = None
    index_bytes: int | None = None
    log_bytes: int | None = None


@dataclass(frozen=True)
class Address:
    """Address of a running server, and its credentials.

    ports: by what listens there ("http", "grpc"), as the store calls them.
    secrets: user, password, key, … by the names the store gives them; never shown or kept.
    """

    host: str
    ports: Mapping[str, int]
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


#: The answer to one search: ids int64 (n,) and scores float32 (n,), best first.
Hits = tuple[NDArray[np.int64], NDArray[np.float32]]


class Searcher(Protocol):
    """A search with everything but the vector settled beforehand."""

    def __call__(self, vector: NDArray[np.float32], /) -> Hits:
        """Ids and scores of the nearest rows, best first, for one query (d,); both of the same
        length ≤ k. Nothing is copied, converted or translated here that could be beforehand."""
        ...


class HybridSearcher(Protocol):
    """A search by vector and text with everything but the two settled beforehand."""

    def __call__(self, vector: NDArray[np.float32], text: str, /) -> Hits:
        """Ids and scores of the best rows, best first, for one vector (d,) and one text of any
        words; both of the same length ≤ k. Scores are the fusion's, larger is better; at α = 1
        and 0 they are those of the one side that is asked."""
        ...


@dataclass(frozen=True)
class NativeSearch:
    """A search by the native lane: the server, and the search in its protocol's words.

    target: as `vectrial.engine.client.target` makes it.
    options: of every search, as the protocol takes them: collection, search parameters, ….
    filter: the condition in the protocol's own words; None when there is none.
    """

    target: LoadTarget
    options: Mapping[str, str] = field(default_factory=dict)
    filter: bytes | None = None


@dataclass(frozen=True)
class NativeRows:
    """Writes, reads and deletes of rows by their ids through the native lane.

    target: as `vectrial.engine.client.target` makes it.
    options: of every request, as the protocol takes them.
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
    extra: the extra of this package that installs it: `pip install 'vectrial[<extra>]'`.
    environment: set when the store cannot live in the main environment.
    server: of a store of kind "server": the `vectrial.servers.base.Recipe` by which it is run,
        as `module:NAME`, resolved where servers are started and nowhere else.
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

    #: What is asked of writes, one of `capabilities.durability`; None: the store's default. Set
    #: before `create` or `open`.
    durability: Durability | None = None
    #: Making a searcher calls `refresh` first. Experiments that measure how soon writes are seen
    #: turn it off.
    auto_refresh: bool = True

    def __init__(self, location: Path, address: Address | None = None) -> None:
        """A store in the folder `location`, which exists and belongs to it alone; or, of kind
        "server", in the server at `address`, as a collection named after `location`, where
        nothing is written. Many stores may share a server."""
        self.location = location

    # -- life ------------------------------------------------------------------------------

    @abstractmethod
    def version(self) -> str:
        """Version of the library or server, as it says itself."""

    @abstractmethod
    def create(self, schema: Schema, index: Index) -> None:
        """Make an empty collection. The schema and index were checked with `refuse`."""

    def open(self, schema: Schema, index: Index) -> None:
        """Open what was created, flushed and closed at this location."""
        raise Unsupported(f"{self.name} does not persist")

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
        """Block until every row is served by the final index; returns how that is known."""
        return "inserts and builds are synchronous"

    # -- data ------------------------------------------------------------------------------

    @abstractmethod
    def insert(self, batch: pa.RecordBatch) -> None:
        """Add new rows in the layout of `Schema.arrow`. Ids are not there yet."""

    def upsert(self, batch: pa.RecordBatch) -> None:
        """Add rows, or replace vector and metadata of those whose ids exist."""
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

        Valid until the next write. Making it is outside the clock; calling it is timed. What lets
        it see the writes before it is in the call too, or in `refresh`, which is timed where rows
        change while they are searched.
        """

    def refresh(self) -> None:  # noqa: B027 - nothing to do is a valid answer
        """Have searches from now on see every write that was acknowledged, by searchers that were
        made since, where that comes about by itself only after a while. Nothing where a write is
        seen when it is acknowledged, or a search itself waits for it."""

    def searcher_returning(
        self, returning: Returning, k: int, params: Params, where: Filter | None = None
    ) -> Searcher:
        """As `searcher`; each call also brings what `returning` names of every row it finds, as
        the client library gives it. A store that can ask for it in the search itself declares so
        in `capabilities.returns` and overrides this."""
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
        """A search for the k best rows by a vector and the words of a text, any of which may be
        in a row, over the field `blend.field`, which was created with `text`.

        At `blend.alpha` 1 it is the search by vector alone, and at 0 the one by text alone, as one
        would ask then. Otherwise as `searcher`.
        """
        raise Unsupported(f"{self.name} {self.capabilities.hybrid}")

    def native_search(
        self,
        k: int,
        params: Params,
        where: Filter | None = None,
        returning: Returning = Returning.IDS,
    ) -> NativeSearch:
        """The search of `searcher_returning` with the same arguments, for the native lane: the
        same question to the same server, which must give the same answer.

        Raises:
            Unsupported: `returning` is not among `capabilities.returns`.
        """
        raise Unsupported(f"{self.name} has no native lane")

    def native_rows(self) -> NativeRows:
        """Writes, reads and deletes of rows of this collection, which exists, through the native
        lane; its inserts have the effect of `insert`."""
        raise Unsupported(f"{self.name} has no native lane for rows")

    def find(self, where: Filter, limit: int) -> NDArray[np.int64]:
        """Ids of at most `limit` rows that `where` keeps, in any order; no vector involved."""
        raise Unsupported(f"{self.name} has no find by condition")

    def footprint(self) -> Footprint:
        """Bytes by kind, where the store itself can tell. Files are measured elsewhere."""
        return Footprint()


def untested(store: type[Store], version: str) -> str | None:
    """A note on a version that the store's driver was not tested with; None when it was."""
    if not store.tested or version.startswith(store.tested):
        return None
    return (
        f"{store.name} {version} is not a version that its driver was tested with: "
        f"{', '.join(f'{known}*' for known in store.tested)}"
    )


def refuse(
    store: type[Store], schema: Schema, index: Index | None = None, where: Filter | None = None
) -> None:
    """Raise `Unsupported` for what the store does not declare; called when a plan is made."""
    from vectrial.model.filters import fields

    can = store.capabilities
    if schema.metric not in can.scores:
        raise Unsupported(
            f"{store.name} has no metric '{schema.metric}'",
            remedy=f"it has {', '.join(sorted(can.scores))}",
        )
    for column in schema.fields:
        if column.type not in can.field_types:
            raise Unsupported(f"{store.name} cannot keep column '{column.name}' ({column.type})")
        _refuse_values(store, column)
    if can.columns is not None and len(schema.fields) > can.columns:
        raise Unsupported(
            f"{store.name} keeps at most {can.columns} metadata columns, not {len(schema.fields)}",
            remedy="import the dataset with `--keep`, which names those that filters read",
        )
    kind = None
    if index is not None:
        kind = can.indexes.get(index.kind)
        if kind is None:
            raise Unsupported(
                f"{store.name} has no index '{index.kind}'",
                remedy=f"it has {', '.join(can.indexes)}",
            )
        if kind.metrics is not None and schema.metric not in kind.metrics:
            raise Unsupported(f"{store.name}: index '{index.kind}' has no '{schema.metric}'")
    if where is not None:
        refuse_filter(store, where, kind)
        read = fields(where)
        if any(column.name in read and not column.indexed for column in schema.fields):
            refuse_unindexed(store)


def _refuse_values(store: type[Store], column: Field) -> None:
    can, remedy = store.capabilities, "import the dataset with `--keep`, and without this column"
    if column.missing and not can.nulls:
        raise Unsupported(
            f"{store.name} keeps no missing values, as column '{column.name}' has", remedy=remedy
        )
    if can.text_bytes is not None and column.longest > can.text_bytes and not column.text:
        raise Unsupported(
            f"{store.name} keeps texts of at most {can.text_bytes:,} bytes, and column"
            f" '{column.name}' has one of {column.longest:,}",
            remedy=remedy,
        )


def refuse_filter(store: type[Store], where: Filter, kind: IndexKind | None = None) -> None:
    """Raise `Unsupported` when a search of `store` cannot honour `where`."""
    from vectrial.model.filters import operators

    honoured = store.capabilities.filters
    if kind is not None and kind.filters is not None:
        honoured = kind.filters
    missing = operators(where) - honoured
    if missing:
        raise Unsupported(
            f"{store.name} cannot filter with '{min(missing)}'",
            remedy=f"it can: {', '.join(sorted(honoured)) or 'no filter at all'}",
        )


def refuse_operation(store: Store, index: Index, operation: str) -> None:
    """Raise `Unsupported` when this kind of index has no such operation: "get", "scan", …."""
    if operation in store.capabilities.indexes[index.kind].unsupported:
        raise Unsupported(f"{store.name}: index '{index.kind}' has no {operation}")


def refuse_unindexed(store: type[Store]) -> None:
    """Raise `Unsupported` when `store` filters by no column that has no index."""
    if store.capabilities.filters_need_index:
        raise Unsupported(f"{store.name} filters by no column without an index")
