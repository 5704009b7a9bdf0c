"""A cluster in containers: the official image, one for each node, on a network of its own."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from vectrial.model.errors import UserError
from vectrial.model.placement import Limits, limits_of_node
from vectrial.model.progress import LineProgress
from vectrial.servers.base import Cluster, Node, Recipe, ServerError
from vectrial.servers.docker import (
    LABEL,
    ContainerPlace,
    Docker,
    ask_engine,
    image_of,
    pull,
    unique_name,
)
from vectrial.servers.managed_process import make_secrets, share_secrets
from vectrial.servers.nodes import StartedCluster

#: Attempts to find a range of addresses that no other network has.
_DRAWS = 20
#: The first address of a node in its network; lower ones are the engine's.
_FIRST = 11


class DockerCluster(StartedCluster[Docker]):
    """Containers of a recipe's image that form a cluster; see `Docker`. The network is removed with
    the last container.

    Args:
        recipe, nodes, folder, log, cores, limits, progress: see `LocalCluster`.

    Raises:
        UserError: it is not known how containers of this image form a cluster.
    """

    provider: ClassVar[str] = "docker"

    def __init__(
        self,
        recipe: Recipe,
        nodes: int,
        folder: Path,
        *,
        log: Path | None = None,
        cores: Sequence[int] = (),
        limits: Limits = Limits(),  # noqa: B008 - frozen
        progress: LineProgress = lambda line: None,
    ) -> None:
        self._image = image_of(recipe)
        if self._image.node is None:
            raise UserError(
                f"clusters of {recipe.name} are not run in containers", remedy="--provider local"
            )
        each = limits_of_node(limits, nodes)
        super().__init__(recipe, nodes, folder, log, cores, each, progress)
        self._network = ""

    def _make(self) -> None:
        pull(self._recipe, self._progress)
        self._network, prefix = _make_network()
        names = tuple(self._image.generated)
        members = [
            Node(f"node-{number + 1}", f"{prefix}.{_FIRST + number}", self._image.ports)
            for number in range(self._count)
        ]
        cluster = Cluster(members, make_secrets(self._folder, names))
        for member in members:
            folder = self._folder / member.name
            share_secrets(self._folder, folder, names)
            assert self._image.node is not None, "the constructor looked"
            self._nodes[member.name] = Docker(
                self._recipe,
                folder,
                log=self._log_of(member.name),
                cores=self._cores,
                limits=self._limits,
                progress=self._progress,
                place=ContainerPlace(self._network, member.host, self._image.node(member, cluster)),
            )

    def _port(self, name: str) -> int:
        return self._image.ports[name]

    def facts(self) -> Mapping[str, Any]:
        return {**super().facts(), "hosts": "containers on one machine"}

    def _pause(self, node: Docker, *, on: bool) -> None:
        ask_engine("pause" if on else "unpause", node.container)

    def _cut(self, number: int, *, on: bool) -> None:
        node = list(self._nodes.values())[number]
        assert node.place is not None, "it has a place in the network"
        if on:
            ask_engine("network", "disconnect", self._network, node.container)
        else:
            ask_engine(
                "network", "connect", "--ip", node.place.address, self._network, node.container
            )

    def stop(self) -> None:
        super().stop()
        if self._network:
            ask_engine("network", "rm", self._network)
            self._network = ""


def _make_network() -> tuple[str, str]:
    """Make a container network with addresses that no other network has. Returns its name, and the
    first three numbers of its addresses.

    Raises:
        ServerError: the engine makes no network.
    """
    name = unique_name("net")
    for _ in range(_DRAWS):
        prefix = f"10.{random.randrange(64, 128)}.{random.randrange(256)}"
        labels = ("--label", f"{LABEL}={name.split('-')[2]}")
        if ask_engine("network", "create", *labels, "--subnet", f"{prefix}.0/24", name):
            return name, prefix
    raise ServerError("the container engine makes no network for a cluster")
