"""Temporary stores, of the same kind as the measured one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vectrial.model.store import Store


@contextmanager
def temporary_store(make: Callable[[Path], Store], folder: Path) -> Iterator[Store]:
    """A store made in `folder`, which is emptied first; its collection is not created yet.
    Afterwards the store is dropped from its server and closed, and the folder removed."""
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
    """Close a store, after dropping it if it is in a server. An error from the drop goes to stderr
    and is not raised: the server may be dead, and the measurements stand."""
    if store.kind == "server":
        try:
            store.drop()
        except Exception as error:  # noqa: BLE001 - whatever its client library raises then
            reason = f"{type(error).__name__}: {error}"
            print(f"{store.name}: its collection was not dropped: {reason}", file=sys.stderr)
    store.close()
