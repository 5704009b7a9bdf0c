"""The servers that these tests run: one of each kind, started when first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from vectrial.model.store import Address, Store
from vectrial.servers.base import NoProgram, Server
from vectrial.servers.provide import prepare, provide, recipe_of
from vectrial.testing.server_programs import no_program


class Servers:
    """Server addresses by kind; or why there is none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[str, Server | NoProgram] = {}
        self._stack = ExitStack()

    def server(self, store: type[Store]) -> Server:
        """The server of `store`, which runs. Where its program cannot be had the test is skipped,
        or fails: see `no_program`."""
        recipe = recipe_of(store)
        assert recipe is not None
        if recipe.name not in self._found:
            try:
                choice = prepare(recipe, print)
            except NoProgram as error:
                self._found[recipe.name] = error
            else:
                server = self._stack.enter_context(
                    provide(recipe, self._folder / recipe.name, provider=choice.provider)
                )
                self._found[recipe.name] = server
        found = self._found[recipe.name]
        if isinstance(found, NoProgram):
            no_program(recipe, found)
        return found

    def stop(self) -> None:
        self._stack.close()


_session: list[Servers] = []


@contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    """Servers are started in `folder`, and stopped when the block ends."""
    _session.append(Servers(folder))
    try:
        yield
    finally:
        _session.pop().stop()


def address(store: type[Store]) -> Address:
    """Address of the server of `store`; see `Servers.server`."""
    return server(store).address


def server(store: type[Store]) -> Server:
    """See `Servers.server`."""
    return _session[-1].server(store)
