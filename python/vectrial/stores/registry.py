"""The stores there are, and whether they work on this machine.

A store announces itself with an entry point in the group `vectrial.stores`, here and in other
people's packages alike. Entry points are read from installed metadata, which the environment
that measures a store may not have: a process there is told `reference(store)` and calls
`resolve`, and needs no registry at all.
"""

from __future__ import annotations

import importlib
import importlib.util
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from vectrial.model.availability import Availability
from vectrial.model.errors import StoreError, UserError
from vectrial.model.store import Store
from vectrial.util import environments
from vectrial.util.suggest import suggestion

GROUP = "vectrial.stores"


def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def names() -> tuple[str, ...]:
    """Names of all registered stores, in alphabetical order."""
    return tuple(sorted(_entries()))


def load(name: str) -> type[Store]:
    """The store of that name.

    Raises:
        UserError: there is none; the remedy is the nearest name.
        StoreError: its module cannot be imported, or holds something else than a store.
    """
    entries = _entries()
    if name not in entries:
        raise UserError(f"there is no store '{name}'", remedy=suggestion(name, entries))
    store = resolve(entries[name].value)
    if store.name != name:
        raise StoreError(f"the entry point '{name}' leads to a store named '{store.name}'")
    return store


def reference(store: type[Store]) -> str:
    """Where a store's class is, as `module:Class`: enough for another process to `resolve` it."""
    return f"{store.__module__}:{store.__qualname__}"


def resolve(where: str) -> type[Store]:
    """The store's class at `module:Class`.

    Raises:
        StoreError: nothing can be imported from there, or it is no store.
    """
    module, _, attribute = where.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise StoreError(f"the store at {where} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Store)):
        raise StoreError(f"{where} is not a subclass of vectrial.model.store.Store")
    return found


def availability(store: type[Store], *, served: bool = False) -> Availability:
    """Whether a store can run on this machine, found out without importing its library.

    served: its server is seen to already, so that it is not asked about.
    """
    if store.environment is not None:
        if (environments.path(store.environment) / "bin" / "python").exists():
            return Availability(True)
        name = store.environment.name
        how = f"or beforehand by: python -m vectrial.util.environments {name}"
        return Availability(None, f"its own environment is made on first use, {how}")
    if store.module is None or _importable(store.module):
        alone = store.server is None or served
        return Availability(True) if alone else _server_at_hand(store)
    remedy = f": pip install 'vectrial[{store.extra}]'" if store.extra else f": no {store.module}"
    return Availability(False, f"not installed{remedy}")


def _server_at_hand(store: type[Store]) -> Availability:
    from vectrial.servers.provide import choose, recipe_of

    recipe = recipe_of(store)
    assert recipe is not None
    return choose(recipe).available


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False
