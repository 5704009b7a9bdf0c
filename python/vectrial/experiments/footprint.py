"""How big it gets: bytes on disk and in memory beside the raw bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import Any, ClassVar

from vectrial.experiments.base import Experiment, Target
from vectrial.experiments.storage import weigh
from vectrial.model.context import Context
from vectrial.model.phase import Phase
from vectrial.telemetry.memory import forget_pages, give_back_free_memory


class FootprintExperiment(Experiment):
    """Allocated blocks of the store's folder after flush, and resident memory with all loaded. What
    was there before the load is no part of the ratios to the raw bytes."""

    name: ClassVar[str] = "footprint"
    title: ClassVar[str] = "Size on disk and in memory"
    sends_requests: ClassVar[bool] = False
    before_gate: ClassVar[bool] = True  # the memory that checking takes is not the store's

    def points(self, target: Target) -> list[dict[str, Any]]:
        return [{}]

    def run(self, context: Context, point: Mapping[str, Any]) -> Iterator[Phase]:
        phase = Phase("footprint", perf_counter_ns(), perf_counter_ns())
        dataset = context.dataset
        metadata_bytes = 0 if dataset.metadata is None else dataset.metadata.nbytes
        whole = dataset.raw_bytes + metadata_bytes
        phase.metrics |= {"raw_bytes": dataset.raw_bytes, "metadata_bytes": metadata_bytes}
        self._memory(phase, context, whole)
        self._disk(phase, context)
        phase.ended_ns = perf_counter_ns()
        yield phase

    @staticmethod
    def _memory(phase: Phase, context: Context, whole: int) -> None:
        forget_pages(context.dataset.vectors)
        give_back_free_memory()
        resident, baseline = context.resident_bytes(), context.baseline_rss_bytes
        if resident is None or baseline is None:
            for name in ("rss_bytes", "rss_growth_bytes", "rss_ratio"):
                phase.missing[name] = "the server runs on another machine"
            return
        growth = max(0, resident - baseline)
        phase.metrics |= {
            "rss_bytes": resident,
            "rss_growth_bytes": growth,
            "rss_ratio": growth / whole,
        }

    @staticmethod
    def _disk(phase: Phase, context: Context) -> None:
        if context.store.capabilities.persistent:
            if context.data_dirs:
                context.store.flush()
            weigh(phase, context)
        else:
            for name in ("disk_bytes", "disk_ratio", "disk_empty_bytes"):
                phase.missing[name] = "keeps nothing on disk"
        told = context.store.footprint()
        for name in ("index_bytes", "log_bytes"):
            value = getattr(told, name)
            if value is None:
                phase.missing[name] = "the store does not tell"
            else:
                phase.metrics[name] = value

    def estimate_s(self, rows: int, dim: int, point: Mapping[str, Any]) -> float:
        """Walking a folder."""
        return 0.5
