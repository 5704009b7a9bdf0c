"""The experiments there are: one line each."""

from __future__ import annotations

from collections.abc import Mapping

from vectrial.experiments.base import Experiment
from vectrial.experiments.concurrency import Concurrency
from vectrial.experiments.crud import Crud
from vectrial.experiments.footprint import FootprintExperiment
from vectrial.experiments.ingest import Ingest
from vectrial.experiments.open_loop import OpenLoop
from vectrial.experiments.recall_sweep import RecallSweep

EXPERIMENTS: Mapping[str, type[Experiment]] = {
    kind.name: kind
    for kind in (Ingest, FootprintExperiment, RecallSweep, Concurrency, OpenLoop, Crud)
}
