"""Servers that the nodes of a cluster depend on: a metadata store, a log, an object store."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import Recipe, Server
from vectrial.servers.local import Local, free_ports
from vectrial.servers.namespaces import Network
from vectrial.servers.server_network import ServerNetwork


class ClusterServices:
    """Servers that are started before a cluster's nodes, and ended after them.

    Args:
        recipes: functions, as "module:name", that make each recipe for an address.
        folder: holds a folder for each, with its name.
        cores, progress: see `Local`.
    """

    def __init__(
        self, recipes: Sequence[str], folder: Path, cores: Sequence[int], progress: LineProgress
    ) -> None:
        self._references, self._folder = tuple(recipes), folder
        self._cores, self._progress = tuple(cores), progress
        self._running: dict[str, Server] = {}
        self._ports: dict[str, Mapping[str, int]] = {}

    def start(self, host: str, network: Network | None) -> None:
        """Start each service and wait until it is ready. Their ports stay the same in later starts.

        Args:
            host: the address at which they listen. network: that address's network, if not ours.

        Raises:
            ServerError: a service does not start.
        """
        for reference in self._references:
            recipe = service_recipe(reference, host)
            if recipe.name not in self._ports:
                numbers = free_ports(len(recipe.ports))
                self._ports[recipe.name] = dict(zip(recipe.ports, numbers, strict=True))
            server: Server = Local(
                recipe,
                self._folder / recipe.name,
                cores=self._cores,
                progress=self._progress,
                server_network=None if network is None else ServerNetwork(network, reference),
                ports=self._ports[recipe.name],
                host=host,
            )
            self._running[recipe.name] = server
            server.start()
            server.wait_ready()

    @property
    def addresses(self) -> Mapping[str, Address]:
        """Addresses of the services by name."""
        return {name: server.address for name, server in self._running.items()}

    def processes(self) -> Mapping[str, int]:
        """Process ids by name."""
        return {
            name: pid
            for name, server in self._running.items()
            for pid in server.processes().values()
        }

    def data_dirs(self) -> tuple[Path, ...]:
        """Data folders of the services."""
        return tuple(one for server in self._running.values() for one in server.data_dirs())

    def is_alive(self) -> bool:
        """True if no service has ended."""
        return all(server.is_alive() for server in self._running.values())

    def pause(self, *, on: bool) -> None:
        """Pause all services, or resume them."""
        for server in self._running.values():
            server.pause(on=on)

    def kill(self) -> None:
        """Kill all services at once, as a crash would."""
        for server in self._running.values():
            server.kill()

    def stop(self) -> None:
        """Stop the services, the last first."""
        for server in reversed(self._running.values()):
            server.stop()


def service_recipe(reference: str, host: str) -> Recipe:
    """The recipe that the function `reference` ("module:name") makes for an address."""
    module, _, name = reference.partition(":")
    made: Recipe = getattr(importlib.import_module(module), name)(host)
    return made
