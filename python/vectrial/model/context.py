"""Resources that an experiment may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vectrial.model.capabilities import Index, Params
from vectrial.model.dataset import Dataset, Truth
from vectrial.model.existing import Existing
from vectrial.model.faults import Crash, Fault, FaultEvent
from vectrial.model.file_categories import FileKind
from vectrial.model.filters import Filters, operators
from vectrial.model.lane import Lane
from vectrial.model.objects import ObjectsAccess, ObjectsRequest
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.phase import Live
from vectrial.model.placement import Certificate
from vectrial.model.progress import Progress
from vectrial.model.schema import Field, Schema, fields_of_columns
from vectrial.model.store import Address, Store


@dataclass(frozen=True)
class Data:
    """A dataset as the plan knows it. own_filters: operators of its queries' own filters; None if
    not every query has one. query_fields: column names of the query metadata."""

    schema: Schema
    rows: int
    own_filters: frozenset[str] | None = None
    query_fields: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Context:
    """Everything an experiment may use.

    store: the instance under test, made but not created when the experiment starts empty.
    lane: how searches are issued.
    certificate: the limits that the client of a native trial is held to, and where it runs.
    dataset: the rows of this trial and no others.
    data_dirs: the folders that hold the store's data; empty if it keeps them elsewhere.
    address: address of the store's server, or None if it has none.
    resident_bytes: memory that the store's process (this one or its server's) holds now; None if it
        runs elsewhere.
    baseline_rss_bytes: the same before anything was loaded.
    written_bytes: bytes that the same process has written to disks until now; None if it runs
        elsewhere.
    limit_memory: sets the memory that the store's server may use while it runs to this many bytes;
        None: to what it was started with. For a store without a server, the limit of this process,
        if it has limits; else None. Raises `Unsupported` if the server was started without a limit
        or cannot run with so little.
    empty_disk: bytes by kind in `data_dirs` before this load (see
        `telemetry.disk.store_bytes_by_kind`): the server's own files, and what earlier loads of the
        same server have left.
    progress: called with (done, of, what) outside timed samples.
    show: called equally often with what a long phase is doing right now.
    truth: exact neighbours for k under a filter.
    repeat_queries: timed searches repeat the dataset's own queries; else no query is used twice, as
        far as there are enough: see `load.queries`.
    crash: ends the store's server in the given way, starts it again on the same data, and returns
        where it listens; None if the store has no server. Raises `Unsupported` if the server is
        somebody else's or no power cut can be made; `StoreError` if it does not start again.
    cut_power: reduces the files of a store without a server to what a power cut would leave; its
        processes stand still, and are ended afterwards. None if there is no disk for it.
    fill_disk: fills the disk of the store's data (True) or restores it as it was. None if there is
        no disk for it.
    strike: injects a fault into the cluster node with this number, or ends the fault (True), and
        returns what it did; may be called while the store is used, from one other thread. None
        without a cluster. Raises `Unsupported` if the fault cannot be injected.
    from_machines: has the client machines send an `engine.parts.Order` together, and returns what
        they have `Sent`; None if this machine sends it. Raises `StoreError` if they cannot.
    objects: an object store that runs while the block lasts. Its content is removed if the block
        does not raise; else the same trial finds it again when the run is resumed. Raises
        `Unsupported` if it cannot be had.
    existing: the collection that the store was opened on, if somebody else made it.
    second_store: a store of the same kind, not created yet, for work that needs another schema or
        other rows; removed when the block is left. Each name is a place of its own.
    """

    store: Store
    lane: Lane
    certificate: Certificate
    dataset: Dataset
    schema: Schema
    index: Index
    k: int
    seed: int
    batch_rows: int
    progress: Progress
    show: Callable[[Live], None]
    truth: Callable[[int, Filters], Truth]
    data_dirs: tuple[Path, ...]
    resident_bytes: Callable[[], int | None]
    baseline_rss_bytes: int | None
    second_store: Callable[[str], AbstractContextManager[Store]]
    repeat_queries: bool = False
    address: Address | None = None
    empty_disk: Mapping[FileKind, int] = field(default_factory=dict)
    crash: Callable[[Crash], Address] | None = None
    cut_power: Callable[[], None] | None = None
    fill_disk: Callable[[bool], None] | None = None
    strike: Callable[[int, Fault, bool], FaultEvent] | None = None
    objects: Callable[[ObjectsRequest], AbstractContextManager[ObjectsAccess]] | None = None
    from_machines: Callable[[Any], Any] | None = None
    written_bytes: Callable[[], int | None] = lambda: None
    limit_memory: Callable[[int | None], None] | None = None
    existing: Existing | None = None


def operating_point(context: Context, point: Mapping[str, Any]) -> OperatingPoint:
    """A plan's point as an operating point. A point that an experiment made is validated here.

    Raises:
        ValidationError: the index does not take one of its values.
    """
    if isinstance(point, OperatingPoint):
        return point
    return OperatingPoint.parse(
        context.store.capabilities.indexes[context.index.kind].search, point
    )


def search_params(context: Context, point: Mapping[str, Any]) -> Params:
    """The validated search parameters of a point."""
    return operating_point(context, point).search


def fields_of(dataset: Dataset) -> tuple[Field, ...]:
    """The metadata columns of a dataset as a store's schema fields."""
    return () if dataset.metadata is None else fields_of_columns(dataset.metadata)


def own_filters(dataset: Dataset) -> frozenset[str] | None:
    """Operators of the filters that a dataset has for its queries; see `Data`."""
    if dataset.filters is None:
        return None
    used = frozenset[str]()
    for one in dataset.filters:
        if one is None:
            return None
        used |= operators(one)
    return used
