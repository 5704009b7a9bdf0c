"""A server that runs on this machine for as long as it is needed, on loopback and free ports."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from vectrial.errors import UserError
from vectrial.servers.base import (
    READY_S,
    Command,
    Progress,
    Recipe,
    Server,
    ServerError,
    wait_until,
)
from vectrial.stores.base import Address

HOST = "127.0.0.1"
_GUARD = Path(__file__).with_name("guard.py")
_LOG_TAIL_LINES = 20
#: Debian's user and group `nobody`.
_NOBODY = 65534
#: Seconds that the guard takes at most to end what is left when its program has ended.
_GUARD_ENDS_S = 10.0


class Local(Server):
    """A program from a package registry, started in a folder of its own.

    It does not outlive this process, however that ends: see `vectrial.servers.guard`.

    Args:
        recipe: of the kind of server.
        folder: made when it does not exist; data goes to `data` in it and stays when it stops.
        log: where its output goes, appended; `server.log` in the folder unless given.
        cores: processors that it may use; all when empty.
        progress: told what takes long.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        *,
        log: Path | None = None,
        cores: Sequence[int] = (),
        progress: Progress = lambda line: None,
    ) -> None:
        self._recipe, self._cores, self._progress = recipe, tuple(cores), progress
        self._folder = folder.resolve()
        self._data = self._folder / "data"
        self._log = log or self._folder / "server.log"
        self._address: Address | None = None
        self._ports: Mapping[str, int] = {}
        self._guard: subprocess.Popen[str] | None = None
        self._pid = 0

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
        if self._guard is not None:
            raise ServerError(f"{self._recipe.name} was started already")
        program = self._recipe.program(self._progress)
        self._data.mkdir(parents=True, exist_ok=True)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        if not self._ports:
            free = free_ports(len(self._recipe.ports))
            self._ports = dict(zip(self._recipe.ports, free, strict=True))
            self._address = Address(HOST, {name: self._ports[name] for name in self._recipe.public})
        self._execute(self._recipe.command(program, self._data, self._ports))

    def _execute(self, command: Command) -> None:
        prefix = self._as_nobody() if command.unprivileged and os.geteuid() == 0 else ()
        if command.first and not any(self._data.iterdir()):
            self._guarded((*prefix, *command.first), command.env)
            assert self._guard is not None
            if self._guard.wait():
                raise self._ended()
        self._guarded((*prefix, *command.argv), command.env)

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
        return (setpriv, *who, *may)

    def _guarded(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Start a program and its guard, and learn the program's process id."""
        cores = ",".join(map(str, self._cores)) or "-"
        with self._log.open("ab") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", str(_GUARD), str(os.getpid()), cores, *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **env},
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is for us, who then stop it
            )
        assert self._guard.stdout is not None
        told = self._guard.stdout.readline().strip()
        if not told:
            raise self._ended()
        self._pid = int(told)

    def wait_ready(self, deadline_s: float = READY_S) -> None:
        started = reported = time.monotonic()

        def still_there() -> None:
            nonlocal reported
            if self._guard is None or self._guard.poll() is not None:
                raise self._ended()
            if (now := time.monotonic()) - reported > 10.0:
                reported = now
                self._progress(f"{self._recipe.name}: not ready after {now - started:.0f} s")

        try:
            wait_until(self._recipe, self.address, deadline_s, still_there)
        except ServerError as error:
            if self._guard is None or self._guard.poll() is not None:
                raise
            raise ServerError(f"{error}\n{self._tail()}") from error

    def _ended(self) -> ServerError:
        """Why a server that should run does not."""
        guard = self._guard
        if guard is None:
            return ServerError(f"{self._recipe.name} does not run")
        with contextlib.suppress(subprocess.TimeoutExpired):
            guard.wait(_GUARD_ENDS_S)
        return ServerError(
            f"{self._recipe.name} ended with {guard.returncode} before it was ready\n{self._tail()}"
        )

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        return "\n".join([f"its log is {self._log}, and ends:", *lines])

    def lives(self) -> bool:
        return self._guard is not None and self._guard.poll() is None and self._pid > 0

    def processes(self) -> Mapping[str, int]:
        return {"server": self._pid} if self.lives() else {}

    def data_dirs(self) -> tuple[Path, ...]:
        return (self._data,)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._wait()

    def restart(self) -> None:
        self.stop()
        self.start()
        self.wait_ready()

    def stop(self) -> None:
        self._signal(signal.SIGTERM)
        self._wait()

    def _signal(self, number: signal.Signals) -> None:
        """To the program itself; the guard sees it end, and ends what it started."""
        if self.lives():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _wait(self) -> None:
        guard = self._guard
        if guard is None:
            return
        try:
            guard.wait(self._recipe.stop_s)
        except subprocess.TimeoutExpired:
            self._progress(
                f"{self._recipe.name}: did not end within {self._recipe.stop_s:g} s; killed"
            )
            guard.terminate()  # which kills everything
            guard.wait()
        finally:
            assert guard.stdout is not None
            guard.stdout.close()
        self._guard, self._pid = None, 0


def free_ports(count: int) -> list[int]:
    """Distinct ports of loopback on which nothing listens now, chosen by the system."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def variable(recipe: Recipe, what: str) -> str:
    """The name of the environment variable that holds `what` of a server."""
    return f"VECTRIAL_{recipe.name}_{what}".upper().replace("-", "_")
