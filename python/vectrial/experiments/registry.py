"""The experiments there are: one line each."""

from __future__ import annotations

from collections.abc import Mapping

from vectrial.experiments.anomaly import Anomaly
from vectrial.experiments.base import Experiment
from vectrial.experiments.capacity import Capacity
from vectrial.experiments.concurrency import Concurrency
from vectrial.experiments.condition import Condition
from vectrial.experiments.crud import Crud
from vectrial.experiments.durability import DurabilityExperiment
from vectrial.experiments.export import Export
from vectrial.experiments.filtered import Filtered
from vectrial.experiments.footprint import FootprintExperiment
from vectrial.experiments.hybrid import HybridSearch
from vectrial.experiments.ingest import Ingest
from vectrial.experiments.mixed import Mixed
from vectrial.experiments.open_loop import OpenLoop
from vectrial.experiments.recall_sweep import RecallSweep
from vectrial.experiments.scalar_index_overhead import ScalarIndexOverhead
from vectrial.experiments.size_sweep import SizeSweep
from vectrial.experiments.storage import Storage
from vectrial.experiments.time_to_searchable import TimeToSearchable
from vectrial.experiments.transport import Transport

EXPERIMENTS: Mapping[str, type[Experiment]] = {
    kind.name: kind
    for kind in (
        Ingest,
        Transport,
        Storage,
        TimeToSearchable,
        FootprintExperiment,
        RecallSweep,
        Filtered,
        HybridSearch,
        SizeSweep,
        Concurrency,
        OpenLoop,
        Capacity,
        Anomaly,
        Condition,
        Export,
        ScalarIndexOverhead,
        Crud,
        Mixed,
        DurabilityExperiment,
    )
}
