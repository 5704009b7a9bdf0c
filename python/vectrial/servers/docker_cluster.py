"""A cluster in containers: the official image, one for each node, on a network of its own."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from vectrial.model.errors import Unsupported, UserError
from vectrial.model.faults import Fault
from vectrial.model.hosts import limits_of_node
from vectrial.model.limits import Limits
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import (
    READY_S,
    Cluster,
    Node,
    Recipe,
    Server,
    ServerError,
    wait_until,
)
from vectrial.servers.docker import LABEL, ContainerPlace, Docker, ask, image_of, owner, pull
from vectrial.servers.joining import wait_joinable
from vectrial.servers.managed_process import make_secrets, share_secrets
from vectrial.util import interrupts

#: Attempts to find a range of addresses that no other network has.
_DRAWS = 20
#: The first address of a node in its network; lower ones are the engine's.
_FIRST = 11


class DockerCluster(Server):
    """Containers of a recipe's image that form a cluster; see `Docker`. The network is removed with
    the last container.

    Args:
        recipe, nodes, folder, log, cores, limits, progress: see `LocalCluster`.

    Raises:
        UserError: it is not known how containers of this image form a cluster.
    """

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
        self._recipe, self._count, self._folder = recipe, nodes, folder.resolve()
        self._log, self._cores, self._progress = log, tuple(cores), progress
        self._limits = limits_of_node(limits, nodes)
        self._network = ""
        self._nodes: dict[str, Docker] = {}
        self._lost: set[str] = set()

    @property
    def address(self) -> Address:
        first, *others = [node.address for node in self._nodes.values()]
        return replace(first, nodes=(first, *others))

    def nodes(self) -> Sequence[Mapping[str, Any]]:
        return [
            {
                "name": name,
                "host": node.address.host,
                "ports": dict(node.address.ports),
                "log": str(node.log),
                "data": str(*node.data_dirs()),
            }
            for name, node in self._nodes.items()
        ]

    def start(self) -> None:
        if self.lives():
            raise ServerError(f"{self._recipe.name} was started already")
        pull(self._recipe, self._progress)
        self._lost.clear()
        with ExitStack() as undone:
            undone.callback(self.stop)
            self._network, prefix = _make_network()
            names = [f"node-{number}" for number in range(1, self._count + 1)]
            made = make_secrets(self._folder, tuple(self._image.generated))
            members = [
                Node(name, f"{prefix}.{_FIRST + at}", self._image.ports)
                for at, name in enumerate(names)
            ]
            for member in members:
                self._make(member, Cluster(members, made))
            first, *others = self._nodes.values()
            first.start()
            self._wait_joinable(first)
            for node in others:
                node.start()
            undone.pop_all()

    def _wait_joinable(self, first: Docker) -> None:
        how = self._recipe.cluster
        if how is None or not how.joins:
            return
        port = self._image.ports[how.joins]
        wait_joinable(
            self._recipe, first, port, lambda: self._check_lives([first]), first.elsewhere
        )

    def _make(self, member: Node, cluster: Cluster) -> None:
        folder = self._folder / member.name
        share_secrets(self._folder, folder, tuple(self._image.generated))
        log = self._log
        if log is not None and member != cluster.nodes[0]:
            log = log.with_name(f"{log.stem}-{member.name}{log.suffix}")
        assert self._image.node is not None, "the constructor looked"
        self._nodes[member.name] = Docker(
            self._recipe,
            folder,
            log=log,
            cores=self._cores,
            limits=self._limits,
            progress=self._progress,
            place=ContainerPlace(self._network, member.host, self._image.node(member, cluster)),
        )

    def wait_ready(self, deadline_s: float = READY_S) -> None:
        ends = time.monotonic() + deadline_s
        for node in self._nodes.values():
            node.wait_ready(max(1.0, ends - time.monotonic()))
        left_s = max(1.0, ends - time.monotonic())
        wait_until(self._recipe, self.address, left_s, self._check_lives)

    def _check_lives(self, nodes: Sequence[Docker] = ()) -> None:
        """Raise the error of a node that has ended: one of `nodes` if given, else any."""
        interrupts.check()
        for node in nodes or self._nodes.values():
            if not node.lives():
                raise node.ended()

    def lives(self) -> bool:
        """True if every node lives, apart from those stopped on purpose."""
        there = [node for name, node in self._nodes.items() if name not in self._lost]
        return bool(there) and all(node.lives() for node in there)

    def answers(self) -> bool:
        """True if a node reacts."""
        return any(node.answers() for node in self._nodes.values())

    def processes(self) -> Mapping[str, int]:
        return {
            name: pid for name, node in self._nodes.items() for pid in node.processes().values()
        }

    def data_dirs(self) -> tuple[Path, ...]:
        return tuple(one for node in self._nodes.values() for one in node.data_dirs())

    def facts(self) -> Mapping[str, Any]:
        first = next(iter(self._nodes.values()), None)
        facts = {"provider": "docker"} if first is None else first.facts()
        return {**facts, "nodes": self._count, "hosts": "containers on one machine"}

    def strike(self, node: int, fault: Fault) -> str:
        name = self._named(node)
        self._lost.add(name)
        match fault:
            case Fault.KILL:
                self._nodes[name].kill()
            case Fault.PAUSE:
                ask("pause", self._nodes[name].container)
            case Fault.CUT:
                ask("network", "disconnect", self._network, self._nodes[name].container)
        return name

    def mend(self, node: int, fault: Fault) -> str:
        name = self._named(node)
        one = self._nodes[name]
        match fault:
            case Fault.KILL:
                one.start()
            case Fault.PAUSE:
                ask("unpause", one.container)
            case Fault.CUT:
                assert one.place is not None, "it has a place in the network"
                ask("network", "connect", "--ip", one.place.address, self._network, one.container)
        self._lost.discard(name)
        return name

    def _named(self, node: int) -> str:
        if not 0 <= node < len(self._nodes):
            raise Unsupported(f"it has {len(self._nodes)} nodes: there is none of number {node}")
        return list(self._nodes)[node]

    def kill(self) -> None:
        for node in self._nodes.values():
            node.kill()

    def restart(self) -> None:
        self.stop()
        self.start()
        self.wait_ready()

    def stop(self) -> None:
        for name, node in reversed(self._nodes.items()):
            if name in self._lost:
                ask("unpause", node.container)
            node.stop()
        if self._network:
            ask("network", "rm", self._network)
            self._network = ""


def _make_network() -> tuple[str, str]:
    """Make a container network with addresses that no other network has. Returns its name, and the
    first three numbers of its addresses.

    Raises:
        ServerError: the engine makes no network.
    """
    name = owner("net")
    for _ in range(_DRAWS):
        prefix = f"10.{random.randrange(64, 128)}.{random.randrange(256)}"
        labels = ("--label", f"{LABEL}={name.split('-')[2]}")
        if ask("network", "create", *labels, "--subnet", f"{prefix}.0/24", name):
            return name, prefix
    raise ServerError("the container engine makes no network for a cluster")
