"""A process that writes rows to a store and may be killed; its rows are then looked for.

Run by `vectrial.util.program` with FD PARENT; the pipe carries its instructions and the outcome of
each change.
"""

from __future__ import annotations

import signal
import sys
import time
from multiprocessing.connection import Connection

import numpy as np

from vectrial.model.schema import Schema
from vectrial.model.store import Store
from vectrial.stores.common.arrow import batch_of
from vectrial.util.arrow import load_without_pandas
from vectrial.util.process import die_with_parent
from vectrial.workload.crash import ChangeScript, NewRows, WriterEnd
from vectrial.workload.ledger import Change, ChangeKind, ChangeOutcome
from vectrial.workload.python.timed import describe


def _serve(pipe: Connection) -> None:
    """Serve requests until the process is killed or the other end of the pipe is gone."""
    opening, create = pipe.recv()
    store: Store | None = None
    while True:
        try:
            script: ChangeScript | None = pipe.recv()
        except EOFError:
            return
        if script is None:  # it was stopped when it had just ended
            continue
        try:
            if store is None:
                store = opening.create() if create else opening.open()
            if _run(pipe, store, opening.schema, script) and script.flush:
                store.flush()
        except Exception as error:  # noqa: BLE001 - the parent raises it
            pipe.send(WriterEnd(": ".join(describe(error))))
        else:
            pipe.send(WriterEnd())


def _run(pipe: Connection, store: Store, schema: Schema, script: ChangeScript) -> bool:
    """Make the changes of a script; False if it was stopped before the last.

    Rows of a failed change are not changed again: their state is not known.
    """
    unknown: set[int] = set()
    due = time.monotonic()
    for number, (change, rows) in enumerate(zip(script.changes, script.rows, strict=True)):
        if (wait_s := due - time.monotonic()) > 0:
            time.sleep(wait_s)
        due = max(due, time.monotonic() - script.interval_s) + script.interval_s
        if pipe.poll():
            pipe.recv()
            return False
        if not unknown.isdisjoint(change.ids):
            continue
        error = ""
        try:
            _make(store, schema, change, rows)
        except Exception as raised:  # noqa: BLE001 - whatever a store raises is its answer
            error = ": ".join(describe(raised))
            unknown |= set(change.ids)
        pipe.send(ChangeOutcome(number, time.monotonic_ns(), error))
    return True


def _make(store: Store, schema: Schema, change: Change, rows: NewRows | None) -> None:
    if change.kind is ChangeKind.DELETE:
        store.delete(np.array(change.ids, dtype=np.int64))
        return
    assert rows is not None
    batch = batch_of(schema, rows.ids, rows.vectors, rows.columns)
    if change.kind is ChangeKind.INSERT:
        store.insert(batch)
    else:
        store.upsert(batch)


def main() -> None:
    """Serve the pipe whose file descriptor is the first argument; the second is the process id of
    the requester."""
    die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    load_without_pandas()
    with Connection(int(sys.argv[1])) as pipe:
        _serve(pipe)
