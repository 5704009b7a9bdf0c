"""The open loop of the sdk lane: the Python client under a load that does not wait for it.

One schedule is drawn before the clock starts and dealt out to processes, in each of which callers
take turns (see `open_python`). That is how users of the Python client wait.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vectrial.model.dataset import Truth
from vectrial.model.phase import Phase
from vectrial.model.progress import Progress
from vectrial.model.workload import Closed, Open
from vectrial.workload.python import sdk_search
from vectrial.workload.python.closed_loop import Crew
from vectrial.workload.python.open_loop import CALLERS, Served, phase_of_served, serve, turns_of
from vectrial.workload.python.sdk_process import timed
from vectrial.workload.python.sdk_search import Question, Share
from vectrial.workload.queries import Queries
from vectrial.workload.record import Outset
from vectrial.workload.timed import Look


def search(
    question: Question,
    queries: NDArray[np.float32] | Queries,
    truth: Truth,
    load: Open,
    *,
    cores: Sequence[int] = (),
    warmup_queries: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
    name: str = "search",
    look: Look | None = None,
) -> Phase:
    """Search under `load` with as many callers as may be in flight, up to `CALLERS`.

    Args:
        cores: those the processes share; empty: all.
        warmup_queries: of all callers together; each has at least one.
        look: as of `embedded.closed_loop`.

    Raises:
        StoreError: a process could not connect, or ended before its time.
    """
    callers = min(load.in_flight, CALLERS)
    width = len(cores) or len(os.sched_getaffinity(0))
    parts = sdk_search.parts(callers, min(callers, width))
    turns = turns_of(load, queries, seed)
    shares = [
        Share(
            question,
            queries,
            truth,
            Closed(callers, load.duration_s, load.duration_s),
            number,
            sum(parts[:nth]),
            cores,
            max(1, warmup_queries // callers),
            seed,
            name,
            dealt,
            keeps=look is not None,
        )
        for nth, (number, dealt) in enumerate(zip(parts, turns.dealt(len(parts)), strict=True))
    ]
    load_1m = Outset.now().load_1m
    started_ns, told = sdk_search.together(shares, Served, progress, load.duration_s)
    phase = phase_of_served(name, load, turns, callers, started_ns, told, truth, load_1m)
    seconds = (phase.ended_ns - phase.started_ns) / 1e9
    phase.metrics |= {
        "client_processes": len(parts),
        "client_cpu_share": (phase.metrics["cpu_s"] or 0) / seconds / min(len(parts), width),
    }
    if look is not None:
        look(phase, timed([one.done for one in told], truth))
    return phase


def measure(share: Share, crew: Crew) -> Served:
    """In a process: its part of the arrivals."""
    assert share.turns is not None
    return serve(crew, share.turns)
