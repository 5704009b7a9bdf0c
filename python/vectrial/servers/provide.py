"""Which server a store gets: one that the user runs, or one that is started here.

Where a server is, and the secrets it asks for, belong to a machine and not to a suite, which is
published: they are read from the environment.

    VECTRIAL_WEAVIATE_ADDRESS=db.example:http=8080,grpc=50051
    VECTRIAL_WEAVIATE_API_KEY=…            or VECTRIAL_WEAVIATE_API_KEY_FILE=/run/secrets/key
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from vectrial.errors import StoreError, UserError
from vectrial.servers.base import External, Progress, Recipe, Server
from vectrial.servers.local import Local, variable
from vectrial.stores.base import Address, Store


def recipe_of(store: type[Store]) -> Recipe | None:
    """How the store's server is run; None for a store that needs none.

    Raises:
        StoreError: what the store declares is not there, or no recipe.
    """
    if store.server is None:
        return None
    module, _, attribute = store.server.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise StoreError(f"{store.name}: no server at {store.server}: {error}") from error
    if not isinstance(found, Recipe):
        raise StoreError(f"{store.name}: {store.server} is not a vectrial.servers.base.Recipe")
    return found


def provide(
    recipe: Recipe,
    folder: Path,
    *,
    log: Path | None = None,
    cores: Sequence[int] = (),
    progress: Progress = lambda line: None,
) -> Server:
    """A server of this kind, not started yet; the arguments are those of `Local`.

    Raises:
        UserError: the environment names an address that makes no sense.
    """
    given = external_address(recipe)
    if given is not None:
        return External(recipe, given)
    return Local(recipe, folder, log=log, cores=cores, progress=progress)


def prepare(recipe: Recipe, progress: Progress) -> None:
    """See to it that `provide` gives a server that can be started without further ado.

    Raises:
        NoProgram: its program cannot be had here. UserError: as `provide`.
    """
    if external_address(recipe) is None:
        recipe.program(progress)


@contextmanager
def serving(store: type[Store], folder: Path) -> Iterator[Address | None]:
    """The address of a server for `store`, running in `folder` while the block lasts; None for a
    store that needs none."""
    recipe = recipe_of(store)
    if recipe is None:
        yield None
        return
    with provide(recipe, folder) as server:
        yield server.address


def external_address(recipe: Recipe) -> Address | None:
    """The address, with its secrets, that the environment gives; None when it gives none.

    Raises:
        UserError: it makes no sense, or a secret's file cannot be read.
    """
    name = variable(recipe, "address")
    text = os.environ.get(name)
    if not text:
        return None
    host, _, listed = text.rpartition(":")
    wanted = ",".join(f"{port}=PORT" for port in recipe.public)
    try:
        ports = {key: int(port) for key, port in (one.split("=") for one in listed.split(","))}
    except ValueError:
        ports = {}
    if not host or set(ports) != set(recipe.public):
        raise UserError(f"'{text}' is no address", where=name, remedy=f"as in HOST:{wanted}")
    return Address(host, ports, _secrets(recipe))


def _secrets(recipe: Recipe) -> dict[str, str]:
    found = {}
    for secret in recipe.secrets:
        name = variable(recipe, secret)
        if value := os.environ.get(name):
            found[secret] = value
        elif path := os.environ.get(f"{name}_FILE"):
            try:
                found[secret] = Path(path).read_text().strip()
            except OSError as error:
                raise UserError(f"cannot be read: {error}", where=f"{name}_FILE") from error
    return found
