"""A program that runs beside this process and does not outlive it: the common part of the providers
that start servers."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from vectrial.model.placement import Limits
from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import READY_S, Recipe, Server, ServerError, is_answering, wait_until
from vectrial.servers.server_network import ServerNetwork
from vectrial.servers.supervisor import memory_use, remove
from vectrial.util import interrupts
from vectrial.util.process import tail
from vectrial.util.redaction import Log, environment_redaction

HOST = "127.0.0.1"
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_LOG_TAIL_LINES = 20
#: Seconds that the supervisor takes at most to end what is left when its program has ended.
_SUPERVISOR_ENDS_S = 10.0
#: Bytes of a secret that is made here, written as twice as many letters.
_SECRET_BYTES = 16
#: Attempts to start a server if other programs take ports that were free a moment ago.
_PORT_TRIES = 3
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
#: Seconds between two lines about a server that is not ready yet.
_REPORT_S = 10.0


class ManagedProcess:
    """A program with its supervisor (`vectrial.servers.supervisor`) and its log.

    Args:
        recipe: gives the server's name, its readiness check, and how long it may take to end.
        folder: working folder. log: file to which output is appended.
        progress: called with a line on each slow step.
    """

    def __init__(self, recipe: Recipe, folder: Path, log: Path, progress: LineProgress) -> None:
        self.recipe, self.log, self.progress = recipe, log, progress
        self._folder = folder
        #: Made for this server; hidden in its log.
        self.secrets: tuple[str, ...] = ()
        self._output: Log | None = None
        self._supervisor: subprocess.Popen[str] | None = None
        self._cgroups: tuple[Path, ...] = ()
        self._memory_use: Mapping[str, int] = {}
        self.pid = 0

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        files: Sequence[int] = (),
        cores: Sequence[int] = (),
        cgroups: Sequence[Path] = (),
        after: Sequence[str] = (),
    ) -> None:
        """Execute a program and learn its process id; the arguments are those of the supervisor.

        env: all variables of the program and its supervisor.

        Raises:
            ServerError: the program cannot be executed, or already runs.
        """
        if self._supervisor is not None and self._supervisor.poll() is None:
            raise ServerError(f"{self.recipe.name} was started already")
        order = {
            "parent": os.getpid(),
            "files": list(files),
            "cores": list(cores),
            "cgroups": [os.fspath(group) for group in cgroups],
            "after": list(after),
            "argv": list(argv),
        }
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._cgroups, self._memory_use = tuple(cgroups), {}
        self._output = Log(self.log, environment_redaction(self.secrets))
        with self._output.opened() as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", str(_SUPERVISOR), json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=dict(env),
                pass_fds=tuple(files),
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is for us, who then stop it
            )
        assert self._supervisor.stdout is not None
        number = self._supervisor.stdout.readline().strip()
        if not number:
            raise self.ended_error()
        self.pid = int(number)

    def run(
        self, argv: Sequence[str], env: Mapping[str, str], *, files: Sequence[int] = ()
    ) -> None:
        """Execute a program to completion.

        Raises:
            ServerError: it failed; with its log's tail.
        """
        self.start(argv, env, files=files)
        assert self._supervisor is not None
        if self._supervisor.wait():
            raise self.ended_error()
        self._forget()

    @property
    def cgroups(self) -> tuple[Path, ...]:
        """The control groups of the program while it runs."""
        return self._cgroups

    @property
    def is_started(self) -> bool:
        """True if the program was started and not waited for."""
        return self._supervisor is not None

    def is_alive(self) -> bool:
        """True if the program was started and has not ended."""
        if self._supervisor is None or self._supervisor.poll() is not None or self.pid == 0:
            return False
        # The supervisor notices its end a moment later than a connected client does.
        try:
            return psutil.Process(self.pid).status() not in _ENDED
        except psutil.NoSuchProcess:
            return False

    def memory_use(self) -> Mapping[str, int]:
        """Memory use of the program's control groups since its start, available even after it has
        ended; see `supervisor.memory_use`. Empty without a memory limit."""
        supervisor = self._supervisor
        if supervisor is None or self._memory_use or not self._cgroups:
            return self._memory_use
        if not self.is_alive():  # the supervisor says it, and removes the groups
            with contextlib.suppress(subprocess.TimeoutExpired):
                supervisor.wait(_SUPERVISOR_ENDS_S)
        if supervisor.poll() is None:
            return memory_use(self._cgroups)
        assert supervisor.stdout is not None
        last = supervisor.stdout.readline()
        self._memory_use = json.loads(last) if last.startswith("{") else {}
        return self._memory_use

    def wait_ready(
        self, address: Address, deadline_s: float, server_network: ServerNetwork | None = None
    ) -> None:
        """Block until the server answers; it is asked from within its network.

        Raises:
            ServerError: it ended, or did not answer in time; with its log's tail.
        """
        started = reported = time.monotonic()

        def check_alive() -> None:
            nonlocal reported
            interrupts.check()
            if not self.is_alive():
                raise self.ended_error()
            if (now := time.monotonic()) - reported > _REPORT_S:
                reported = now
                self.progress(f"{self.recipe.name}: not ready after {now - started:.0f} s")

        try:
            if server_network is None:
                wait_until(self.recipe, address, deadline_s, check_alive)
            else:
                server_network.wait_until(address, deadline_s, check_alive)
            check_alive()  # what answered may be somebody else, on a port that it did not get
        except ServerError as error:
            if not self.is_alive():
                raise
            raise ServerError(f"{error}\n{self.tail()}") from error

    def ended_error(self) -> ServerError:
        """The error for a server that has ended although it should run."""
        supervisor = self._supervisor
        if supervisor is None:
            return ServerError(f"{self.recipe.name} does not run")
        with contextlib.suppress(subprocess.TimeoutExpired):
            supervisor.wait(_SUPERVISOR_ENDS_S)
        return ServerError(
            f"{self.recipe.name} ended with {supervisor.returncode} before it was ready\n"
            f"{self.tail()}"
        )

    def tail(self) -> str:
        """The end of the log, and the log's path."""
        if self._output is not None and not self.is_alive():
            self._output.settle()
        return f"its log is {self.log}, and ends:\n{tail(self.log, _LOG_TAIL_LINES)}"

    def signal(self, number: signal.Signals) -> None:
        """Signal the program itself; the supervisor sees its end, and ends what it started."""
        if self.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def signal_all(self, number: int) -> None:
        """Send a signal to the program and everything that it started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            program = psutil.Process(self.pid)
            for one in (program, *program.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.send_signal(number)

    def wait(self) -> None:
        """Wait until the program has ended, and force it if that takes too long."""
        supervisor = self._supervisor
        if supervisor is None:
            return
        if self.pid == 0:  # we were interrupted before it said whom it started
            supervisor.terminate()
        try:
            supervisor.wait(self.recipe.stop_s)
        except subprocess.TimeoutExpired:
            self.progress(
                f"{self.recipe.name}: did not end within {self.recipe.stop_s:g} s; killed"
            )
            supervisor.terminate()  # which kills everything
            supervisor.wait()
        finally:
            self._forget()

    def _forget(self) -> None:
        assert self._supervisor is not None
        assert self._supervisor.stdout is not None
        self._memory_use = self.memory_use()
        self._supervisor.stdout.close()
        self._supervisor, self.pid = None, 0
        remove(self._cgroups)  # which the supervisor could not do if it was killed
        self._cgroups = ()


def free_ports(count: int) -> list[int]:
    """Distinct free ports on loopback, chosen by the system."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def ports_in_use(ports: Mapping[str, int]) -> list[int]:
    """The ports on which something listens already."""
    found = []
    for port in ports.values():
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind((HOST, port))
            except OSError:
                found.append(port)
    return found


