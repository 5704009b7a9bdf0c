"""A store of the same kind beside the one that is measured, gone when it is no longer needed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vectrial.model.store import Store


@contextmanager
def temporary_store(make: Callable[[Path], Store], folder: Path) -> Iterator[Store]:
    """A store made in `folder`, which is emptied first; it is not created yet. Afterwards it is
    dropped from its server, closed, and the folder removed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        store = make(folder)
        try:
            yield store
        finally:
            close_store(store)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def close_store(store: Store) -> None:
    """Close a store that is no longer needed; from its server, which may go on, its collection is
    dropped first. What goes wrong with that is told on stderr: the server may be dead, and what
    was measured stands."""
    if store.kind == "server":
        try:
            store.drop()
        except Exception as error:  # noqa: BLE001 - whatever its client library raises then
            said = f"{type(error).__name__}: {error}"
            print(f"{store.name}: its collection was not dropped: {said}", file=sys.stderr)
    store.close()
