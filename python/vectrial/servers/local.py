"""A server that runs on this machine for as long as it is needed, on loopback and free ports."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from vectrial.model.errors import Unsupported, UserError
from vectrial.model.faults import Fault
from vectrial.model.placement import Limits
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.account import Account, free_account, installation_folder
from vectrial.servers.base import AccessRefused, Command, Recipe, ServerError
from vectrial.servers.limits import (
    NoControlGroup,
    change_memory,
    group_name,
    make_groups,
    remove_orphans,
)
from vectrial.servers.managed_process import HOST, StartedServer, free_ports, write_private
from vectrial.servers.namespaces import Network, Relay, confine_command, why_no_network
from vectrial.servers.server_network import ServerNetwork
from vectrial.util.child_environment import for_server

__all__ = ["HOST", "Local", "free_ports", "refused_error", "variable_name", "write_private"]


class Local(StartedServer):
    """A program from a package registry, started in its own folder.

    It never outlives this process; see `vectrial.servers.supervisor`. It has no capabilities, and
    only the variables that it needs. Under root it runs as a user of its own; see
    `vectrial.servers.account`.

    Args:
        recipe, folder, log, cores, limits, progress: see `StartedServer`.
        inside: the network that it runs in; its address is valid only there. By default, a program
            that listens on every interface gets its own network, and its public ports are relayed
            from loopback; others listen on loopback.
        allow_exposed: start such a program even if no network can be made.
        shared: a network shared with other servers, or one that is its host. Its maker provides the
            connections to it. ports: the recipe's ports; free ones by default.
        host: the address at which it listens.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        *,
        log: Path | None = None,
        cores: Sequence[int] = (),
        limits: Limits = Limits(),  # noqa: B008 - frozen
        progress: LineProgress = lambda line: None,
        server_network: ServerNetwork | None = None,
        allow_exposed: bool = False,
        shared: Network | None = None,
        ports: Mapping[str, int] | None = None,
        host: str = HOST,
    ) -> None:
        super().__init__(recipe, folder, log, cores, limits, progress, host)
        self._server_network, self._allow_exposed = server_network, allow_exposed
        self._shared = shared
        self._ports, self._fixed_ports = dict(ports or {}), ports is not None
        self._relay: Relay | None = None
        self._account: Account | None = None
        self._program = Path(recipe.name)
        self._limited = "none"
        self._cpus: float | None = None
        #: Peak memory under the limit that the server was started with, if that was changed later.
        self._peak_bytes: int | None = None

    def start(self) -> None:
        if sys.platform != "linux":
            raise UserError(
                f"{self._recipe.name} is started on Linux only, not on {sys.platform}",
                remedy=f"run it yourself and give {variable_name(self._recipe, 'address')}",
            )
        self._check_not_started()
        network = self._network()
        self._program = self._recipe.program(self._progress)
        made = self._make_folders(self._recipe.generated)
        self._choose_ports(self._recipe.ports, made)
        self._process.secrets = tuple(made.values())
        self._execute(self._recipe.command(self._program, self._data, self._ports, made), network)
        if self._relay is not None:
            self._relay.start(self.address.ports)

    def _network(self) -> Network | None:
        """The network that the server runs in; None means this process's network."""
        if self._shared is not None:
            return self._shared
        if self._server_network is not None:
            return self._server_network.network
        if not self._recipe.exposed or self._host != HOST:
            return None
        if self._relay is None:
            if (why := why_no_network()) and not self._allow_exposed:
                raise exposed_error(self._recipe, why)
            if not why:
                self._relay = Relay()
        return None if self._relay is None else self._relay.network

    def _execute(self, command: Command, network: Network | None) -> None:
        files = () if network is None else network.files
        order = {"network": files, "die_with_parent": "{supervisor}"}
        scratch = self._folder / "tmp"
        scratch.mkdir(exist_ok=True)
        first = bool(command.first) and not any(self._data.iterdir())
        if os.geteuid() == 0:
            self._account = self._account or free_account()
            needs = (installation_folder(self._program), self._folder, *command.needs)
            order |= self._account.confine_arguments(needs, self._folder / "passwd")
            self._account.take_ownership(self._folder)
        env = {**for_server(), "HOME": str(self._folder), "TMPDIR": str(scratch), **command.env}
        if first:
            self._process.run(confine_command(command.first, **order), env, files=files)
        self._process.start(
            confine_command(command.argv, **order),
            env,
            files=files,
            cores=self._cores,
            cgroups=self._groups(),
        )

    def _groups(self) -> tuple[Path, ...]:
        """Control groups with the requested limits; the supervisor removes them."""
        if not self._limits:
            return ()
        try:
            remove_orphans()
            groups = make_groups(self._limits, group_name())
        except NoControlGroup as error:
            self._limited, self._cpus = f"{self._limits}: not applied: {error}", None
            self._progress(f"{self._recipe.name}: limits {self._limited}")
            return ()
        self._limited = f"{self._limits}: applied by control groups"
        self._peak_bytes = None
        self._cpus = self._limits.cpus
        return groups

    def _wait_once(self, deadline_s: float) -> None:
        self._process.wait_ready(self.address, deadline_s, self._server_network)
        if not self._has_own_network:
            self._check_listens()

    @property
    def _has_own_network(self) -> bool:
        """True if no other program shares the server's network and could take its ports."""
        return any(one is not None for one in (self._server_network, self._relay, self._shared))

    def _check_listens(self) -> None:
        """Raise if another program answers on the server's ports."""
        try:
            root = psutil.Process(self._process.pid)
            tree = [root, *root.children(recursive=True)]
            own = {
                one.laddr.port
                for process in tree
                for one in process.net_connections("tcp")
                if one.status == psutil.CONN_LISTEN
            }
        except (psutil.Error, PermissionError):
            return  # it has ended, which is seen elsewhere, or may not be looked at
        foreign = sorted(set(self.address.ports.values()) - own)
        if foreign:
            self.stop()
            raise ServerError(
                f"{self._recipe.name}: another program answers on its port {foreign[0]}\n"
                f"{self._process.tail()}"
            )

    def _lost_ports(self) -> list[int]:
        return [] if self._has_own_network or self._fixed_ports else super()._lost_ports()

    def _is_reacting(self, address: Address) -> bool:
        if self._server_network is not None:
            return self._server_network.is_answering(address)
        return super()._is_reacting(address)

    def processes(self) -> Mapping[str, int]:
        return {"server": self._process.pid} if self.is_alive() else {}

    def facts(self) -> Mapping[str, Any]:
        cpus = {} if self._cpus is None else {"cpus": self._cpus}
        program = self._program.name
        network = "its own" if self._has_own_network else "this machine's"
        facts = {"provider": "local", "program": program, "network": network}
        peak = {} if self._peak_bytes is None else {"memory_peak_bytes": self._peak_bytes}
        return {**facts, "limits": self._limited, **cpus, **self._process.memory_use(), **peak}

    def kill(self) -> None:
        self._process.signal(signal.SIGKILL)
        self._process.wait()

    def limit_memory(self, limit_bytes: int | None) -> None:
        started_with = self._limits.memory_bytes
        if started_with is None:
            raise Unsupported(
                "the server was started without a limit of memory, which cannot be added later:"
                " set server_memory in [placement]"
            )
        if self._peak_bytes is None:
            self._peak_bytes = self._process.memory_use().get("memory_peak_bytes")
        try:
            change_memory(
                self._process.cgroups, started_with if limit_bytes is None else limit_bytes
            )
        except NoControlGroup as error:
            raise Unsupported(str(error)) from error

    def strike(self, node: int, fault: Fault) -> str:
        return self._freeze(fault, on=True)

    def mend(self, node: int, fault: Fault) -> str:
        return self._freeze(fault, on=False)

    def _freeze(self, fault: Fault, *, on: bool) -> str:
        if fault is not Fault.PAUSE:
            raise Unsupported("it has no nodes that could be lost")
        self.pause(on=on)
        return self._recipe.name

    def pause(self, *, on: bool) -> None:
        self._process.signal_all(signal.SIGSTOP if on else signal.SIGCONT)

    def stop(self) -> None:
        if self._relay is not None:
            self._relay.close()
            self._relay = None
        self._process.signal(self._recipe.stop_signal)
        self._process.wait()


def exposed_error(recipe: Recipe, why: str) -> ServerError:
    """The error for a server that is not started because others could reach it."""
    return ServerError(
        f"{recipe.name} listens on every interface of this machine, whatever it is told, and no "
        f"network of its own can be made here ({why}); --allow-exposed starts it all the same"
    )


def variable_name(recipe: Recipe, what: str) -> str:
    """The environment variable that holds `what` (a setting) of a server."""
    return f"VECTRIAL_{recipe.name}_{what}".upper().replace("-", "_")


def refused_error(recipe: Recipe, address: Address, reply: object) -> AccessRefused:
    """The error that `Recipe.ready` raises for a server that rejects our secrets, or wants some.

    reply: the server's message, without secrets.
    """
    *others, last = (variable_name(recipe, secret) for secret in recipe.secrets)
    names = f"{', '.join(others)} and {last}" if others else last
    return AccessRefused(
        f"{recipe.name} at {address.host} does not let us in: {reply}; see {names}"
    )
