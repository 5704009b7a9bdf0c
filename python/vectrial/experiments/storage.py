"""Bytes on disk as the collection grows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from time import perf_counter_ns
from typing import Any, ClassVar

from pydantic import field_validator

from vectrial.experiments.base import Experiment, Target
from vectrial.experiments.common import sizes
from vectrial.model.context import Context
from vectrial.model.errors import Unsupported
from vectrial.model.file_categories import FileKind, kind_of
from vectrial.model.inputs import Seconds
from vectrial.model.phase import Phase, State
from vectrial.model.store import Store
from vectrial.telemetry.disk import allocated_by, allocated_bytes
from vectrial.workload import ingest

#: Seconds between two looks at what a store still writes; for how long nothing may have changed, as
#: merges come in turns; and what is no change: its log's pages.
_LOOK_S, _REST_S, _STILL = 0.5, 2.0, 0.001

_BY_KIND = tuple(kind.metric for kind in FileKind)


class Storage(Experiment):
    """Bytes on disk for growing parts of the dataset, each loaded into an empty store: when the
    last row is acknowledged, and when the store has flushed, indexed and settled.

    checkpoints: fractions of the rows (at most 1), or numbers of rows; all rows as well.
    settle_s: how long at most is waited for compactions to end: until nothing has changed for two
        seconds; 0: not at all.

    What was on the disk before the load is told apart, and no part of the ratio to the raw bytes
    nor of the bytes by kind of file.
    """

    name: ClassVar[str] = "storage"
    title: ClassVar[str] = "Bytes on disk"
    starts_from: ClassVar[State] = State.EMPTY
    axes: ClassVar[frozenset[str]] = frozenset({"checkpoints"})

    checkpoints: tuple[int | float, ...] = (0.01, 0.1, 1.0)
    settle_s: Seconds = 20.0

    @field_validator("checkpoints")
    @classmethod
    def _sizes(cls, value: tuple[int | float, ...]) -> tuple[int | float, ...]:
        return sizes.checked(value)

    def points(self, target: Target) -> list[dict[str, Any]]:
        if not target.store.capabilities.persistent:
            raise Unsupported(f"{target.name} keeps nothing on disk")
        return [{"rows": size} for size in sizes.resolved(self.checkpoints, target.data.rows)]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        store, dataset = context.store, context.dataset
        store.create(context.schema, context.index)
        ingest.load(store, dataset, context.schema, context.batch_rows, context.progress)
        acknowledged = _measured(context, "acknowledged", perf_counter_ns())
        acknowledged.params = {"batch_rows": context.batch_rows}
        yield acknowledged
        ingest.finish(store, context.progress)
        at_rest = settled(context, self.settle_s)
        at_rest.params = acknowledged.params
        yield at_rest

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """A load, and two looks."""
        return 1.5 + rows * (20e-6 + dim * 0.6e-6)


def settled(context: Context, settle_s: float) -> Phase:
    """Bytes on disk of a store that is loaded and indexed, when it has flushed and its folders no
    longer change.

    settle_s: how long at most is waited.
    """
    started = perf_counter_ns()
    context.store.flush()  # what building and waiting have changed
    restless = _settle(context, settle_s)
    phase = _measured(context, "settled", started)
    if restless is not None:
        phase.remark(restless)
    return phase


def _settle(context: Context, settle_s: float) -> str | None:
    """Wait until the folders no longer change; why they may not have come to rest."""
    if not context.data_dirs:
        return None  # nothing is seen of it
    if not settle_s:
        return "not waited until it is at rest: settle_s = 0"
    began = since = time.monotonic()
    before, changed = allocated_bytes(context.data_dirs), False
    while True:
        context.progress(0, 1, "waiting for compactions")
        time.sleep(_LOOK_S)
        now, at = allocated_bytes(context.data_dirs), time.monotonic()
        if abs(now - before) > _STILL * max(now, before):
            before, since, changed = now, at, True
        elif at - since >= _REST_S:
            return None
        if at - began >= settle_s:
            break
    if changed:
        return f"still changing after settle_s = {settle_s:g}"
    return f"settle_s = {settle_s:g} is too short to see it at rest for {_REST_S:g} s"


def _measured(context: Context, name: str, started_ns: int) -> Phase:
    dataset = context.dataset
    extra = 0 if dataset.metadata is None else dataset.metadata.nbytes
    phase = Phase(name, started_ns, started_ns)
    phase.metrics |= {"raw_bytes": dataset.raw_bytes, "metadata_bytes": extra}
    weigh(phase, context)
    told = context.store.footprint()
    kinds = {
        "stored_vector_bytes": told.raw_bytes,
        "index_bytes": told.index_bytes,
        "log_bytes": told.log_bytes,
    }
    for metric, value in kinds.items():
        if value is None:
            phase.missing[metric] = "the store does not tell"
        else:
            phase.metrics[metric] = value
    phase.ended_ns = perf_counter_ns()
    return phase


def weigh(phase: Phase, context: Context) -> None:
    """Put into `phase` the bytes on disk now, those that were there before the load, and what came
    since: beside the raw bytes of vectors and metadata, and by kind. What is not known says why."""
    if not context.data_dirs:
        for metric in ("disk_bytes", "disk_ratio", "disk_empty_bytes", *_BY_KIND):
            phase.missing[metric] = "the server runs on another machine"
        return
    dataset, empty = context.dataset, sum(context.empty_disk.values())
    held = on_disk(type(context.store), context.data_dirs)
    disk = sum(held.values())
    extra = 0 if dataset.metadata is None else dataset.metadata.nbytes
    phase.metrics |= {
        "disk_bytes": disk,
        "disk_ratio": max(0, disk - empty) / (dataset.raw_bytes + extra),
        "disk_empty_bytes": empty,
    }
    told_apart = {*context.store.files.values(), FileKind.OTHER} if context.store.files else set()
    for kind in FileKind:
        if kind in told_apart:
            came = held.get(kind, 0) - context.empty_disk.get(kind, 0)
            phase.metrics[kind.metric] = came
        elif told_apart:
            phase.missing[kind.metric] = "none of its files hold this alone"
        else:
            phase.missing[kind.metric] = "what its files hold is not told apart"


def on_disk(store: type[Store], folders: Iterable[Path]) -> Mapping[FileKind, int]:
    """Bytes of the blocks allocated below `folders` by what `store` says they hold."""
    return allocated_by(folders, lambda path: kind_of(path, store.files))
