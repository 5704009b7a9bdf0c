"""A process of the sdk lane: it connects, warms up, waits for the common start, and searches or
inserts.

Run as `python -m vectrial.workload.python.sdk_client FD PARENT` by `sdk_process`; what it is
to do comes over the pipe: a `Share` of a search, a `Portion` of a load, or a `Caller` that reads
out.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing.connection import Connection

from vectrial._engine import Judge
from vectrial.model.store import Store
from vectrial.util.process import die_with_parent
from vectrial.workload.ndcg import Grader
from vectrial.workload.python import sdk_ingest, sdk_open, transfer
from vectrial.workload.python.closed_loop import Crew
from vectrial.workload.python.open_loop import Served
from vectrial.workload.python.sdk_ingest import Portion
from vectrial.workload.python.sdk_process import Done, Failed, Ready, done
from vectrial.workload.python.sdk_search import Share
from vectrial.workload.python.timed import describe
from vectrial.workload.record import Outset


def _crew(share: Share, store: Store, pipe: Connection) -> Crew:
    asked, truth, load = share.question, share.truth, share.load

    def begin() -> Outset:
        pipe.send(Ready())
        started_ns = pipe.recv()
        while (left_ns := started_ns - time.perf_counter_ns()) > 0:
            time.sleep(left_ns / 1e9)
        return Outset(started_ns, time.process_time_ns(), 0.0)

    crew = Crew(
        asked.searchers(store),
        share.queries,
        Judge(truth.k, truth.accept_offsets, truth.accept_ids, truth.available),
        share.clients,
        share.seed,
        load.min_s,
        load.max_s,
        None,
    )
    crew.warmup = (share.warmup_queries, 5.0)
    crew.first, crew.of, crew.begin = share.first, share.load.clients, begin
    crew.keeps = share.keeps
    if share.judgement is not None:
        crew.grader = Grader.of(share.judgement, share.clients)
    return crew


def _measure(share: Share, pipe: Connection) -> Done | Served:
    if share.cores:
        os.sched_setaffinity(0, share.cores)
    store = share.question.opening.open()
    try:
        crew = _crew(share, store, pipe)
        if share.turns is not None:
            return sdk_open.measure(share, crew)
        return done(crew, crew.run(lambda: None, in_threads=share.clients > 1))
    finally:
        store.close()


def main() -> None:
    """Do what comes over the pipe whose file descriptor is the first argument; the
    second is the process id of whoever sends it."""
    die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    with Connection(int(sys.argv[1])) as pipe:
        task = pipe.recv()
        try:
            if isinstance(task, Portion):
                pipe.send(sdk_ingest.insert(task, pipe))
            elif isinstance(task, transfer.Caller):
                pipe.send(transfer.move(task, pipe))
            else:
                pipe.send(_measure(task, pipe))
        except Exception as failure:  # noqa: BLE001 - the parent raises it
            pipe.send(Failed(": ".join(describe(failure))))


if __name__ == "__main__":
    main()
