"""A server that runs on this machine for as long as it is needed, on loopback and free ports."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from vectrial.errors import UserError
from vectrial.servers.base import (
    READY_S,
    Command,
    Progress,
    Recipe,
    Refused,
    Server,
    ServerError,
)
from vectrial.servers.guarded import HOST, Guarded, free_ports, taken, until_ready
from vectrial.servers.limits import Limits, NotPossible, make_groups
from vectrial.stores.base import Address

__all__ = ["HOST", "Local", "free_ports", "refused", "variable"]

#: Debian's user and group `nobody`.
_NOBODY = 65534
#: Bytes of a secret that is made here, written as twice as many letters.
_SECRET_BYTES = 16


class Local(Server):
    """A program from a package registry, started in a folder of its own.

    It does not outlive this process, however that ends: see `vectrial.servers.guard`.

    Args:
        recipe: of the kind of server.
        folder: made when it does not exist; data goes to `data` in it and stays when it stops.
        log: where its output goes, appended; `server.log` in the folder unless given.
        cores: processors that it may use; all when empty.
        limits: of processor time and memory, where this machine can set them.
        progress: told what takes long.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        *,
        log: Path | None = None,
        cores: Sequence[int] = (),
        limits: Limits = Limits(),  # noqa: B008 - frozen
        progress: Progress = lambda line: None,
    ) -> None:
        self._recipe, self._cores, self._limits = recipe, tuple(cores), limits
        self._progress = progress
        self._folder = folder.resolve()
        self._data = self._folder / "data"
        self._process = Guarded(recipe, self._folder, log or self._folder / "server.log", progress)
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
        self._program = self._recipe.program(self._progress)
        self._data.mkdir(parents=True, exist_ok=True)
        if not self._ports:
            free = free_ports(len(self._recipe.ports))
            self._ports = dict(zip(self._recipe.ports, free, strict=True))
            public = {name: self._ports[name] for name in self._recipe.public}
            made = {name: secrets.token_hex(_SECRET_BYTES) for name in self._recipe.generated}
            self._address = Address(HOST, public, made)
        command = self._recipe.command(self._program, self._data, self._ports)
        told = {
            name: self.address.secrets[secret] for secret, name in self._recipe.generated.items()
        }
        # By the environment, which other users cannot read, and not on the command line.
        self._execute(replace(command, env={**command.env, **told}))

    def _execute(self, command: Command) -> None:
        prefix = self._as_nobody() if command.unprivileged and os.geteuid() == 0 else ()
        if command.first and not any(self._data.iterdir()):
            self._process.run((*prefix, *command.first), command.env)
        self._process.start(
            (*prefix, *command.argv), command.env, cores=self._cores, cgroups=self._groups()
        )

    def _as_nobody(self) -> tuple[str, ...]:
        """Give nobody the folder; the words that make a command nobody's, who may read what we
        may, such as a program in a cache below our home."""
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            raise ServerError(
                f"{self._recipe.name} refuses to run as root, and there is no 'setpriv' here to "
                "run it as nobody: run as another user, or install util-linux"
            )
        for path in (self._folder, *self._folder.rglob("*")):
            os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)
        # A change of user undoes what the guard asked for, to be killed when it dies.
        who = (f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--pdeathsig=KILL")
        may = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
        # Else access(2), which Java asks whether a file is there, forgets what nobody may.
        asked = "--securebits=+no_setuid_fixup"
        return (setpriv, *who, *may, asked)

    def _groups(self) -> tuple[Path, ...]:
        """Control groups with the limits that were asked for; the guard removes them."""
        if not self._limits:
            return ()
        try:
            groups = make_groups(self._limits, f"vectrial-{os.getpid()}-{secrets.token_hex(4)}")
        except NotPossible as error:
            self._limited, self._cpus = f"{self._limits}: not applied: {error}", None
            self._progress(f"{self._recipe.name}: limits {self._limited}")
            return ()
        self._limited = f"{self._limits}: applied by control groups"
        self._cpus = self._limits.cpus
        return groups

    def wait_ready(self, deadline_s: float = READY_S) -> None:
        def wait() -> None:
            self._process.wait_ready(self.address, deadline_s)
            self._check_listens()

        if self._settled:
            wait()
        else:
            until_ready(wait, self._on_other_ports)
            self._settled = True

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
        if self._process.lives() or not (lost := taken(self._ports)):
            return False
        self._progress(f"{self._recipe.name}: port {lost[0]} is taken; starting it on others")
        self._process.wait()
        self._ports = {}
        self.start()
        return True

    def lives(self) -> bool:
        return self._process.lives()

    def processes(self) -> Mapping[str, int]:
        return {"server": self._process.pid} if self.lives() else {}

    def data_dirs(self) -> tuple[Path, ...]:
        return (self._data,)

    def facts(self) -> Mapping[str, Any]:
        held = {} if self._cpus is None else {"cpus": self._cpus}
        program = self._program.name
        return {"provider": "local", "program": program, "limits": self._limited, **held}

    def kill(self) -> None:
        self._process.signal(signal.SIGKILL)
        self._process.wait()

    def restart(self) -> None:
        self.stop()
        self.start()
        self.wait_ready()

    def stop(self) -> None:
        self._process.signal(self._recipe.stop_signal)
        self._process.wait()


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
