"""Rows in and out in bulk: puts, whole reads, both in turn, and pages."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from time import perf_counter_ns
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from vectrial._engine import Recorder
from vectrial.document.sheet import LATENCY, Sheet, metric
from vectrial.engine.recorders import merge
from vectrial.experiments.base import Experiment, Numbers, Target, refuse_library
from vectrial.experiments.common.page_reads import check_reads, export
from vectrial.experiments.common.readiness import finish
from vectrial.experiments.common.sizes import Size, check_sizes, resolve_sizes
from vectrial.model.context import Context, Data
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.inputs import Count, PositiveSeconds, Seconds
from vectrial.model.lane import Lane, python_lane
from vectrial.model.phase import Phase, State
from vectrial.model.results_schema import MetricName
from vectrial.workload import dispatch
from vectrial.workload import ingest as bulk
from vectrial.workload.python.bulk_io import (
    BulkClient,
    FullScan,
    PutScanLoop,
    TransferResult,
    alternate_puts_and_gets,
    run_clients,
    scan_repeatedly,
)
from vectrial.workload.python.sdk_process import opening_of
from vectrial.workload.record import PhaseStart, phase_of

#: Rows that are put and read before anything is timed.
_WARM_UP = 100


_METRICS = (MetricName("export_s", "s", "lower", "time to read every row out once", "Export"),)
_OWN = {one.name: one for one in _METRICS}


_SHEET = Sheet(
    "Rows in and out in bulk",
    "put: writes into an empty store until the last row is acknowledged. indexed: from the "
    "first write until the final index serves every row. get: reads of all rows. mixed: "
    "alternating puts and full reads, each client on its own growing collection. export: full "
    "reads by one client, page by page. MB are 10^6 bytes of Arrow batches (ids, vectors, "
    "metadata) or of vectors alone, over the time of all clients together. Latency is that of one "
    "batch put, one full read or one page.",
    ("put", "indexed", "get", "mixed", "mixed_put", "mixed_get", "export"),
    (("rows", "Rows"), ("clients", "Clients"), ("phase", "What")),
    (
        metric("payload_mb_per_s", "all", "MB/s put"),
        metric("mb_per_s", "vectors", "MB/s put"),
        metric("export_mb_per_s", "all", "MB/s got"),
        metric("rows_per_s", "put", "Rows/s"),
        metric("ready_rows_per_s", "put and indexed", "Rows/s"),
        metric("export_rows_per_s", "got", "Rows/s"),
        metric("load_s", "put", "Seconds"),
        metric("ready_s", "put and indexed", "Seconds"),
        metric(_OWN["export_s"], "one full read", "Seconds"),
        metric("qps", "Operations/s"),
        *LATENCY,
        metric("errors", "Errors"),
        metric("ineffective", "Incomplete reads"),
    ),
    growing=True,
    sparse=True,
)

Operation = Literal["put", "get", "mixed", "export"]


class Transport(Experiment):
    """Put rows into an empty store, wait until they are indexed, read all of them out; then put
    and read by turns. Without "put", the loaded store is read.

    operations: "put"; "get": whole reads by all clients; "mixed": puts and whole reads by turns;
        "export": whole reads by one client, of which every page is timed.
    sizes: fractions of the rows, or numbers of rows; a number beyond them is all of them.
    clients: how many, each with one request at a time: a number, or a list to measure each. They
        share the rows to put, and each reads all rows; one for a library.
    batch_rows: rows of a put; unless given, the suite's; fewer where clients would be left idle.
    page_rows: rows asked for at a time in a read, where the store lets one choose.
    min_s: seconds during which further whole reads begin.
    mixed_s: seconds for which, at the largest size, each client puts `mixed_rows` rows into a
        collection of its own and reads all of it, by turns.

    Phases: `put` is until the last row was acknowledged, `indexed` the time after it until every
    row is served by the final index, and the two together; an operation of `get` is one whole
    read, and one of `export` is a page. A first put and read come before the clock. Puts go
    through the trial's lane, reads through the store's own client always.

    `mb_per_s` counts vectors alone (n·d·4), `payload_mb_per_s` and `export_mb_per_s` the Arrow
    batches with ids (8 bytes a row) and metadata; neither what is framed around them on the wire.
    All in 10^6 bytes, of all clients together.
    """

    name: ClassVar[str] = "transport"
    title: ClassVar[str] = "Rows in and out in bulk"
    place: ClassVar[int] = 65
    metrics: ClassVar[tuple[MetricName, ...]] = _METRICS
    only_with: ClassVar[Mapping[str, str]] = {"mixed_s": "mixed_rows"}
    terms: ClassVar[Mapping[str, str]] = {
        "page_rows": "rows per page",
        "by": "read by",
        "mixed_rows": "rows put by turns",
        "mixed_s": "seconds by turns",
    }
    sheet: ClassVar[Sheet | None] = _SHEET
    starts_from: ClassVar[State] = State.EMPTY
    axes: ClassVar[frozenset[str]] = frozenset({"sizes", "clients", "batch_rows", "mixed_s"})
    replaces: ClassVar[Mapping[str, str]] = {"export": 'operations = ["export"]'}
    lanes: ClassVar[frozenset[Lane] | None] = frozenset(Lane)

    operations: tuple[Operation, ...] = Field(default=("put", "get", "mixed"), min_length=1)
    sizes: tuple[Size, ...] = (3_000, 10_000, 15_000, 50_000)
    clients: Numbers = (1, 4)
    batch_rows: Count | None = None
    page_rows: Count = 10_000
    min_s: Seconds = 1.0
    mixed_s: PositiveSeconds = 5.0
    mixed_rows: Count = 100

    _sizes = field_validator("sizes")(check_sizes)

    @model_validator(mode="after")
    def _nothing_put(self) -> Self:
        if "put" not in self.operations:
            self._refuse_set(["sizes", "batch_rows"], 'applies to "put", which is not among them')
            if "mixed" in self.operations:
                raise ValueError('"mixed" puts rows as "put" does, which is not among operations')
        return self

    def resolve(self, data: Data) -> Transport:
        """The experiment that reads the loaded rows, if "put" is not requested; otherwise this
        one."""
        if "put" in self.operations:
            return self
        return LoadedTransport.model_validate(self.model_dump())

    def points(self, target: Target) -> list[dict[str, Any]]:
        _refuse_unread(target, self.operations)
        own = {} if self.batch_rows is None else {"batch_rows": self.batch_rows}
        sizes = resolve_sizes(self.sizes, target.data.rows, whole=False)
        mixed = {"mixed_s": self.mixed_s} if "mixed" in self.operations else {}
        return [
            {"rows": size, "clients": clients, **own, **(mixed if size == sizes[-1] else {})}
            for size in sizes
            for clients in dict.fromkeys(self.clients)
        ]

    def check_point(self, target: Target, point: Mapping[str, Any]) -> None:
        """Apply the common checks, and refuse several clients of a library."""
        super().check_point(target, point)
        refuse_library(target, point["clients"], "puts and reads its rows")

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        clients, rows = int(point["clients"]), context.dataset.rows
        size = min(int(point.get("batch_rows") or context.batch_rows), -(-rows // clients))
        yield from self._put(context, clients, size)
        yield from self._read(context, point)

    def _read(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        """The phases after the rows are present. One client exports, at its first point only."""
        clients = int(point["clients"])
        if "get" in self.operations:
            yield self._get(context, clients)
        if "mixed_s" in point:
            yield from self._mixed(context, clients, float(point["mixed_s"]))
        if "export" in self.operations and clients == self.clients[0]:
            yield from export(context, self.page_rows, self.min_s)

    def _put(self, context: Context, clients: int, batch_rows: int) -> Iterator[Phase]:
        store, dataset = context.store, context.dataset
        _warm_up(context)
        store.create(context.schema, context.index)
        put = dispatch.load(context, stop=dataset.rows, clients=clients, batch_rows=batch_rows)
        if put.metrics["count"] != dataset.rows:
            raise StoreError(f"the rows were not taken whole: {put.reason}")
        put.name, seconds = "put", put.metrics["load_s"] or 0.0
        put.params = {**put.params, "clients": clients, "batch_rows": batch_rows}
        yield put
        steps = finish(context, {})
        indexed = Phase("indexed", steps[0].started_ns, steps[-1].ended_ns)
        times = bulk.load_times(put, steps)
        indexed.params = {"clients": clients, "batch_rows": batch_rows, "known_by": steps[-2].note}
        indexed.metrics |= {
            **times,
            "ready_rows_per_s": dataset.rows / times["ready_s"],
        }
        indexed.valid, indexed.reason = put.valid, put.reason
        yield indexed  # what follows is not its time
        put.metrics["payload_mb_per_s"] = _payload(context) / 1e6 / seconds if seconds else None
        count = store.count()
        indexed.metrics["count"] = float(count)
        if count != dataset.rows:
            said = f"the store counts {count:,} rows, {dataset.rows:,} were acknowledged"
            for phase in (put, indexed):
                phase.invalidate(said)

    def _get(self, context: Context, clients: int) -> Phase:
        work = FullScan(np.sort(context.dataset.ids), self.page_rows, self.min_s)
        load_1m = os.getloadavg()[0]
        if clients == 1:
            told = [scan_repeatedly(context.store, work, began := _Began())]
            started = began.at_ns
        else:
            cores = context.certificate.placement.pins
            shares = [BulkClient(opening_of(context), work, cores)] * clients
            started, told = run_clients(shares, context.progress, "get")
        phase = _phase("get", told, [one.gets for one in told], started, load_1m)
        phase.params = {**phase.params, "page_rows": self.page_rows, **_by(context)}
        seconds = (phase.ended_ns - phase.started_ns) / 1e9
        passes = phase.metrics["count"] or 0.0
        got = sum(one.got_rows for one in told)
        phase.metrics |= {
            "passes": passes,
            "export_rows_per_s": got / seconds,
            "export_mb_per_s": sum(one.got_bytes for one in told) / 1e6 / seconds,
        }
        check_reads(phase, passes, sum(one.wrong for one in told))
        return phase

    def _mixed(self, context: Context, clients: int, length_s: float) -> Iterator[Phase]:
        """Puts and gets in turn: a phase of both together, and one of each alone."""
        dataset = context.dataset
        work = PutScanLoop(dataset.name, dataset.rows, self.mixed_rows, self.page_rows, length_s)
        load_1m = os.getloadavg()[0]
        with ExitStack() as stack:
            stores = [
                stack.enter_context(context.second_store(f"client-{number}"))
                for number in range(clients)
            ]
            for store in stores:
                store.create(context.schema, context.index)
            if clients == 1:
                began = _Began()
                told = [alternate_puts_and_gets(stores[0], work, dataset, context.schema, began)]
                started = began.at_ns
            else:
                cores = context.certificate.placement.pins
                shares = [BulkClient(opening_of(context, store), work, cores) for store in stores]
                started, told = run_clients(shares, context.progress, "mixed")
            # Within: what taking the collections away costs is no part of it.
            puts, gets = [one.puts for one in told], [one.gets for one in told]
            phases = list[Phase]()
            for name, records in (
                ("mixed", [*puts, *gets]), ("mixed_put", puts), ("mixed_get", gets)
            ):  # fmt: skip
                phase = _phase(name, told, records, started, load_1m, among=[*puts, *gets])
                phase.params = {
                    **phase.params,
                    "mixed_rows": self.mixed_rows,
                    "page_rows": self.page_rows,
                    **_by(context),
                }
                seconds = (phase.ended_ns - phase.started_ns) / 1e9
                if name != "mixed_get":
                    phase.metrics |= {
                        "rows_per_s": sum(one.put_rows for one in told) / seconds,
                        "payload_mb_per_s": sum(one.put_bytes for one in told) / 1e6 / seconds,
                    }
                if name != "mixed_put":
                    phase.metrics |= {
                        "export_rows_per_s": sum(one.got_rows for one in told) / seconds,
                        "export_mb_per_s": sum(one.got_bytes for one in told) / 1e6 / seconds,
                    }
                    check_reads(
                        phase, phase.metrics["count"] or 0.0, sum(one.wrong for one in told)
                    )
                phases.append(phase)
            yield from phases

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of the phases at their least."""
        return 1.0 + self.min_s + float(point.get("mixed_s", 0.0))


