"""Nodes that are started here and form a cluster: the common part of the providers' clusters."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from vectrial.model.errors import Unsupported
from vectrial.model.faults import Fault
from vectrial.model.placement import Limits
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import READY_S, Recipe, Server, ServerError, wait_until
from vectrial.servers.managed_process import StartedServer
from vectrial.util import interrupts

#: The state of a listening socket in /proc/net/tcp.
_LISTEN = "0A"
_POLL_S = 0.05
#: Seconds for a first node whose sockets are not this machine's to look at.
_UNSEEN_S = 5.0
N = TypeVar("N", bound=StartedServer)


class StartedCluster(Server, Generic[N]):
    """Servers of one kind that form a cluster, and are started and ended together.

    Args:
        recipe, nodes, folder, log, cores, progress: see `LocalCluster`.
        limits: limits of each node.

    provider: its name in facts.
    """

    provider: ClassVar[str]

    def __init__(
        self,
        recipe: Recipe,
        nodes: int,
        folder: Path,
        log: Path | None,
        cores: Sequence[int],
        limits: Limits,
        progress: LineProgress,
    ) -> None:
        self._recipe, self._count, self._folder = recipe, nodes, folder.resolve()
        self._log, self._cores = log, tuple(cores)
        self._limits, self._progress = limits, progress
        self._nodes: dict[str, N] = {}
        self._lost: set[str] = set()

    @abstractmethod
    def _make(self) -> None:
        """Make the nodes, in `_nodes` by their names, and start what they need beside them."""

    @abstractmethod
    def _port(self, name: str) -> int:
        """The first node's port of this name, in its own network."""

    @abstractmethod
    def _pause(self, node: N, *, on: bool) -> None:
        """Make a node stand still, or let it go on."""

    @abstractmethod
    def _cut(self, number: int, *, on: bool) -> None:
        """Cut the link of the node with this number, or mend it."""

    @property
    def address(self) -> Address:
        first, *others = [node.address for node in self._nodes.values()]
        return replace(first, nodes=(first, *others))

    def nodes(self) -> Sequence[Mapping[str, Any]]:
        first, other = ("", "") if self._recipe.cluster is None else self._recipe.cluster.roles
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
        if self.is_alive():
            raise ServerError(f"{self._recipe.name} was started already")
        self._lost.clear()
        with ExitStack() as undone:
            undone.callback(self.stop)
            self._make()
            first, *others = self._nodes.values()
            first.start()
            self._wait_joinable(first)
            for node in others:
                node.start()
            undone.pop_all()

    def _wait_joinable(self, first: N) -> None:
        """Wait until the first node listens at the port through which others join it: some servers
        end if their first attempt fails.

        Raises:
            ServerError: it does not listen in time, or has ended.
        """
        how = self._recipe.cluster
        if how is None or not how.joins:
            return
        port, ends = self._port(how.joins), time.monotonic() + READY_S
        while not any(_listens(pid, port) for pid in first.processes().values()):
            self._check_lives([first])
            if first.is_remote():
                time.sleep(_UNSEEN_S)
                return
            if time.monotonic() > ends:
                raise ServerError(f"{self._recipe.name}: no node can join the first one")
            time.sleep(_POLL_S)

    def _log_of(self, name: str) -> Path | None:
        """The log of a node, beside that of the first one; None: it is in the node's folder."""
        if self._log is None or name == "node-1":
            return self._log
        return self._log.with_name(f"{self._log.stem}-{name}{self._log.suffix}")

    def wait_ready(self, deadline_s: float = READY_S) -> None:
        ends = time.monotonic() + deadline_s
        for node in self._nodes.values():
            node.wait_ready(max(1.0, ends - time.monotonic()))
        self._wait_cluster(max(1.0, ends - time.monotonic()))

    def _wait_cluster(self, deadline_s: float) -> None:
        """Wait until the cluster is ready, whose nodes are."""
        wait_until(self._recipe, self.address, deadline_s, self._check_lives)

    def _check_lives(self, nodes: Iterable[N] = ()) -> None:
        """Raise the error of a node that has ended: one of `nodes` if given, else any."""
        interrupts.check()
        for node in nodes or self._nodes.values():
            if not node.is_alive():
                raise node.ended_error()

    def is_alive(self) -> bool:
        """True if every node lives, apart from those stopped on purpose."""
        there = [node for name, node in self._nodes.items() if name not in self._lost]
        return bool(there) and all(node.is_alive() for node in there)

    def is_answering(self) -> bool:
        """True if a node reacts."""
        return any(node.is_answering() for node in self._nodes.values())

    def processes(self) -> Mapping[str, int]:
        return {
            name: pid for name, node in self._nodes.items() for pid in node.processes().values()
        }

    def data_dirs(self) -> tuple[Path, ...]:
        return tuple(one for node in self._nodes.values() for one in node.data_dirs())

    def facts(self) -> Mapping[str, Any]:
        """Facts about a node, whose limits are its share of the cluster's, and the `nodes`."""
        first = next(iter(self._nodes.values()), None)
        facts = {"provider": self.provider} if first is None else first.facts()
        return {**facts, "nodes": self._count}

    def strike(self, node: int, fault: Fault) -> str:
        name = self._node_name(node, fault)
        self._lost.add(name)
        match fault:
            case Fault.KILL:
                self._nodes[name].kill()
            case Fault.PAUSE:
                self._pause(self._nodes[name], on=True)
            case Fault.CUT:
                self._cut(node, on=True)
        return name

    def mend(self, node: int, fault: Fault) -> str:
        name = self._node_name(node, fault)
        match fault:
            case Fault.KILL:
                self._nodes[name].start()
            case Fault.PAUSE:
                self._pause(self._nodes[name], on=False)
            case Fault.CUT:
                self._cut(node, on=False)
        self._lost.discard(name)
        return name

    def _node_name(self, node: int, fault: Fault) -> str:
        """The name of a node, which may have this fault.

        Raises:
            Unsupported: there is no such node, or it cannot have it here.
        """
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
                self._pause(node, on=False)  # one that stands still cannot be asked to end
            node.stop()


def _listens(pid: int, port: int) -> bool:
    """True if something listens on a port in the network of this process."""
    for table in ("tcp", "tcp6"):  # psutil looks at this process's own network
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                if state == _LISTEN and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False
