"""The registered stores, and their availability on this machine.

A store is registered by an entry point in the group `vectrial.stores`, in Vectrial's package or in
any other: see `vectrial.util.plugins`. A process in a store's own environment, which has no entry
points, gets `reference(store)` and calls `resolve`.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from vectrial.model.availability import Availability
from vectrial.model.errors import StoreError
from vectrial.model.store import Store
from vectrial.util import environments
from vectrial.util.plugins import Plugins, import_reference, reference

if TYPE_CHECKING:
    from vectrial.servers.provide import ProviderChoice

__all__ = [
    "STORES",
    "availability",
    "availability_with_server",
    "load",
    "names",
    "reference",
    "resolve",
]


def _store_class(found: object) -> type[Store]:
    if not (isinstance(found, type) and issubclass(found, Store)):
        raise ValueError("is not a subclass of vectrial.model.store.Store")
    return found


def _named_store_class(name: str, found: object) -> type[Store]:
    store = _store_class(found)
    if store.name != name:
        raise ValueError(f"is a store named '{store.name}': name the entry point so, too")
    return store


#: Every registered store, by name.
STORES: Plugins[type[Store]] = Plugins("vectrial.stores", "store", _named_store_class)


def names() -> tuple[str, ...]:
    """Names of all registered stores, in alphabetical order."""
    return tuple(STORES)


def load(name: str) -> type[Store]:
    """The store with this name.

    Raises:
        UserError: there is none; the remedy is the nearest name.
        PluginError: its module cannot be imported, or does not hold this store.
    """
    return STORES.load(name)


def resolve(where: str) -> type[Store]:
    """The store's class at `module:Class`.

    Raises:
        StoreError: the reference cannot be imported, or is not a store.
    """
    try:
        return _store_class(import_reference(where))
    except ValueError as error:
        raise StoreError(f"{where} {error}") from error
    except (ImportError, AttributeError, SyntaxError) as error:
        raise StoreError(f"the store at {where} cannot be imported: {error}") from error


def availability(store: type[Store], *, served: bool = False) -> Availability:
    """Availability of a store on this machine, without importing its library.

    served: do not check the server, which is already taken care of.
    """
    if store.environment is not None:
        make = f"python -m vectrial.util.environments {store.environment.name}"
        if lacks := environments.missing_hardware(store.environment):
            return Availability(False, lacks, f"on a machine that has one: {make}")
        if store.server is not None and not served:
            server = _server_availability(store)
            if server.works is False:
                return server
        if (environments.environment_folder(store.environment) / "bin" / "python").exists():
            return Availability(True)
        beforehand = f"nothing to do; beforehand: {make}"
        return Availability(None, "its own environment is made on first use", beforehand)
    if store.module is None or _importable(store.module):
        alone = store.server is None or served
        return Availability(True) if alone else _server_availability(store)
    if store.extra:
        package = STORES.package(store.name) if store.name in STORES else "vectrial"
        return Availability(False, "not installed", f"pip install '{package}[{store.extra}]'")
    remedy = f"install the package that has the Python module {store.module}"
    return Availability(False, "not installed", remedy)


def availability_with_server(store: type[Store]) -> tuple[Availability, ProviderChoice | None]:
    """Availability of a store and its server on this machine, and the server's provider. The
    provider is None for a store without a server."""
    from vectrial.servers.provide import choose_provider, recipe_of

    recipe = recipe_of(store)
    choice = None if recipe is None else choose_provider(recipe)
    own = availability(store, served=choice is not None)
    return (choice.available if choice is not None and own.works else own), choice


def _server_availability(store: type[Store]) -> Availability:
    from vectrial.servers.provide import choose_provider, recipe_of

    recipe = recipe_of(store)
    assert recipe is not None
    return choose_provider(recipe).available


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False
