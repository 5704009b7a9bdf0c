"""A cluster of equal nodes: programs of this machine that are started and ended together, and of
which one may be lost in between."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from vectrial.model.errors import Unsupported, UserError
from vectrial.model.faults import Fault
from vectrial.model.hosts import MOST_NODES, LimitShare, limits_of_node
from vectrial.model.hosts import Hosts as HostSettings
from vectrial.model.limits import Limits
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import (
    READY_S,
    Cluster,
    Clustering,
    Command,
    Node,
    Recipe,
    Server,
    ServerError,
    wait_until,
)
from vectrial.servers.hosts import CENTRE, LABEL, RunningHosts
from vectrial.servers.inside import Inside
from vectrial.servers.joining import wait_joinable
from vectrial.servers.local import Local, exposed
from vectrial.servers.managed_process import HOST, free_ports, share_secrets
from vectrial.servers.namespaces import Network, Relay, no_network
from vectrial.servers.services import Services
from vectrial.util import interrupts

#: How often ports are drawn until they are as a recipe needs them.
_DRAWS = 100


def clustering(recipe: Recipe, nodes: int, least: int = 2) -> Clustering:
    """The way in which servers of this kind form a cluster of `nodes` nodes, at least `least`.

    Raises:
        UserError: they form no cluster, or none of this size.
    """
    if recipe.cluster is None:
        raise UserError(
            f"{recipe.name} runs as one node here: clusters of it are not supported",
            remedy="nodes = 1",
        )
    if not least <= nodes <= MOST_NODES:
        raise UserError(f"{nodes} nodes are no cluster", remedy=f"from {least} to {MOST_NODES}")
    return recipe.cluster


class LocalCluster(Server):
    """Programs from a package registry that form a cluster; see `Local`. Nodes share one network or
    have a host each, and are started and ended together.

    Args:
        recipe: a node's recipe, with `cluster`. nodes: number of nodes.
        folder: holds a folder for each node, `node-1`, ….
        log: file to which the first node's output is appended; the other nodes' logs stand beside
            it. By default each log is in its node's folder.
        cores: processors that the nodes share.
        limits: limits of all nodes together, divided equally; or see `hosts`.
        progress, inside, allow_exposed: see `Local`.
        hosts: each node gets a host of its own (`vectrial.servers.hosts`), even a single node.
        at: the address of this machine at which the nodes listen for other machines; loopback by
            default. Only with `allow_exposed`.

    Raises:
        UserError: the recipe forms no cluster of this size.

    members: the nodes with all of their ports; empty before the first start.
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
        hosts: HostSettings | None = None,
        at: str | None = None,
    ) -> None:
        self._recipe, self._how = recipe, clustering(recipe, nodes, least=1 if hosts or at else 2)
        self._count, self._folder, self._log = nodes, folder.resolve(), log
        self._cores, self._progress = tuple(cores), progress
        self._limits = limits_of_node(
            limits, nodes, LimitShare.TOTAL if hosts is None else hosts.limits
        )
        self._inside, self._allow_exposed = inside, allow_exposed
        self._at = at or HOST
        self._settings, self._hosts = hosts, RunningHosts()
        services = self._how.services if nodes > 1 else ()
        self._services = Services(services, self._folder / "services", self._cores, progress)
        self._relay: Relay | None = None
        self.members: tuple[Node, ...] = ()
        self._nodes: dict[str, Local] = {}
        self._lost: set[str] = set()

    @property
    def address(self) -> Address:
        first, *others = [node.address for node in self._nodes.values()]
        return replace(first, nodes=(first, *others), services=self._services.addresses)

    def nodes(self) -> Sequence[Mapping[str, Any]]:
        first, other = self._how.roles
        return [
            {
                "name": name,
                "role": other if number else first,
                "host": node.address.host,
                "ports": dict(node.address.ports),
                "log": str(node.log),
                "data": str(*node.data_dirs()),
            }
            for number, (name, node) in enumerate(self._nodes.items())
        ]

    def start(self) -> None:
        if self.lives():
            raise ServerError(f"{self._recipe.name} was started already")
        self._lost.clear()
        with ExitStack() as undone:
            undone.callback(self.stop)
            self._share_network()
            self._start_services()
            self._make()
            first = next(iter(self._nodes.values()))
            for member, node in zip(self.members, self._nodes.values(), strict=True):
                node.start()
                if member is self.members[0] and self._how.joins:
                    wait_joinable(
                        self._recipe,
                        node,
                        member.ports[self._how.joins],
                        lambda: self._check_lives([first]),
                    )
            undone.pop_all()
        if self._relay is not None:
            public = [node.address.ports for node in self._nodes.values()]
            self._relay.start({str(port): port for ports in public for port in ports.values()})

    def _share_network(self) -> None:
        if self._at != HOST:
            if not self._allow_exposed:
                raise UserError(
                    f"other machines shall reach the server of {self._recipe.name}, and so would"
                    " others on the network",
                    remedy="--allow-exposed, where only you can reach that network",
                )
            return
        if self._settings is not None:
            centre = None if self._inside is None else self._inside.network
            self._hosts.make(centre, self._count, self._settings.link_mbit)
            return
        if self._inside is not None or not self._recipe.exposed or self._relay is not None:
            return
        if (why := no_network()) and not self._allow_exposed:
            raise exposed(self._recipe, why)
        if not why:
            self._relay = Relay()

    def _start_services(self) -> None:
        """Start the nodes' services where the nodes and the measuring processes reach them."""
        if self._settings is not None and self._inside is not None:
            self._services.start(CENTRE, self._inside.network)
        elif self._inside is not None:
            self._services.start(HOST, self._inside.network)
        else:
            self._services.start(HOST, None if self._relay is None else self._relay.network)

    def _make(self) -> None:
        """Make the nodes. If they are made again, their ports stay the same."""
        if not self.members:
            hosts = [host.address for host in self._hosts.all] or [self._at] * self._count
            # On hosts of their own all have the same, as some servers expect.
            same = self._ports() if self._hosts.all else None
            self.members = tuple(
                Node(f"node-{number}", host, same or self._ports())
                for number, host in enumerate(hosts, 1)
            )
        for number, member in enumerate(self.members):
            folder = self._folder / member.name
            share_secrets(self._folder, folder, self._recipe.generated)
            self._nodes[member.name] = Local(
                replace(self._recipe, command=partial(self._command, member)),
                folder,
                log=self._log_of(member.name),
                cores=self._cores,
                limits=self._limits,
                progress=self._progress,
                inside=self._inside,
                shared=self._network_of(number),
                ports=member.ports,
                allow_exposed=self._allow_exposed,
                host=member.host,
            )

    def _network_of(self, number: int) -> Network | None:
        if self._hosts.all:
            return self._hosts.all[number].network
        return None if self._relay is None else self._relay.network

    def _command(
        self,
        member: Node,
        program: Path,
        folder: Path,
        ports: Mapping[str, int],
        secrets: Mapping[str, str],
    ) -> Command:
        cluster = Cluster(self.members, secrets, self._services.addresses)
        return self._how.command(program, folder, member, cluster)

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
        """Raise the error of a node that has ended: one of `nodes` if given, else any."""
        interrupts.check()
        for node in nodes or self._nodes.values():
            if not node.lives():
                raise node.ended()

    def lives(self) -> bool:
        """True if every node lives, apart from those stopped on purpose."""
        there = [node for name, node in self._nodes.items() if name not in self._lost]
        return bool(there) and all(node.lives() for node in there) and self._services.lives()

    def answers(self) -> bool:
        """True if a node reacts."""
        return any(node.answers() for node in self._nodes.values())

    def processes(self) -> Mapping[str, int]:
        nodes = {
            name: pid for name, node in self._nodes.items() for pid in node.processes().values()
        }
        return {**nodes, **self._services.processes()}

    def data_dirs(self) -> tuple[Path, ...]:
        nodes = tuple(one for node in self._nodes.values() for one in node.data_dirs())
        return nodes + self._services.data_dirs()

    def facts(self) -> Mapping[str, Any]:
        """Facts about a node, whose limits are its share of the cluster's, and the `nodes`."""
        first = next(iter(self._nodes.values()), None)
        facts = {"provider": "local"} if first is None else first.facts()
        where = LABEL if self._settings is not None else "all on this machine"
        link = {} if self._settings is None else {"link_mbit": self._settings.link_mbit}
        names = list(self._services.addresses)
        services = {"services": names} if names else {}
        return {**facts, "nodes": self._count, "hosts": where, **link, **services}

    def strike(self, node: int, fault: Fault) -> str:
        name = self._named(node, fault)
        self._lost.add(name)
        match fault:
            case Fault.KILL:
                self._nodes[name].kill()
            case Fault.PAUSE:
                self._nodes[name].pause(on=True)
            case Fault.CUT:
                self._hosts.cut(self._hosts.all[node])
        return name

    def mend(self, node: int, fault: Fault) -> str:
        name = self._named(node, fault)
        match fault:
            case Fault.KILL:
                self._nodes[name].start()
            case Fault.PAUSE:
                self._nodes[name].pause(on=False)
            case Fault.CUT:
                self._hosts.join(self._hosts.all[node])
        self._lost.discard(name)
        return name

    def _named(self, node: int, fault: Fault) -> str:
        if not 0 <= node < len(self.members):
            raise Unsupported(f"it has {len(self.members)} nodes: there is none of number {node}")
        if fault is Fault.CUT and not self._hosts.all:
            raise Unsupported("its nodes share a network: only one on a host can be cut off")
        return self.members[node].name

    def pause(self, *, on: bool) -> None:
        """Pause or resume all nodes, and the services that they need."""
        for node in self._nodes.values():
            node.pause(on=on)
        self._services.pause(on=on)

    def kill(self) -> None:
        """Kill all nodes, and the services that they need."""
        for node in self._nodes.values():
            node.kill()
        self._services.kill()

    def restart(self) -> None:
        self.stop()
        self.start()
        self.wait_ready()

    def stop(self) -> None:
        if self._relay is not None:
            self._relay.stop()
        for name, node in reversed(self._nodes.items()):
            if name in self._lost:
                node.pause(on=False)  # one that stands still cannot be asked to end
            node.stop()
        self._services.stop()
        self._hosts.close()
        if self._relay is not None:
            self._relay.close()
            self._relay = None
