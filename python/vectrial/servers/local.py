"""A server that runs on this machine for as long as it is needed, on loopback and free ports."""

from __future__ import annotations

import os
import secrets
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from vectrial.model.errors import UserError
from vectrial.model.limits import Limits
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.account import Account, free_account, installation
from vectrial.servers.base import (
    READY_S,
    Command,
    Recipe,
    Refused,
    Server,
    ServerError,
    answers,
)
from vectrial.servers.inside import Inside
from vectrial.servers.limits import NotPossible, group_name, make_groups, sweep
from vectrial.servers.managed_process import HOST, Guarded, free_ports, taken, until_ready
from vectrial.servers.namespaces import Network, Relay, confine, no_network
from vectrial.util.child_environment import for_server

__all__ = ["HOST", "Local", "free_ports", "refused", "variable", "write_private"]

#: Bytes of a secret that is made here, written as twice as many letters.
_SECRET_BYTES = 16


class Local(Server):
    """A program from a package registry, started in a folder of its own.

    It does not outlive this process, however that ends: see `vectrial.servers.supervisor`. It has
    no capability, and only the variables that it needs; where we are root it runs as a user of its
    own: see `vectrial.servers.account`.

    Args:
        recipe: of the kind of server.
        folder: made when it does not exist; data goes to `data` in it and stays when it stops, as
            the secrets do that were made for the server. Nobody else may enter it.
        log: where its output goes, appended; `server.log` in the folder unless given.
        cores: processors that it may use; all when empty.
        limits: of processor time and memory, where this machine can set them.
        progress: told what takes long.
        inside: the network that it runs in, in which alone its address is valid. Without one a
            program that listens on every interface gets a network of its own, and its public ports
            are relayed from loopback; others listen on loopback.
        allow_exposed: start such a program also where no network can be made.
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
        inside: Inside | None = None,
        allow_exposed: bool = False,
    ) -> None:
        self._recipe, self._cores, self._limits = recipe, tuple(cores), limits
        self._progress = progress
        self._folder = folder.resolve()
        self._data = self._folder / "data"
        self._process = Guarded(recipe, self._folder, log or self._folder / "server.log", progress)
        self._inside, self._allow_exposed = inside, allow_exposed
        self._relay: Relay | None = None
        self._account: Account | None = None
        self._address: Address | None = None
        self._ports: Mapping[str, int] = {}
        self._settled = False
        self._program = Path(recipe.name)
        self._limited = "none"
        self._cpus: float | None = None

    @property
    def address(self) -> Address:
        if self._address is None:
            raise ServerError(f"{self._recipe.name} was not started")
        return self._address

    def start(self) -> None:
        if sys.platform != "linux":
            raise UserError(
                f"{self._recipe.name} is started on Linux only, not on {sys.platform}",
                remedy=f"run it yourself and give {variable(self._recipe, 'address')}",
            )
        if self._process.started:
            raise ServerError(f"{self._recipe.name} was started already")
        network = self._network()
        self._program = self._recipe.program(self._progress)
        self._data.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        made = kept_secrets(self._folder, self._recipe.generated)
        if not self._ports:
            free = free_ports(len(self._recipe.ports))
            self._ports = dict(zip(self._recipe.ports, free, strict=True))
            public = {name: self._ports[name] for name in self._recipe.public}
            self._address = Address(HOST, public, made)
            self._process.secrets = tuple(made.values())
        self._execute(self._recipe.command(self._program, self._data, self._ports, made), network)
        if self._relay is not None:
            self._relay.start(self.address.ports)

    def _network(self) -> Network | None:
        """The network that it runs in; None: that of this process."""
        if self._inside is not None:
            return self._inside.network
        if not self._recipe.exposed:
            return None
        if self._relay is None:
            if (why := no_network()) and not self._allow_exposed:
                raise exposed(self._recipe, why)
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
            needs = (installation(self._program), self._folder, *command.needs)
            order |= self._account.order(needs, self._folder / "passwd")
            self._account.own(self._folder)
        env = {
            **for_server(),
            "HOME": str(self._folder),
            "TMPDIR": str(scratch),
            **command.env,
        }
        if first:
            self._process.run(confine(command.first, **order), env, files=files)
        self._process.start(
            confine(command.argv, **order),
            env,
            files=files,
            cores=self._cores,
            cgroups=self._groups(),
        )

    def _groups(self) -> tuple[Path, ...]:
        """Control groups with the limits that were asked for; the supervisor removes them."""
        if not self._limits:
            return ()
        try:
            sweep()
            groups = make_groups(self._limits, group_name())
        except NotPossible as error:
            self._limited, self._cpus = f"{self._limits}: not applied: {error}", None
            self._progress(f"{self._recipe.name}: limits {self._limited}")
            return ()
        self._limited = f"{self._limits}: applied by control groups"
        self._cpus = self._limits.cpus
        return groups

    def wait_ready(self, deadline_s: float = READY_S) -> None:
        def wait() -> None:
            self._process.wait_ready(self.address, deadline_s, self._inside)
            if not self._alone:
                self._check_listens()

        if self._settled:
            wait()
        else:
            until_ready(wait, self._on_other_ports)
            self._settled = True

    @property
    def _alone(self) -> bool:
        """Nobody else is in its network, who might take its ports."""
        return self._inside is not None or self._relay is not None

    def _check_listens(self) -> None:
        """Raise when what answers on its ports is another program, and it runs without them."""
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

    def _on_other_ports(self) -> bool:
        if self._process.lives() or self._alone or not (lost := taken(self._ports)):
            return False
        self._progress(f"{self._recipe.name}: port {lost[0]} is taken; starting it on others")
        self._process.wait()
        self._ports = {}
        self.start()
        return True

    def lives(self) -> bool:
        return self._process.lives()

    def answers(self) -> bool:
        if self._inside is not None:
            return self._inside.answers(self.address)
        return answers(self._recipe, self.address)

    def processes(self) -> Mapping[str, int]:
        return {"server": self._process.pid} if self.lives() else {}

    def data_dirs(self) -> tuple[Path, ...]:
        return (self._data,)

    def facts(self) -> Mapping[str, Any]:
        held = {} if self._cpus is None else {"cpus": self._cpus}
        program = self._program.name
        network = "its own" if self._alone else "this machine's"
        facts = {"provider": "local", "program": program, "network": network}
        return {**facts, "limits": self._limited, **held}

    def kill(self) -> None:
        self._process.signal(signal.SIGKILL)
        self._process.wait()

    def restart(self) -> None:
        self.stop()
        self.start()
        self.wait_ready()

    def stop(self) -> None:
        if self._relay is not None:
            self._relay.close()
            self._relay = None
        self._process.signal(self._recipe.stop_signal)
        self._process.wait()


def kept_secrets(folder: Path, names: Sequence[str]) -> Mapping[str, str]:
    """Secrets of a server, each in a file of its own below its folder; made where there is none."""
    files = {name: secret_file(folder, name) for name in names}
    for file in files.values():
        file.parent.mkdir(mode=0o700, exist_ok=True)
        if not file.exists():
            write_private(file, secrets.token_hex(_SECRET_BYTES))
    return {name: file.read_text() for name, file in files.items()}


def secret_file(folder: Path, name: str) -> Path:
    """Where the secret of this name of the server in `folder` is kept, if one was made for it."""
    return folder / "secrets" / name


def write_private(path: Path, text: str) -> Path:
    """Write a file that nobody else may read."""
    with open(path, "w", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
        file.write(text)
    return path


def exposed(recipe: Recipe, why: str) -> ServerError:
    """Why a server is not started that would listen where others can reach it."""
    return ServerError(
        f"{recipe.name} listens on every interface of this machine, whatever it is told, and no "
        f"network of its own can be made here ({why}); --allow-exposed starts it all the same"
    )


def variable(recipe: Recipe, what: str) -> str:
    """The name of the environment variable that holds `what` of a server."""
    return f"VECTRIAL_{recipe.name}_{what}".upper().replace("-", "_")


def refused(recipe: Recipe, address: Address, said: object) -> Refused:
    """What `Recipe.ready` raises when the server does not accept our secrets, or wants some.

    said: by the server; no secret is in it.
    """
    *others, last = (variable(recipe, secret) for secret in recipe.secrets)
    names = f"{', '.join(others)} and {last}" if others else last
    return Refused(f"{recipe.name} at {address.host} does not let us in: {said}; see {names}")
