"""The one interface through which a store's server is run.

A server is had from a provider: `external`, whose address is given and which is never started or
stopped here, or `local`, a program that runs on this machine for as long as it is needed
(`vectrial.servers.local`). What differs from one kind of server to the next is a `Recipe`.
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
from vectrial.servers.reaction import any_reacts

#: Seconds that a server may take until it answers.
READY_S = 300.0


#: Seconds that a server somebody else runs may take: it should be there.
_EXTERNAL_S = 10.0
_UNKNOWN = "not known: it runs elsewhere"


class ServerError(VectrialError):
    """A server could not be had, started or reached; the message ends with its log's tail."""


class NoProgram(ServerError):
    """A server's program cannot be had on this machine; the message says why, and the remedy."""


class Refused(ServerError):
    """A server answers and refuses access; the message names the secret that may be wrong."""


class NotReady(Exception):
    """A server is not ready yet; the message gives the reason. Raised by `Recipe.ready`, which is
    called until the deadline."""


@dataclass(frozen=True)
class Command:
    """A command to execute; as root it runs as another user, see `vectrial.servers.account`.

    argv: the program and its arguments. Every user of the machine can see them: no secrets.
    env: variables beside those that every server gets (`vectrial.util.child_environment`).
    first: a command that runs to its end before the program starts in a folder for the first time.
    needs: files and folders that it reads beside its installation and the system's.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    needs: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Node:
    """A node of a cluster, as the commands of all nodes see it.

    name: within the cluster. ports: as of `Recipe.ports`.
    """

    name: str
    host: str
    ports: Mapping[str, int]


@dataclass(frozen=True)
class Cluster:
    """What the command of a node knows of its cluster.

    secrets: those that all nodes share. services: addresses of the cluster's services by name.
    """

    nodes: Sequence[Node]
    secrets: Mapping[str, str]
    services: Mapping[str, Address] = field(default_factory=dict)


@dataclass(frozen=True)
class Clustering:
    """The way in which servers of one kind form a cluster.

    command: of one node, in a folder of its own. Of a cluster of one it is that of a server alone,
        which listens at the node's address.
    services: other servers that the nodes need, in the order in which they are started: of each
        the function, as "module:name", that makes its recipe for the address it listens at. A
        cluster of one has none.
    adjacent: pairs of ports of which the second is the first plus one.
    joins: the port of the first node that listens before another node is started; empty if nodes
        may start in any order.
    roles: in words, of the first node and of the others; both empty where all are equal.
    """

    command: Callable[[Path, Path, Node, Cluster], Command]
    services: tuple[str, ...] = ()
    adjacent: tuple[tuple[str, str], ...] = ()
    joins: str = ""
    roles: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Image:
    """The official container image of a kind of server.

    name, tag: as an engine pulls it; digest: "sha256:…" where it is known, which then decides.
    ports: of the recipe's public ports, those that listen inside.
    data: the folder inside that holds its data, and is one of ours outside.
    env, argv: variables, and what comes after the image on the command line.
    options: further ones of `docker run` ("--shm-size=1g").
    generated: secrets that a container started here gets, made anew for each, with the variables
        of its environment that hold them.
    node: variables and arguments of a node of a cluster, whose ports are those of `ports`; None:
        clusters of it are not run in containers. `ports` then names those that nodes use, too.
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
        """As on a command line: name, tag and digest."""
        return f"{self.name}:{self.tag}" + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True)
