"""The open loop of the embedded lane: a library under a load that does not wait for it.

Clients are threads of this process that take turns (see `open_loop`), as those of a service that
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
from vectrial.model.workload import OpenLoop
from vectrial.workload.answer_log import AnswerCheck
from vectrial.workload.python.closed_loop import ClientPool
from vectrial.workload.python.open_loop import MAX_CLIENTS, phase_of_results, schedule_of, serve
from vectrial.workload.python.sdk_process import merged_answers
from vectrial.workload.queries import Queries

_WARMUP_S = 5.0


def search(
    searcher: Searcher | Sequence[Searcher],
    queries: NDArray[np.float32] | Queries,
    truth: Truth,
    load: OpenLoop,
    *,
    alone: bool,
    warmup_queries: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
    name: str = "search",
    check: AnswerCheck | None = None,
) -> Phase:
    """Search under `load` with as many threads as may be in flight, up to `MAX_CLIENTS`.

    Args:
        searcher: one for all queries, or one for each.
        alone: the calling thread is the only client: the searcher must not be called from
            several threads.
        warmup_queries: of all clients together; each has at least one.
        check: as of `closed_loop`.

    Raises:
        StoreError: the searcher's ids are not what `Searcher` promises, a fault of the adapter.
    """
    clients = 1 if alone else min(load.in_flight, MAX_CLIENTS)
    judge = Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available)
    length_s = load.duration_s
    pool = ClientPool(searcher, queries, judge, clients, seed, length_s, length_s, None)
    pool.warmup = (max(1, warmup_queries // clients), _WARMUP_S)
    pool.logs_answers = check is not None
    schedule = schedule_of(load, queries, seed)
    told = serve(pool, schedule, pool.reporter(progress, name))
    started_ns, load_1m = pool.phase_start.started_ns, pool.phase_start.load_1m
    phase = phase_of_results(name, load, schedule, clients, started_ns, [told], truth, load_1m)
    if check is not None:
        check(phase, merged_answers([told.done], truth))
    return phase