class StartedServer(Server):
    """A server that is started here: its folder, secrets and ports, and the wait for it.

    Args:
        recipe: the kind of server.
        folder: created if missing. Data goes to `data` in it and stays after a stop, as do the
            secrets made for the server. Nobody else may enter the folder.
        log: file to which output is appended; `server.log` in the folder by default.
        cores: processors that it may use; all if empty.
        limits: limits of processor time and memory, if they can be set.
        progress: called with a line on each slow step.
        host: the address at which it listens.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        log: Path | None,
        cores: Sequence[int],
        limits: Limits,
        progress: LineProgress,
        host: str = HOST,
    ) -> None:
        self._recipe, self._cores, self._limits = recipe, tuple(cores), limits
        self._host = host
        self._progress = progress
        self._folder = folder.resolve()
        self._data = self._folder / "data"
        self._process = ManagedProcess(
            recipe, self._folder, log or self._folder / "server.log", progress
        )
        self._address: Address | None = None
        self._ports: Mapping[str, int] = {}
        self._settled = False

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self._process.log

    @property
    def address(self) -> Address:
        if self._address is None:
            raise ServerError(f"{self._recipe.name} was not started")
        return self._address

    def _check_not_started(self) -> None:
        if self._process.is_started:
            raise ServerError(f"{self._recipe.name} was started already")

    def _make_folders(self, names: Sequence[str]) -> Mapping[str, str]:
        """Make the server's folders, and the secrets of these names, each in its own file."""
        self._data.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        return make_secrets(self._folder, names)

    def _choose_ports(self, names: Sequence[str], secrets: Mapping[str, str]) -> None:
        """Choose free ports for these names, unless the server has ports already."""
        if not self._ports:
            self._ports = dict(zip(names, free_ports(len(names)), strict=True))
            self._address = None
        if self._address is None:
            public = {name: self._ports[name] for name in self._recipe.public}
            self._address = Address(self._host, public, secrets)

    def wait_ready(self, deadline_s: float = READY_S) -> None:
        for left in reversed(range(1 if self._settled else _PORT_TRIES)):
            try:
                self._wait_once(deadline_s)
                break
            except ServerError:
                if not left or self._process.is_alive() or not (lost := self._lost_ports()):
                    raise
                line = f"{self._recipe.name}: port {lost[0]} is taken; starting it on others"
                self._progress(line)
                self._process.wait()
                self._ports = {}
                self.start()
        self._settled = True

    def _wait_once(self, deadline_s: float) -> None:
        self._process.wait_ready(self.address, deadline_s)

    def _lost_ports(self) -> list[int]:
        """The server's ports that another program took."""
        return ports_in_use(self._ports)

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def is_remote(self) -> bool:
        """True if it runs and its processes are not this machine's."""
        return False

    def ended_error(self) -> ServerError:
        """The error for a server that has ended although it should run."""
        return self._process.ended_error()

    def is_answering(self) -> bool:
        address = self._address  # another thread may be stopping it
        return address is not None and self._is_reacting(address)

    def _is_reacting(self, address: Address) -> bool:
        return is_answering(self._recipe, address)

    def data_dirs(self) -> tuple[Path, ...]:
        return (self._data,)

    def restart(self) -> None:
        self.stop()
        self.start()
        self.wait_ready()


def make_secrets(folder: Path, names: Sequence[str]) -> Mapping[str, str]:
    """Secrets, by these names, of the server in `folder`; missing ones are made."""
    files = {name: secret_file(folder, name) for name in names}
    for file in files.values():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            write_private(file, secrets.token_hex(_SECRET_BYTES))
    return {name: file.read_text() for name, file in files.items()}


def share_secrets(folder: Path, node: Path, names: Sequence[str]) -> None:
    """Give the server in `node` the secrets of the one in `folder`."""
    for name, value in make_secrets(folder, names).items():
        file = secret_file(node, name)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(file, value)


def secret_file(folder: Path, name: str) -> Path:
    """The file that holds a secret of the server in `folder`."""
    return folder / "secrets" / name


def write_private(path: Path, text: str) -> Path:
    """Write a file that nobody else may read."""
    with open(path, "w", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
        file.write(text)
    return path
