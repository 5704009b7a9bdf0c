"""Things that are built once in the cache, by one process at a time."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vectrial.model.progress import LineProgress


@contextmanager
def file_lock(lock: Path, what: str, report: LineProgress) -> Iterator[int]:
    """Hold `lock` while the body runs; yields the descriptor that holds it. `report` is told if
    another process is making `what` and this one waits.

    If this process is killed, the lock stays held until its children that share the descriptor have
    ended too: none of them can still write where another process begins to build.
    """
    with lock.open("w") as lock_file:
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"{what}: another process is making it; waiting")
            fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield lock_file.fileno()


def build_once(
    folder: Path, file: str, what: str, build: Callable[[Path, int], None], report: LineProgress
) -> Path:
    """The path of `file` in `folder`, which is built first if the file does not exist.

    build: called with a folder to make, renamed to `folder` when it is complete, and the descriptor
        of the lock (see `file_lock`) for the programs that it executes.
    """
    if not (folder / file).exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(folder.with_name(f"{folder.name}.making"), what, report) as lock:
            if not (folder / file).exists():  # else another process made it while this one waited
                aside = folder.with_name(f"{folder.name}.partial")
                shutil.rmtree(aside, ignore_errors=True)  # of a process killed while building
                try:
                    build(aside, lock)
                    aside.rename(folder)
                finally:
                    shutil.rmtree(aside, ignore_errors=True)
    return folder / file
