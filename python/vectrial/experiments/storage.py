"""Bytes on disk as the collection grows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any, ClassVar

from pydantic import Field, field_validator

from vectrial.errors import Unsupported
from vectrial.experiments import sizes
from vectrial.experiments.base import Context, Experiment, Phase, State
from vectrial.load import bulk
from vectrial.stores.base import Index, Store
from vectrial.telemetry.process import allocated_bytes

#: Seconds between two looks at what a store still writes, and what is no change: its log's pages.
_LOOK_S, _STILL = 0.5, 0.001


class Storage(Experiment):
    """Bytes on disk for growing parts of the dataset, each loaded into an empty store: when the
    last row is acknowledged, and when the store has flushed, indexed and settled.

    checkpoints: fractions of the rows (at most 1), or numbers of rows; all rows as well.
    settle_s: how long at most is waited for compactions to end.
    """

    name: ClassVar[str] = "storage"
    title: ClassVar[str] = "Bytes on disk"
    starts_from: ClassVar[State] = State.EMPTY
    axes: ClassVar[frozenset[str]] = frozenset({"checkpoints"})

    checkpoints: tuple[int | float, ...] = (0.01, 0.1, 1.0)
    settle_s: float = Field(default=20.0, ge=0)

    @field_validator("checkpoints")
    @classmethod
    def _sizes(cls, value: tuple[int | float, ...]) -> tuple[int | float, ...]:
        return sizes.checked(value)

    def points(self, store: type[Store], index: Index, rows: int) -> list[dict[str, Any]]:
        if not store.capabilities.persistent:
            raise Unsupported(f"{store.name} keeps nothing on disk")
        return [{"rows": size} for size in sizes.resolved(self.checkpoints, rows)]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        store, dataset = context.store, context.dataset
        store.create(context.schema, context.index)
        empty = allocated_bytes(context.data_dirs)
        bulk.load(store, dataset, context.schema, context.batch_rows, context.progress)
        yield _measured(context, "acknowledged", empty, perf_counter_ns())
        bulk.finish(store, context.progress)
        yield settled(context, empty, self.settle_s)

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """A load, and two looks."""
        return 1.5 + rows * (20e-6 + dim * 0.6e-6)


def settled(context: Context, empty: int, settle_s: float) -> Phase:
    """Bytes on disk of a store that is loaded and indexed, when it has flushed and its folders no
    longer change.

    empty: bytes on disk before anything was loaded. settle_s: how long at most is waited.
    """
    started = perf_counter_ns()
    context.store.flush()  # what building and waiting have changed
    at_rest = _settle(context, settle_s)
    phase = _measured(context, "settled", empty, started)
    if not at_rest:
        phase.reason = f"still changing after settle_s = {settle_s:g}"
    return phase


def _settle(context: Context, settle_s: float) -> bool:
    """Wait until the folders no longer change; whether they came to rest."""
    ends, before = time.monotonic() + settle_s, -1
    while time.monotonic() < ends:
        now = allocated_bytes(context.data_dirs)
        if abs(now - before) <= _STILL * now:
            return True
        before = now
        context.progress(0, 1, "waiting for compactions")
        time.sleep(_LOOK_S)
    return False


def _measured(context: Context, name: str, empty: int, started_ns: int) -> Phase:
    dataset = context.dataset
    extra = 0 if dataset.metadata is None else dataset.metadata.nbytes
    phase = Phase(name, started_ns, perf_counter_ns())
    phase.metrics |= {"raw_bytes": dataset.raw_bytes, "metadata_bytes": extra}
    if context.data_dirs:
        disk = allocated_bytes(context.data_dirs)
        phase.metrics |= {
            "disk_bytes": disk,
            "disk_ratio": disk / (dataset.raw_bytes + extra),
            "disk_empty_bytes": empty,
        }
    else:
        for metric in ("disk_bytes", "disk_ratio", "disk_empty_bytes"):
            phase.missing[metric] = "the server runs on another machine"
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
    return phase
