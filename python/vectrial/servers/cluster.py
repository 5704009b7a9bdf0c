"""A cluster of equal nodes: programs of this machine that are started and ended together."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from vectrial.model.errors import UserError
from vectrial.model.limits import Limits
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import (
    READY_S,
    Clustering,
    Command,
    Node,
    Recipe,
    Server,
    ServerError,
    answers,
    wait_until,
)
from vectrial.servers.inside import Inside
from vectrial.servers.local import Local, exposed
from vectrial.servers.managed_process import HOST, free_ports, share_secrets
from vectrial.servers.namespaces import Relay, no_network
from vectrial.util import interrupts

#: The state of a listening socket in /proc/net/tcp.
_LISTEN = "0A"
#: More nodes than these are a typing error on one machine.
MOST = 64
_POLL_S = 0.05
#: How often ports are drawn until they are as a recipe needs them.
_DRAWS = 100


def clustering(recipe: Recipe, nodes: int) -> Clustering:
    """The way in which servers of this kind form a cluster of so many nodes.

    Raises:
        UserError: they form none, or none of this size.
    """
    if recipe.cluster is None:
        raise UserError(
            f"{recipe.name} runs as one node here: clusters of it are not supported",
            remedy="nodes = 1",
        )
    if not 2 <= nodes <= MOST:
        raise UserError(f"{nodes} nodes are no cluster", remedy=f"from 2 to {MOST}")
    return recipe.cluster


class LocalCluster(Server):
    """Programs from a package registry that form a cluster. All nodes are in one network, and all
    are ended together; see `Local`.

    Args:
        recipe: of a node, with `cluster`. nodes: number of them.
        folder: each node has one in it, `node-1`, ….
        log: where the output of the first node goes, appended; that of the others stands beside
            it. Unless given, each is in its node's folder.
        cores: processors that the nodes share.
        limits: of all nodes together; each gets an equal part.
        progress, inside, allow_exposed: as of `Local`.

    Raises:
        UserError: the recipe forms no cluster of this size.

    members: the nodes with all of their ports; none before the first start.
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
        inside: Inside | None = None,
        allow_exposed: bool = False,
    ) -> None:
        self._recipe, self._how = recipe, clustering(recipe, nodes)
        self._count, self._folder, self._log = nodes, folder.resolve(), log
        self._cores, self._limits, self._progress = tuple(cores), limits, progress
        self._inside, self._allow_exposed = inside, allow_exposed
        self._relay: Relay | None = None
        self.members: tuple[Node, ...] = ()
        self._nodes: dict[str, Local] = {}

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
        self._share_network()
        self._make()
        with ExitStack() as undone:
            undone.callback(self.stop)
            for member, node in zip(self.members, self._nodes.values(), strict=True):
                node.start()
                if member is self.members[0] and self._how.joins:
                    self._wait_for(node, member.ports[self._how.joins])
            undone.pop_all()
        if self._relay is not None:
            public = [node.address.ports for node in self._nodes.values()]
            self._relay.start({str(port): port for ports in public for port in ports.values()})

    def _share_network(self) -> None:
        if self._inside is not None or not self._recipe.exposed or self._relay is not None:
            return
        if (why := no_network()) and not self._allow_exposed:
            raise exposed(self._recipe, why)
        if not why:
            self._relay = Relay()

    def _make(self) -> None:
        """Make the nodes; their ports stay the same when they are made again."""
        if not self.members:
            names = [f"node-{number}" for number in range(1, self._count + 1)]
            self.members = tuple(Node(name, HOST, self._ports()) for name in names)
        for member in self.members:
            folder = self._folder / member.name
            share_secrets(self._folder, folder, self._recipe.generated)
            self._nodes[member.name] = Local(
                replace(self._recipe, command=partial(self._command, member)),
                folder,
                log=self._log_of(member.name),
                cores=self._cores,
                limits=_part(self._limits, self._count),
                progress=self._progress,
                inside=self._inside,
                shared=None if self._relay is None else self._relay.network,
                ports=member.ports,
                allow_exposed=self._allow_exposed,
            )

    def _command(
        self,
        member: Node,
        program: Path,
        folder: Path,
        ports: Mapping[str, int],
        secrets: Mapping[str, str],
    ) -> Command:
        return self._how.command(program, folder, member, self.members, secrets)

    def _ports(self) -> dict[str, int]:
        for _ in range(_DRAWS):
            ports = dict(zip(self._recipe.ports, free_ports(len(self._recipe.ports)), strict=True))
            for first, second in self._how.adjacent:
                ports[second] = ports[first] + 1
            if len(set(ports.values())) == len(ports) and max(ports.values()) < 2**16:
                return ports
        raise ServerError(f"{self._recipe.name}: no free ports")

    def _log_of(self, name: str) -> Path | None:
        if self._log is None or name == "node-1":
            return self._log
        return self._log.with_name(f"{self._log.stem}-{name}{self._log.suffix}")

    def _wait_for(self, node: Local, port: int) -> None:
        """Wait until other nodes can join this one."""
        ends = time.monotonic() + READY_S
        while not any(_listens(pid, port) for pid in node.processes().values()):
            self._check_lives([node])
            if time.monotonic() > ends:
                raise ServerError(f"{self._recipe.name}: no node can join the first one")
            time.sleep(_POLL_S)

    def wait_ready(self, deadline_s: float = READY_S) -> None:
        ends = time.monotonic() + deadline_s
        for node in self._nodes.values():
            node.wait_ready(max(1.0, ends - time.monotonic()))
        left_s = max(1.0, ends - time.monotonic())
        if self._inside is not None:
            self._inside.wait_until(self.address, left_s, self._check_lives)
        else:
            wait_until(self._recipe, self.address, left_s, self._check_lives)

    def _check_lives(self, nodes: Iterable[Local] = ()) -> None:
        """Raise the error of a node that has ended; of any unless they are named."""
        interrupts.check()
        for node in nodes or self._nodes.values():
            if not node.lives():
                raise node.ended()

    def lives(self) -> bool:
        """True if every node lives."""
        return bool(self._nodes) and all(node.lives() for node in self._nodes.values())

    def answers(self) -> bool:
        """True if a node reacts."""
        if self._inside is not None:
            return any(node.answers() for node in self._nodes.values())
        return any(answers(self._recipe, node.address) for node in self._nodes.values())

    def processes(self) -> Mapping[str, int]:
        return {
            name: pid for name, node in self._nodes.items() for pid in node.processes().values()
        }

    def data_dirs(self) -> tuple[Path, ...]:
        return tuple(one for node in self._nodes.values() for one in node.data_dirs())

    def facts(self) -> Mapping[str, Any]:
        """As of a node, whose limits are a part of those of the cluster; and the `nodes`."""
        first = next(iter(self._nodes.values()), None)
        facts = {"provider": "local"} if first is None else first.facts()
        return {**facts, "nodes": self._count, "hosts": "all on this machine"}

    def kill(self) -> None:
        for node in self._nodes.values():
            node.kill()

    def restart(self) -> None:
        self.stop()
        self.start()
        self.wait_ready()

    def stop(self) -> None:
        if self._relay is not None:
            self._relay.stop()
        for node in reversed(self._nodes.values()):
            node.stop()
        if self._relay is not None:
            self._relay.close()
            self._relay = None


def _part(limits: Limits, count: int) -> Limits:
    """The limits of one of so many nodes: all together have as much as one server would."""
    cpus = None if limits.cpus is None else limits.cpus / count
    memory = None if limits.memory_bytes is None else limits.memory_bytes // count
    return Limits(cpus, memory)


def _listens(pid: int, port: int) -> bool:
    """True if something listens on a port in the network of this process."""
    for table in ("tcp", "tcp6"):  # psutil looks at this process's own network
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                if state == _LISTEN and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False
