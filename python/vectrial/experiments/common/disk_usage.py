"""Bytes on disk of a loaded store, beside its raw bytes and by kind of file."""

from __future__ import annotations

import time
from time import perf_counter_ns

from vectrial.model.context import Context
from vectrial.model.file_categories import FileKind
from vectrial.model.phase import Phase
from vectrial.telemetry.disk import allocated_bytes, store_bytes_by_kind

#: Seconds between two looks at a store's size; seconds for which it must not change, as merges come
#: in turns; and the largest share that is no change, for the pages of its log.
_LOOK_S, _REST_S, _STILL = 0.5, 2.0, 0.001

_DISK = ("disk_bytes", "disk_ratio", "disk_baseline_bytes")
_BY_KIND = tuple(kind.metric for kind in FileKind)


def settled_phase(context: Context, settle_s: float) -> Phase:
    """The phase "settled": bytes on disk of a loaded and indexed store, after it has flushed and
    its folders no longer change.

    settle_s: seconds after which it is measured in any case, with a remark.
    """
    started = perf_counter_ns()
    context.store.flush()  # what building and waiting have changed
    unsettled = _settle(context, settle_s)
    phase = size_phase(context, "settled", started)
    if unsettled is not None:
        phase.remark(unsettled)
    return phase


def _settle(context: Context, settle_s: float) -> str | None:
    """Wait until the folders no longer change; returns the reason if they still may."""
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


def size_phase(context: Context, name: str, started_ns: int) -> Phase:
    """A phase with the bytes of the data, on disk and as reported by the store, at this moment."""
    dataset, store = context.dataset, context.store
    metadata_bytes = 0 if dataset.metadata is None else dataset.metadata.nbytes
    phase = Phase(name, started_ns, started_ns)
    phase.metrics |= {"raw_bytes": dataset.raw_bytes, "metadata_bytes": metadata_bytes}
    if not store.capabilities.persistent:
        phase.missing |= dict.fromkeys(_DISK, "keeps nothing on disk")
    elif not context.data_dirs:
        phase.missing |= dict.fromkeys((*_DISK, *_BY_KIND), "the server runs on another machine")
    else:
        _count_blocks(phase, context, dataset.raw_bytes + metadata_bytes)
    reported = store.footprint()
    values = {
        "stored_vector_bytes": reported.raw_bytes,
        "index_bytes": reported.index_bytes,
        "log_bytes": reported.log_bytes,
    }
    for metric, value in values.items():
        if value is None:
            phase.missing[metric] = "the store does not tell"
        else:
            phase.metrics[metric] = value
    phase.ended_ns = perf_counter_ns()
    return phase


def _count_blocks(phase: Phase, context: Context, whole: int) -> None:
    """Record the bytes on disk now and before the load, and the growth: over `whole`, and by kind
    of file."""
    empty = sum(context.empty_disk.values())
    found = store_bytes_by_kind(type(context.store), context.data_dirs)
    disk = sum(found.values())
    growth = {"disk_ratio": max(0, disk - empty) / whole}
    phase.metrics |= {"disk_bytes": disk, "disk_baseline_bytes": empty, **growth}
    files = context.store.files
    declared = {*files.values(), FileKind.OTHER} if files else set()
    for kind in FileKind:
        if kind in declared:
            phase.metrics[kind.metric] = found.get(kind, 0) - context.empty_disk.get(kind, 0)
        elif declared:
            phase.missing[kind.metric] = "none of its files hold this alone"
        else:
            phase.missing[kind.metric] = "what its files hold is not told apart"
