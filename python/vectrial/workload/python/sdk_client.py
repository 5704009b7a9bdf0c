"""A process of the sdk lane: it connects, warms up, waits for the common start, and searches or
inserts.

`sdk_process` runs it by `vectrial.util.program` with FD PARENT; its task comes over the pipe: a
`ClientShare` of a search, a `Portion` of a load, or a `BulkClient` that reads out.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing.connection import Connection

from vectrial.engine.recorders import judge_of
from vectrial.model.store import Store
from vectrial.util.arrow import load_without_pandas
from vectrial.util.process import die_with_parent
from vectrial.workload.python import bulk_io, sdk_ingest
from vectrial.workload.python.client_pool import ClientPool
from vectrial.workload.python.open_loop import WorkerResult, serve
from vectrial.workload.python.sdk_ingest import Portion
from vectrial.workload.python.sdk_process import Done, Failed, done_message, wait_for_start
from vectrial.workload.python.sdk_search import ClientShare
from vectrial.workload.python.sdk_turns import PackedRemainder, take_turns
from vectrial.workload.python.timed import describe
from vectrial.workload.record import PhaseStart


def _pool(share: ClientShare, store: Store, pipe: Connection) -> ClientPool:
    def begin() -> PhaseStart:
        started_ns = wait_for_start(pipe)
        return PhaseStart(started_ns, time.process_time_ns(), 0.0)

    pool = share.pool(share.question.searchers(store), judge_of(share.truth))
    pool.begin = begin
    return pool


def _measure(share: ClientShare, pipe: Connection) -> Done | WorkerResult | PackedRemainder:
    if share.cores:
        os.sched_setaffinity(0, share.cores)
    store = share.question.opening.open(share.first)
    try:
        pool = _pool(share, store, pipe)
        if share.in_turns:
            return take_turns(pool, pipe)
        if share.schedule is not None:
            return serve(pool, share.schedule)
        return done_message(pool, pool.run(lambda: None, in_threads=share.clients > 1))
    finally:
        store.close()


def main() -> None:
    """Do the work received over the pipe whose file descriptor is the first argument; the second is
    the process id of the sender."""
    die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    load_without_pandas()
    with Connection(int(sys.argv[1])) as pipe:
        task = pipe.recv()
        try:
            if isinstance(task, Portion):
                pipe.send(sdk_ingest.insert(task, pipe))
            elif isinstance(task, bulk_io.BulkClient):
                pipe.send(bulk_io.run_client(task, pipe))
            else:
                pipe.send(_measure(task, pipe))
        except Exception as failure:  # noqa: BLE001 - the parent raises it
            pipe.send(Failed(": ".join(describe(failure))))
