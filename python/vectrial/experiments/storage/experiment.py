"""Size of the loaded store on disk and in memory, or its growth on disk with the collection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any, ClassVar, Self

from pydantic import field_validator, model_validator

from vectrial.document.sheet import Sheet, metric
from vectrial.experiments.base import Experiment, Target
from vectrial.experiments.common.disk_usage import settled_phase, size_phase
from vectrial.experiments.common.sizes import Size, check_sizes, resolve_sizes
from vectrial.model.context import Context, Data
from vectrial.model.errors import Unsupported
from vectrial.model.inputs import Seconds
from vectrial.model.phase import Phase, Role, State
from vectrial.telemetry.memory import forget_pages, give_back_free_memory
from vectrial.workload import ingest

_SHEET = Sheet(
    "Bytes on disk as it grows",
    "Allocated blocks when the last row was acknowledged, and when the store had flushed, "
    "indexed and settled, beside the bytes that the store itself reports.",
    ("acknowledged", "settled"),
    (("rows", "Rows"), ("phase", "When")),
    (
        metric("disk_bytes", "Disk"),
        metric("disk_ratio", "× raw"),
        metric("disk_baseline_bytes", "Empty"),
        metric("stored_vector_bytes", "Vectors", "As the store tells"),
        metric("index_bytes", "Index", "As the store tells"),
        metric("log_bytes", "Log", "As the store tells"),
    ),
    f"{__package__}.report:figures",
    f"{__package__}.report:kinds",
    growing=True,
)


class Storage(Experiment):
    """Allocated blocks of the store's folders after a flush, and resident memory, with all rows
    loaded. With `rows`, bytes on disk of growing parts of the dataset, each loaded into an empty
    store: when the last row is acknowledged, and when the store has flushed, indexed and settled.

    rows: fractions of the rows (at most 1), or numbers of rows; all rows as well.
    settle_s: of `rows`: the longest wait for compactions to end, which is when nothing has changed
        for two seconds; 0: no wait.

    What was there before the load is reported apart, and no part of the ratios to the raw bytes
    nor of the bytes by kind of file.
    """

    name: ClassVar[str] = "storage"
    title: ClassVar[str] = "Size on disk and in memory"
    place: ClassVar[int] = 35
    report: ClassVar[str] = f"{__package__}.report"
    sheet: ClassVar[Sheet | None] = _SHEET
    replaces: ClassVar[Mapping[str, str]] = {"footprint": ""}
    sends_requests: ClassVar[bool] = False
    before_gate: ClassVar[bool] = True  # the memory that checking takes is not the store's
    axes: ClassVar[frozenset[str]] = frozenset({"rows"})

    rows: tuple[Size, ...] | None = None
    settle_s: Seconds = 20.0

    @field_validator("rows")
    @classmethod
    def _sizes(cls, value: tuple[Size, ...] | None) -> tuple[Size, ...] | None:
        return value if value is None else check_sizes(value)

    @model_validator(mode="after")
    def _check_wait(self) -> Self:
        if self.rows is None:
            self._refuse_set(["settle_s"], "applies to loads of `rows` only")
        return self

    def resolve(self, data: Data) -> Storage:
        """The experiment that loads `rows`, if they are set; otherwise this one."""
        return self if self.rows is None else GrowingStorage.model_validate(self.model_dump())

    def points(self, target: Target) -> list[dict[str, Any]]:
        return [{}]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        started = perf_counter_ns()
        memory, missing = _memory(context)
        if context.store.capabilities.persistent and context.data_dirs:
            context.store.flush()
        phase = size_phase(context, "footprint", started)
        phase.role = Role.SIZE
        phase.metrics |= memory
        phase.missing |= missing
        yield phase

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time to walk a folder."""
        return 0.5


class GrowingStorage(Storage):
    """`Storage` with `rows`."""

    starts_from: ClassVar[State] = State.EMPTY
    sends_requests: ClassVar[bool] = True

    def points(self, target: Target) -> list[dict[str, Any]]:
        if not target.store.capabilities.persistent:
            raise Unsupported(f"{target.name} keeps nothing on disk")
        return [{"rows": size} for size in resolve_sizes(self.rows or (), target.data.rows)]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        store, dataset = context.store, context.dataset
        store.create(context.schema, context.index)
        ingest.load(store, dataset, context.schema, context.batch_rows, context.progress)
        acknowledged = size_phase(context, "acknowledged", perf_counter_ns())
        acknowledged.params = {"batch_rows": context.batch_rows}
        yield acknowledged
        ingest.finish(store, context.progress)
        at_rest = settled_phase(context, self.settle_s)
        at_rest.params = acknowledged.params
        yield at_rest

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Time of two measurements."""
        return 1.5


def _memory(context: Context) -> tuple[dict[str, float | None], dict[str, str]]:
    """Resident memory now and its growth since before the load, or the reason why they are
    missing."""
    forget_pages(context.dataset.vectors)
    give_back_free_memory()
    resident, baseline = context.resident_bytes(), context.baseline_rss_bytes
    if resident is None or baseline is None:
        names = ("rss_bytes", "rss_growth_bytes", "rss_ratio")
        return {}, dict.fromkeys(names, "the server runs on another machine")
    metadata = context.dataset.metadata
    whole = context.dataset.raw_bytes + (0 if metadata is None else metadata.nbytes)
    growth = max(0, resident - baseline)
    return {"rss_bytes": resident, "rss_growth_bytes": growth, "rss_ratio": growth / whole}, {}
