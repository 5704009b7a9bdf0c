"""The open loop of the embedded lane: a library under a load that does not wait for it.

Callers are threads of this process that take turns (see `open_python`), as those of a service that
holds the library would. What they wait for the library, and for each other, is in the latency.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import Judge
from vectrial.model.dataset import Truth
from vectrial.model.phase import Phase
from vectrial.model.progress import Progress
from vectrial.model.store import Searcher
from vectrial.model.workload import Open
from vectrial.workload.python.closed_loop import Crew
from vectrial.workload.python.open_loop import CALLERS, phase_of_served, serve, turns_of
from vectrial.workload.python.sdk_process import timed
from vectrial.workload.queries import Queries
from vectrial.workload.timed import Look

_WARMUP_S = 5.0


def search(
    searcher: Searcher | Sequence[Searcher],
    queries: NDArray[np.float32] | Queries,
    truth: Truth,
    load: Open,
    *,
    alone: bool,
    warmup_queries: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
    name: str = "search",
    look: Look | None = None,
) -> Phase:
    """Search under `load` with as many threads as may be in flight, up to `CALLERS`.

    Args:
        searcher: one for all queries, or one for each.
        alone: the calling thread is the only caller: the searcher must not be called from
            several threads.
        warmup_queries: of all callers together; each has at least one.
        look: as of `embedded.closed_loop`.

    Raises:
        StoreError: the searcher's ids are not what `Searcher` promises, a fault of the adapter.
    """
    callers = 1 if alone else min(load.in_flight, CALLERS)
    judge = Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available)
    length_s = load.duration_s
    crew = Crew(searcher, queries, judge, callers, seed, length_s, length_s, None)
    crew.warmup = (max(1, warmup_queries // callers), _WARMUP_S)
    crew.keeps = look is not None
    turns = turns_of(load, queries, seed)
    told = serve(crew, turns, crew.reporter(progress, name))
    started_ns, load_1m = crew.outset.started_ns, crew.outset.load_1m
    phase = phase_of_served(name, load, turns, callers, started_ns, [told], truth, load_1m)
    if look is not None:
        look(phase, timed([told.done], truth))
    return phase
