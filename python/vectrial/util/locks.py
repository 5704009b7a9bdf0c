"""What is built once in the cache, by one process at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vectrial.model.progress import LineProgress


@contextmanager
def only_one(lock: Path, what: str, report: LineProgress) -> Iterator[int]:
    """Hold `lock` while the body runs; gives the descriptor that holds it. `report` hears that
    another process is at `what`, and that this one waits.

    When this process is killed, the lock is free once its children that share the descriptor
    have ended too: none of them can still write where another process begins to build.
    """
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"{what}: another process is making it; waiting")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield held.fileno()
