"""A store of the same kind beside the one that is measured, gone when it is no longer needed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vectrial.stores.base import Store


@contextmanager
def beside(make: Callable[[Path], Store], folder: Path) -> Iterator[Store]:
    """A store made in `folder`, which is emptied first; it is not created yet. Afterwards it is
    dropped from its server, closed, and the folder removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        store = make(folder)
        try:
            yield store
        finally:
            if store.kind == "server":  # where it would stay beside the one that is measured
                store.drop()
            store.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