class Recipe:
    """The program, ports, command and readiness of a kind of server.

    name: as in messages and names of files.
    program: fetches or finds what is executed, once, and says where it is; raises `NoProgram`.
    at_hand: whether `program` needs nothing but to look, and else what it would do, or why it
        cannot be had here.
    ports: what listens, by name; all get free ports of this machine.
    public: those that clients use, and that an external address has to name.
    command: of the program, in a folder that is the server's own and exists, with these ports and
        the generated secrets.
    ready: returns when the server answers through its own API, raises `NotReady` when it does
        not yet, `Refused` when it does not accept the secrets; each call takes a few seconds at
        most.
    secrets: names of what the server may ask for, read from the environment when it is external.
    generated: those of them that a program started here gets, made anew for each folder. They
        are not for its command line, which other users can see.
    tls: its clients and `ready` connect under TLS where the address says so.
    exposed: the program listens on every interface, whatever it is told: it runs in a network of
        its own, or not at all unless the user allows that.
    stop_s: how long it may take to end by itself when asked to.
    stop_signal: how it is asked.
    cluster: how several of them form a cluster; None: they do not. `ready` then waits until the
        cluster has as many nodes as `Address.nodes`.
    image: how the provider `docker` runs it; None: it does not.
    snippet: a few lines of Python that connect to it with its official client, with {host} and
        the names of public ports in braces where they go; other braces are doubled.
    """

    name: str
    program: Callable[[LineProgress], Path]
    at_hand: Callable[[], Availability]
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
    """A server behind a store. As a context manager it is started, waited for, and stopped.

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
        """The address of a server that was started."""

    @abstractmethod
    def start(self) -> None:
        """Start it, on the data in its folder if there is any. Returns before it is ready.

        Raises:
            ServerError: it cannot be had or executed here.
        """

    @abstractmethod
    def wait_ready(self, deadline_s: float = READY_S) -> None:
        """Block until it answers through its own API.

        Raises:
            ServerError: it ended, or did not answer in time; with the tail of its log.
        """

    @abstractmethod
    def lives(self) -> bool:
        """True while a started server has not ended. A server that runs elsewhere is assumed to
        live."""

    @abstractmethod
    def answers(self) -> bool:
        """True if it reacts now, even if only to say that it is busy or refuses access. Takes about
        ten seconds if it does not react. May be called from another thread than the rest."""

    def strike(self, node: int, fault: Fault) -> str:
        """Make a fault of a node of a cluster; returns the node's name.

        Args:
            node: its number, from 0.

        Raises:
            Unsupported: it has no such node, or there is no such fault here.
        """
        raise Unsupported("it has no nodes that could be lost")

    def mend(self, node: int, fault: Fault) -> str:
        """End a fault of `strike`; returns before the node is ready. Returns the node's name."""
        raise Unsupported("it has no nodes that could be lost")

    def pause(self, *, on: bool) -> None:
        """Have all its processes stand still, or go on.

        Raises:
            Unsupported: they are not ours.
        """
        raise Unsupported("its processes cannot be made to stand still")

    def limit_memory(self, limit_bytes: int | None) -> None:
        """Change the memory that it may use while it runs. None: what it was started with.

        Raises:
            Unsupported: it was started without such a limit, or uses more that cannot be taken
                from it.
        """
        raise Unsupported("the memory of this kind of server cannot be changed while it runs")

    def abandon(self) -> None:
        """End it at once, for when its data is thrown away. A server that runs elsewhere is left
        alone."""
        with suppress(Unsupported):
            self.kill()
        self.stop()

    def nodes(self) -> Sequence[Mapping[str, Any]]:
        """Of a cluster started here: name, role (empty where all are equal), host, public ports,
        log and data folder of each node."""
        return ()

    @abstractmethod
    def processes(self) -> Mapping[str, int]:
        """Process ids on this machine by name, for telemetry; none when it is elsewhere. Each
        stands for itself and its descendants."""

    @abstractmethod
    def data_dirs(self) -> tuple[Path, ...]:
        """Folders on this machine that hold its data; none when it is elsewhere."""

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """Facts for the results, without secrets: `provider`, `program`; of one that was started
        here `limits`, and `cpus` where processor time is limited."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once, as a crash does. Its data stays."""

    @abstractmethod
    def restart(self) -> None:
        """Stop it if it runs, start it on the same data and ports, and wait until it is ready."""

    @abstractmethod
    def stop(self) -> None:
        """End it and everything it started, gently first. Its data stays. Calling it twice is
        harmless."""


class External(Server):
    """A server that somebody else runs: reached, never started, stopped or measured."""

    def __init__(self, recipe: Recipe, address: Address) -> None:
        self._recipe, self._address = recipe, address

    @property
    def address(self) -> Address:
        return self._address

    def start(self) -> None:
        """It runs already."""

    def wait_ready(self, deadline_s: float = READY_S) -> None:
        """Of a cluster every node is waited for."""
        deadline_s = min(deadline_s, _EXTERNAL_S)
        for node in self._address.nodes or (self._address,):
            at = replace(node, nodes=self._address.nodes)
            try:
                wait_until(self._recipe, at, deadline_s, still_there=lambda: None)
            except Refused:
                raise
            except ServerError as error:
                what = f"{error}; is it {self._recipe.name} that listens there?"
                raise ServerError(what) from error

    def lives(self) -> bool:
        return True

    def answers(self) -> bool:
        return answers(self._recipe, self._address)

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
        """It is not ours to stop."""


def wait_until(
    recipe: Recipe, address: Address, deadline_s: float, still_there: Callable[[], None]
) -> None:
    """Wait until the server is ready.

    still_there: called before each question; raises `ServerError` when there is no hope left.

    Raises:
        ServerError: it was not ready within `deadline_s` seconds.
    """
    import time

    ends = time.monotonic() + deadline_s
    pause_s = 0.02
    while True:
        still_there()
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


def answers(recipe: Recipe, address: Address) -> bool:
    """True when a server reacts: it is ready, refuses us, or says on a port that it is not
    ready."""
    try:
        recipe.ready(address)
    except NotReady:
        return any_reacts(address.host, address.ports.values())
    except VectrialError:
        return True  # it answered: that it does not let us in, or lacks something
    return True
