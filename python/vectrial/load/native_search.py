"""The native lane: searches that the engine sends over the wire."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge, LoadControl
from vectrial.datasets.model import Truth
from vectrial.experiments.base import Phase
from vectrial.load.native import Requests, closed, drive
from vectrial.load.offered import Closed
from vectrial.load.record import phase_of_outcome
from vectrial.stores.base import Wire

Progress = Callable[[float, float, str], None]

#: Seconds that the warm-up may take, as in the other lanes.
WARMUP_S = 5.0


def search(
    wire: Wire,
    queries: NDArray[np.float32],
    truth: Truth,
    k: int,
    load: Closed,
    *,
    warmup_queries: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
    name: str = "search",
) -> Phase:
    """Send the queries (q, d) under `load`, and judge the answers by `truth`."""
    requests = Requests(
        name,
        vectors=queries,
        k=k,
        filters=[] if wire.filter is None else [wire.filter],
        options=wire.options,
        judge=Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available),
    )
    load_1m = os.getloadavg()[0]
    outcome = drive(
        wire.target,
        [requests],
        [closed(load.clients, passes_s=None if load.by_clock else load.min_s)],
        duration_s=load.max_s,
        warmup_count=warmup_queries * load.clients,
        warmup_s=WARMUP_S if warmup_queries else None,
        seed=seed,
        progress=_reporter(progress, name, load),
    )
    (record,) = outcome["classes"]
    return phase_of_outcome(
        name,
        outcome,
        record,
        clients=load.clients,
        load_1m=load_1m,
        params={"loop": "closed", "clients": load.clients},
        no_recall="no ground truth was given",
    )


def _reporter(
    progress: Progress | None, name: str, load: Closed
) -> Callable[[LoadControl], None] | None:
    if progress is None:
        return None

    def report(control: LoadControl) -> None:
        started_ns, *_ = control.progress()
        if not started_ns:
            progress(0, 1, f"{name}: warming up")
        else:
            elapsed = (perf_counter_ns() - started_ns) / 1e9
            progress(min(max(elapsed, 0), load.min_s), load.min_s, name)

    return report
