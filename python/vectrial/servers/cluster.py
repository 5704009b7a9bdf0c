"""A cluster of equal nodes: programs of this machine that are started and ended together, and of
which one may be lost in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from vectrial.model.errors import Unsupported, UserError
from vectrial.model.faults import Fault
from vectrial.model.placement import MOST_NODES, Limits, LimitShare, limits_of_node
from vectrial.model.placement import Hosts as HostSettings
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import Cluster, Clustering, Command, Node, Recipe, ServerError
from vectrial.servers.hosts import CENTRE, LABEL, RunningHosts
from vectrial.servers.local import Local, exposed_error
from vectrial.servers.managed_process import HOST, free_ports, share_secrets
from vectrial.servers.namespaces import Network, Relay, why_no_network
from vectrial.servers.nodes import StartedCluster
from vectrial.servers.server_network import ServerNetwork
from vectrial.servers.services import ClusterServices

#: Attempts to draw ports that satisfy a recipe.
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


class LocalCluster(StartedCluster[Local]):
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

    provider: ClassVar[str] = "local"

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
        server_network: ServerNetwork | None = None,
        allow_exposed: bool = False,
        hosts: HostSettings | None = None,
        at: str | None = None,
    ) -> None:
        self._how = clustering(recipe, nodes, least=1 if hosts or at else 2)
        share = LimitShare.TOTAL if hosts is None else hosts.limits
        each = limits_of_node(limits, nodes, share)
        super().__init__(recipe, nodes, folder, log, cores, each, progress)
        self._server_network, self._allow_exposed = server_network, allow_exposed
        self._at = at or HOST
        self._settings, self._hosts = hosts, RunningHosts()
        services = self._how.services if nodes > 1 else ()
        self._services = ClusterServices(services, self._folder / "services", self._cores, progress)
        self._relay: Relay | None = None
        self.members: tuple[Node, ...] = ()

    @property
    def address(self) -> Address:
        return replace(super().address, services=self._services.addresses)

    def start(self) -> None:
        super().start()
        if self._relay is not None:
            public = [node.address.ports for node in self._nodes.values()]
            self._relay.start({str(port): port for ports in public for port in ports.values()})

    def _make(self) -> None:
        """See `StartedCluster`. If the nodes are made again, their ports stay the same."""
        self._share_network()
        self._start_services()
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
                server_network=self._server_network,
                shared=self._network_of(number),
                ports=member.ports,
                allow_exposed=self._allow_exposed,
                host=member.host,
            )

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
            centre = None if self._server_network is None else self._server_network.network
            self._hosts.make(centre, self._count, self._settings.link_mbit)
            return
        if self._server_network is not None or not self._recipe.exposed or self._relay is not None:
            return
        if (why := why_no_network()) and not self._allow_exposed:
            raise exposed_error(self._recipe, why)
        if not why:
            self._relay = Relay()

    def _start_services(self) -> None:
        """Start the nodes' services where the nodes and the measuring processes reach them."""
        if self._settings is not None and self._server_network is not None:
            self._services.start(CENTRE, self._server_network.network)
        elif self._server_network is not None:
            self._services.start(HOST, self._server_network.network)
        else:
            self._services.start(HOST, None if self._relay is None else self._relay.network)

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

    def _port(self, name: str) -> int:
        return self.members[0].ports[name]

    def _wait_cluster(self, deadline_s: float) -> None:
        if self._server_network is None:
            super()._wait_cluster(deadline_s)
        else:
            self._server_network.wait_until(self.address, deadline_s, self._check_lives)

    def is_alive(self) -> bool:
        return super().is_alive() and self._services.is_alive()

    def processes(self) -> Mapping[str, int]:
        return {**super().processes(), **self._services.processes()}

    def data_dirs(self) -> tuple[Path, ...]:
        return super().data_dirs() + self._services.data_dirs()

    def facts(self) -> Mapping[str, Any]:
        where = LABEL if self._settings is not None else "all on this machine"
        link = {} if self._settings is None else {"link_mbit": self._settings.link_mbit}
        names = list(self._services.addresses)
        services = {"services": names} if names else {}
        return {**super().facts(), "hosts": where, **link, **services}

    def _pause(self, node: Local, *, on: bool) -> None:
        node.pause(on=on)

    def _cut(self, number: int, *, on: bool) -> None:
        change = self._hosts.cut if on else self._hosts.join
        change(self._hosts.all[number])

    def _node_name(self, node: int, fault: Fault) -> str:
        name = super()._node_name(node, fault)
        if fault is Fault.CUT and not self._hosts.all:
            raise Unsupported("its nodes share a network: only one on a host can be cut off")
        return name

    def pause(self, *, on: bool) -> None:
        """Pause or resume all nodes, and the services that they need."""
        for node in self._nodes.values():
            node.pause(on=on)
        self._services.pause(on=on)

    def kill(self) -> None:
        """Kill all nodes, and the services that they need."""
        super().kill()
        self._services.kill()

    def stop(self) -> None:
        if self._relay is not None:
            self._relay.stop()
        super().stop()
        self._services.stop()
        self._hosts.close()
        if self._relay is not None:
            self._relay.close()
            self._relay = None
