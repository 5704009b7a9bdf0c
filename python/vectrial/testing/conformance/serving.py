"""The servers that these tests run: each is started when first asked for, and stopped when tests of
another store are next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from vectrial.model.store import Store
from vectrial.servers.base import NoProgram, Recipe, Server
from vectrial.servers.provide import make_server, prepare, recipe_of
from vectrial.testing.server_programs import no_program


class Servers:
    """Running servers by kind, with what must end before each; or the reason why there is none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, tuple[Server, ExitStack]] = {}
        self._missing: dict[str, NoProgram] = {}
        self._starts = 0

    def server(self, store: type[Store]) -> Server:
        """The running server of `store`. If its program is unavailable, the test is skipped or
        fails; see `no_program`."""
        return self._provide(store)[0]

    def make(self, store: type[Store], location: Path) -> Store:
        """A store on its server. It is closed before the server stops."""
        server, stack = self._provide(store)
        made = store(location, server.address)
        stack.callback(made.close)  # a second time, as a rule, which is harmless
        return made

    def stop(self, but: Recipe | None = None) -> None:
        """Stop every server of another kind. Idle servers keep the machine busy: a Milvus that
        polls for work often takes two fifths of a core."""
        for name in [name for name in self._running if but is None or name != but.name]:
            _, stack = self._running.pop(name)
            stack.close()

    def _provide(self, store: type[Store]) -> tuple[Server, ExitStack]:
        """The server of `store`, and what must end before it."""
        recipe = recipe_of(store)
        assert recipe is not None
        if recipe.name in self._missing:
            no_program(recipe, self._missing[recipe.name])
        if recipe.name not in self._running:
            try:
                choice = prepare(recipe, print)
            except NoProgram as error:
                self._missing[recipe.name] = error
                no_program(recipe, error)
            self._starts += 1
            folder, stack = self._folder / f"{recipe.name}-{self._starts}", ExitStack()
            server = stack.enter_context(make_server(recipe, folder, provider=choice.provider))
            self._running[recipe.name] = server, stack
        return self._running[recipe.name]


_session: list[Servers] = []


@contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    """Start servers in `folder`, and stop them when the block ends at the latest."""
    _session.append(Servers(folder))
    try:
        yield
    finally:
        _session.pop().stop()


def server(store: type[Store]) -> Server:
    """See `Servers.server`."""
    return _session[-1].server(store)


def make(store: type[Store], location: Path) -> Store:
    """See `Servers.make`."""
    return _session[-1].make(store, location)


def stop_others(store: type[Store] | None) -> None:
    """Stop every server but this store's; all servers if there is no store."""
    for servers in _session:
        servers.stop(None if store is None else recipe_of(store))
