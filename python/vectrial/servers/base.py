"""The one interface through which a store's server is run.

A server comes from a provider: `external`, whose address is given and which is never started or
stopped here, or `local`, a program that runs on this machine for as long as it is needed
(`vectrial.servers.local`). A `Recipe` describes one kind of server.
"""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from vectrial.model.availability import Availability
from vectrial.model.errors import Unsupported, VectrialError
from vectrial.model.faults import Fault
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.reaction import is_any_reacting

#: Seconds that a server may take until it answers.
READY_S = 300.0


#: Seconds that a server somebody else runs may take: it should be there.
_EXTERNAL_S = 10.0
_UNKNOWN = "not known: it runs elsewhere"


class ServerError(VectrialError):
    """A server could not be obtained, started or reached; the message ends with its log's tail."""


class NoProgram(ServerError):
    """A server's program is not available on this machine; the message gives reason and remedy."""


class AccessRefused(ServerError):
    """A server answers and refuses access; the message names the secret that may be wrong."""


class NotReady(Exception):
    """A server is not ready yet; the message gives the reason. Raised by `Recipe.ready`, which is
    called until the deadline."""


@dataclass(frozen=True)
class Command:
    """A command to execute. Under root it runs as another user; see `vectrial.servers.account`.

    argv: the program and its arguments. Every user of the machine can see them: no secrets.
    env: variables beyond those that every server gets (`vectrial.util.child_environment`).
    first: a command that runs to completion before the program's first start in a folder.
    needs: files and folders that it reads outside its installation and the system's.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    needs: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Node:
    """A node of a cluster, as the commands of all nodes see it.

    name: unique in the cluster. ports: see `Recipe.ports`.
    """

    name: str
    host: str
    ports: Mapping[str, int]


@dataclass(frozen=True)
class Cluster:
    """The cluster, as a node's command sees it.

    secrets: shared by all nodes. services: addresses of the cluster's services by name.
    """

    nodes: Sequence[Node]
    secrets: Mapping[str, str]
    services: Mapping[str, Address] = field(default_factory=dict)


@dataclass(frozen=True)
class Clustering:
    """The way in which servers of one kind form a cluster.

    command: makes the command of one node, in its own folder. For a cluster of one, it is a single
        server's command that listens at the node's address.
    services: other servers that the nodes need, in starting order. Each is a function, as
        "module:name", that makes its recipe for its address. A cluster of one has none.
    adjacent: pairs of ports of which the second is the first plus one.
    joins: the first node's port that must listen before other nodes start; empty if nodes may start
        in any order.
    roles: names for the role of the first node and of the others; both empty if all are equal.
    """

    command: Callable[[Path, Path, Node, Cluster], Command]
    services: tuple[str, ...] = ()
    adjacent: tuple[tuple[str, str], ...] = ()
    joins: str = ""
    roles: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Image:
    """The official container image of a kind of server.

    name, tag: the image's reference; digest: "sha256:…" if known, which then takes precedence.
    ports: ports that listen inside the container, by the recipe's public ports.
    data: the data folder inside the container, mounted from a folder of ours.
    env, argv: variables, and arguments after the image on the command line.
    options: further options of `docker run` ("--shm-size=1g").
    generated: secrets made anew for each container started here → the environment variables that
        hold them.
    node: makes the variables and arguments of a cluster node, whose ports are those of `ports`;
        None if clusters do not run in containers. `ports` then also names the ports between nodes.
    """

    name: str
    tag: str
    digest: str | None
    ports: Mapping[str, int]
    data: str
    env: Mapping[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    generated: Mapping[str, str] = field(default_factory=dict)
    node: Callable[[Node, Cluster], Command] | None = None

    @property
    def reference(self) -> str:
        """The image's name, tag and digest, as on a command line."""
        return f"{self.name}:{self.tag}" + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True)
