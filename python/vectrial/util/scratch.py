"""Folders in which something is made before it is moved to its place.

A process that is killed leaves its folder behind. The next one that makes the same kind of thing in
the same place removes it: whoever still works in a folder holds a lock on it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from glob import escape
from pathlib import Path
from types import TracebackType

#: Ends every name, so that nobody else's hidden folder is taken for one.
_SUFFIX = ".vectrial-scratch"
#: A folder that is younger than another by less than this may not be locked yet.
_YOUNG_S = 60.0


class ScratchFolder:
    """A hidden folder for what is being made; use as a context manager, which gives its path and
    removes it with all that is still there, or call `remove`.

    kind: beginning of its name, as in ".writing-". place: an existing folder, on the disk where
        the result is to be.
    """

    def __init__(self, kind: str, place: Path) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=kind, suffix=_SUFFIX, dir=place))
        self._lock = _locked(self.path)
        _sweep(kind, place, self.path.stat().st_mtime - _YOUNG_S)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder; nothing happens if that was done."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _sweep(kind: str, place: Path, before: float) -> None:
    """Remove the folders of this kind that were made before a time, and whose processes have
    ended."""
    for folder in place.glob(f"{escape(kind)}*{_SUFFIX}"):
        with suppress(OSError):
            if folder.stat().st_mtime > before:
                continue
            lock = _locked(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the lock of a folder; None if another process holds it, or the disk
    has no locks."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
