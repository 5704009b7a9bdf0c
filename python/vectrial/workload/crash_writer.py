"""The process that writes rows to a library and is killed: what it wrote is then looked for.

Run as `python -m vectrial.workload.crash_writer FD PARENT`; the pipe carries all its instructions.
"""

from __future__ import annotations

import signal
import sys
from multiprocessing.connection import Connection

from vectrial.model.store import Store
from vectrial.stores import registry
from vectrial.stores.common.arrow import batch_of
from vectrial.util.process import die_with_parent
from vectrial.workload.crash import Write
from vectrial.workload.python.sdk_process import Opening
from vectrial.workload.python.timed import describe


def _serve(pipe: Connection) -> None:
    """Do what is asked until the process is killed or nobody is there to ask."""
    opening: Opening = pipe.recv()
    store: Store | None = None
    while True:
        try:
            asked: Write = pipe.recv()
        except EOFError:
            return
        failure = None
        try:
            if store is None:
                store = registry.resolve(opening.store)(opening.location)
                store.durability = opening.durability
                store.create(opening.schema, opening.index)
            for ids, vectors, columns in asked.batches:
                store.insert(batch_of(opening.schema, ids, vectors, columns))
            if asked.flush:
                store.flush()
        except Exception as error:  # noqa: BLE001 - the parent raises it
            failure = ": ".join(describe(error))
        pipe.send(failure)


def main() -> None:
    """Serve the pipe whose file descriptor is the first argument; the second is the process
    id of whoever asks."""
    die_with_parent(int(sys.argv[2]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    with Connection(int(sys.argv[1])) as pipe:
        _serve(pipe)


if __name__ == "__main__":
    main()