class Recipe:
    """The program, ports, command and readiness check of a kind of server.

    name: used in messages and file names.
    program: finds the program, fetching it once if necessary, and returns its path; raises
        `NoProgram`.
    availability: says whether the program is here already; if not, what fetching it would do, or
        why it would fail.
    ports: names of the ports that listen; all get free ports of this machine.
    public: the ports that clients use and that an external address must name.
    command: makes the program's command, for an existing folder of the server's own, these ports
        and the generated secrets.
    ready: returns once the server answers through its own API. Raises `NotReady` if it does not
        yet, `AccessRefused` if it rejects the secrets. Each call takes a few seconds at most.
    secrets: names of what the server may ask for, read from the environment if it is external.
    generated: the secrets that a program started here gets, made anew for each folder. They must
        not go on its command line, which other users can see.
    tls: clients and `ready` connect under TLS if the address says so.
    exposed: the program listens on every interface, whatever its settings. It runs in a network of
        its own, or not at all unless the user allows that.
    stop_s: how long a graceful stop may take.
    stop_signal: the signal that requests a graceful stop.
    cluster: how servers of this kind form a cluster; None if they do not. `ready` then waits until
        the cluster has as many nodes as `Address.nodes`.
    image: how the provider `docker` runs it; None if it does not.
    snippet: a few lines of Python that connect with the official client, with {host} and the names
        of public ports in braces; other braces are doubled.
    """

    name: str
    program: Callable[[LineProgress], Path]
    availability: Callable[[], Availability]
    ports: tuple[str, ...]
    public: tuple[str, ...]
    command: Callable[[Path, Path, Mapping[str, int], Mapping[str, str]], Command]
    ready: Callable[[Address], None]
    secrets: tuple[str, ...] = ()
    generated: tuple[str, ...] = ()
    tls: bool = False
    exposed: bool = False
    stop_s: float = 20.0
    stop_signal: signal.Signals = signal.SIGTERM
    cluster: Clustering | None = None
    image: Image | None = None
    snippet: str = ""


class Server(ABC):
    """A server behind a store. As a context manager it starts, waits until ready, and stops.

    Methods are called from one thread.
    """

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_ready()
        except Exception:
            self.stop()
            raise
        except BaseException:  # Ctrl-C: nobody waits for a gentle end
            self.abandon()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.abandon()
        else:
            self.stop()

    @property
    @abstractmethod
    def address(self) -> Address:
        """The address of a started server."""

    @abstractmethod
    def start(self) -> None:
        """Start the server, on the data in its folder if there is any. Returns before it is ready.

        Raises:
            ServerError: it cannot be obtained or executed here.
        """

    @abstractmethod
    def wait_ready(self, deadline_s: float = READY_S) -> None:
        """Block until the server answers through its own API.

        Raises:
            ServerError: it ended, or did not answer in time; with the tail of its log.
        """

    @abstractmethod
    def is_alive(self) -> bool:
        """True if a started server has not ended. A server that runs elsewhere is assumed to
        live."""

    @abstractmethod
    def is_answering(self) -> bool:
        """True if the server reacts now, even if only to say that it is busy or refuses access.
        Without a reaction this takes about ten seconds. Any thread may call it."""

    def strike(self, node: int, fault: Fault) -> str:
        """Inject a fault into a node of a cluster; returns the node's name.

        Args:
            node: its number, from 0.

        Raises:
            Unsupported: there is no such node, or this fault cannot be injected here.
        """
        raise Unsupported("it has no nodes that could be lost")

    def mend(self, node: int, fault: Fault) -> str:
        """End a fault that `strike` injected; returns the node's name, before the node is ready."""
        raise Unsupported("it has no nodes that could be lost")

    def pause(self, *, on: bool) -> None:
        """Pause all of the server's processes, or resume them.

        Raises:
            Unsupported: the processes are not ours.
        """
        raise Unsupported("its processes cannot be made to stand still")

    def limit_memory(self, limit_bytes: int | None) -> None:
        """Change the memory that the server may use while it runs. None restores the original
        limit.

        Raises:
            Unsupported: it was started without such a limit, or uses more that cannot be reclaimed.
        """
        raise Unsupported("the memory of this kind of server cannot be changed while it runs")

    def abandon(self) -> None:
        """Kill the server at once because its data will be discarded. A server that runs elsewhere
        is left alone."""
        with suppress(Unsupported):
            self.kill()
        self.stop()

    def nodes(self) -> Sequence[Mapping[str, Any]]:
        """Nodes of a cluster started here: name, role (empty if all are equal), host, public ports,
        log and data folder of each."""
        return ()

    @abstractmethod
    def processes(self) -> Mapping[str, int]:
        """Process ids on this machine by name, for telemetry; empty if the server runs elsewhere.
        Each stands for the process and its descendants."""

    @abstractmethod
    def data_dirs(self) -> tuple[Path, ...]:
        """Folders on this machine that hold the server's data; empty if it runs elsewhere."""

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """Facts for the results, without secrets: `provider` and `program`. For a server started
        here also `limits`, and `cpus` if processor time is limited."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the server at once, as a crash would. Its data stays."""

    @abstractmethod
    def restart(self) -> None:
        """Stop the server if it runs, restart it on the same data and ports, and await it."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server and everything it started, gently first. Its data stays. Calling it twice
        is harmless."""