class LoadedTransport(Transport):
    """`Transport` of the store's own client without "put", on the loaded rows."""

    starts_from: ClassVar[State] = State.LOADED
    lanes: ClassVar[frozenset[Lane] | None] = None

    def points(self, target: Target) -> list[dict[str, Any]]:
        _refuse_unread(target, self.operations)
        clients = self.clients if "get" in self.operations else self.clients[:1]
        return [{"clients": one} for one in dict.fromkeys(clients)]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        yield from self._read(context, point)

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of reads at 100 MB/s, with one more read before the clock."""
        once = rows * dim * 4 / 1e8
        return once + max(self.min_s, once)


def _refuse_unread(target: Target, operations: Sequence[Operation]) -> None:
    """Raise `Unsupported` if rows are to be read from a store that cannot read them out."""
    if not target.capabilities.scan and set(operations) != {"put"}:
        raise Unsupported(f"{target.name} does not read out its rows")


def _warm_up(context: Context) -> None:
    """Write a batch into a separate collection, and read it back: the store's one-time setup is not
    counted as time of rows."""
    rows = np.arange(min(_WARM_UP, context.dataset.rows))
    with context.second_store("warm-up") as store:
        store.create(context.schema, context.index)
        store.insert(bulk.batch(context.dataset, context.schema, rows))
        if store.capabilities.for_index(context.index.kind).scan:
            for _ in store.scan():
                pass


class _Began:
    """The instant of the start, for one client in this process."""

    at_ns = 0

    def __call__(self) -> int:
        self.at_ns = perf_counter_ns()
        return self.at_ns


def _payload(context: Context) -> int:
    """Bytes of all rows that are put: ids, vectors, metadata."""
    dataset = context.dataset
    rows = bulk.batches(dataset, context.schema, 50_000)
    return sum(batch.nbytes for batch in rows)


def _by(context: Context) -> dict[str, str]:
    """Label of the client that reads the rows."""
    return {"by": str(python_lane(type(context.store)))}


def _phase(
    name: str,
    told: Sequence[TransferResult],
    records: Sequence[bytes],
    started: int,
    load_1m: float,
    *,
    among: Sequence[bytes] = (),
) -> Phase:
    """The phase made from the clients' records. among: the records of everything that the clients
    did in alternation with it, if they did more."""
    whole = merge(map(Recorder.unpack, records))
    return phase_of(
        name,
        whole,
        PhaseStart(started, 0, load_1m),
        ended_ns=max(one.ended_ns for one in told),
        cpu_ns=sum(one.cpu_ns for one in told),
        issued=whole.samples(),
        clients=len(told),
        params={"loop": "closed", "clients": len(told)},
        no_recall="a transfer has no answer to judge",
        among=sum(Recorder.unpack(one).samples() for one in among) or None,
    )