class External(Server):
    """A server that somebody else runs: reached, never started, stopped or measured."""

    def __init__(self, recipe: Recipe, address: Address) -> None:
        self._recipe, self._address = recipe, address

    @property
    def address(self) -> Address:
        return self._address

    def start(self) -> None:
        """Do nothing: the server runs already."""

    def wait_ready(self, deadline_s: float = READY_S) -> None:
        """Wait until the server is ready; for a cluster, until every node is."""
        deadline_s = min(deadline_s, _EXTERNAL_S)
        for node in self._address.nodes or (self._address,):
            at = replace(node, nodes=self._address.nodes)
            try:
                wait_until(self._recipe, at, deadline_s, check_alive=lambda: None)
            except AccessRefused:
                raise
            except ServerError as error:
                what = f"{error}; is it {self._recipe.name} that listens there?"
                raise ServerError(what) from error

    def is_alive(self) -> bool:
        return True

    def is_answering(self) -> bool:
        return is_answering(self._recipe, self._address)

    def processes(self) -> Mapping[str, int]:
        return {}

    def data_dirs(self) -> tuple[Path, ...]:
        return ()

    def facts(self) -> Mapping[str, Any]:
        return {"provider": "external", "program": f"at {self._address.host}", "limits": _UNKNOWN}

    def kill(self) -> None:
        raise Unsupported(f"the {self._recipe.name} server is not ours to kill")

    def restart(self) -> None:
        raise Unsupported(f"the {self._recipe.name} server is not ours to restart")

    def stop(self) -> None:
        """Do nothing: the server is not ours to stop."""


def wait_until(
    recipe: Recipe, address: Address, deadline_s: float, check_alive: Callable[[], None]
) -> None:
    """Wait until the server is ready.

    check_alive: called before each attempt; raises `ServerError` if waiting is hopeless.

    Raises:
        ServerError: it was not ready within `deadline_s` seconds.
    """
    import time

    ends = time.monotonic() + deadline_s
    pause_s = 0.02
    while True:
        check_alive()
        try:
            recipe.ready(address)
        except NotReady as lack:
            if time.monotonic() >= ends:
                ports = ", ".join(f"{name} {port}" for name, port in address.ports.items())
                raise ServerError(
                    f"{recipe.name} at {address.host} ({ports}) was not ready within "
                    f"{deadline_s:g} s: {lack}"
                ) from lack
        else:
            return
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.5)


def is_answering(recipe: Recipe, address: Address) -> bool:
    """True if a server reacts: it is ready, refuses us, or says on a port that it is not ready."""
    try:
        recipe.ready(address)
    except NotReady:
        return is_any_reacting(address.host, address.ports.values())
    except VectrialError:
        return True  # it answered: that it does not let us in, or lacks something
    return True
