"""A program that runs beside this process, and does not outlive it: what providers that start
something have in common."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from vectrial.model.progress import LineProgress
from vectrial.model.store import Address
from vectrial.servers.base import Recipe, ServerError, wait_until
from vectrial.servers.inside import Inside
from vectrial.servers.supervisor import remove
from vectrial.util import interrupts
from vectrial.util.redaction import Log, of_environment

HOST = "127.0.0.1"
_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_LOG_TAIL_LINES = 20
#: Seconds that the supervisor takes at most to end what is left when its program has ended.
_SUPERVISOR_ENDS_S = 10.0
#: How often a server is started, when others take the ports that were free a moment ago.
_PORT_TRIES = 3
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
#: Seconds between two lines about a server that is not ready yet.
_TELL_EVERY_S = 10.0


class Guarded:
    """A program with its supervisor (`vectrial.servers.supervisor`), and its log.

    Args:
        recipe: of the kind of server: its name, when it is ready, how long it may take to end.
        folder: where it runs. log: where its output goes, appended.
        progress: told what takes long.
    """

    def __init__(self, recipe: Recipe, folder: Path, log: Path, progress: LineProgress) -> None:
        self.recipe, self.log, self.progress = recipe, log, progress
        self._folder = folder
        #: Made for this server; hidden in its log.
        self.secrets: tuple[str, ...] = ()
        self._output: Log | None = None
        self._supervisor: subprocess.Popen[str] | None = None
        self._cgroups: tuple[Path, ...] = ()
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
            ServerError: it cannot be executed, or runs already.
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
        self._cgroups = tuple(cgroups)
        self._output = Log(self.log, of_environment(self.secrets))
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
        told = self._supervisor.stdout.readline().strip()
        if not told:
            raise self.ended()
        self.pid = int(told)

    def run(
        self, argv: Sequence[str], env: Mapping[str, str], *, files: Sequence[int] = ()
    ) -> None:
        """Execute a program to its end.

        Raises:
            ServerError: it failed; with its log's tail.
        """
        self.start(argv, env, files=files)
        assert self._supervisor is not None
        if self._supervisor.wait():
            raise self.ended()
        self._forget()

    @property
    def started(self) -> bool:
        """It was started and not waited for."""
        return self._supervisor is not None

    def lives(self) -> bool:
        """It was started and has not ended."""
        if self._supervisor is None or self._supervisor.poll() is not None or self.pid == 0:
            return False
        # The supervisor notices a moment later than whoever is connected to it.
        try:
            return psutil.Process(self.pid).status() not in _ENDED
        except psutil.NoSuchProcess:
            return False

    def wait_ready(self, address: Address, deadline_s: float, inside: Inside | None = None) -> None:
        """Block until the server answers; it is asked in its network, where that is another.

        Raises:
            ServerError: it ended, or did not answer in time; with its log's tail.
        """
        started = reported = time.monotonic()

        def still_there() -> None:
            nonlocal reported
            interrupts.check()
            if not self.lives():
                raise self.ended()
            if (now := time.monotonic()) - reported > _TELL_EVERY_S:
                reported = now
                self.progress(f"{self.recipe.name}: not ready after {now - started:.0f} s")

        try:
            if inside is None:
                wait_until(self.recipe, address, deadline_s, still_there)
            else:
                inside.wait_until(address, deadline_s, still_there)
            still_there()  # what answered may be somebody else, on a port that it did not get
        except ServerError as error:
            if not self.lives():
                raise
            raise ServerError(f"{error}\n{self.tail()}") from error

    def ended(self) -> ServerError:
        """Why a server that should run does not."""
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
        """The end of its log, and where that is."""
        if self._output is not None and not self.lives():
            self._output.settle()
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        return "\n".join([f"its log is {self.log}, and ends:", *lines])

    def signal(self, number: signal.Signals) -> None:
        """To the program itself; the supervisor sees it end, and ends what it started."""
        if self.lives():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self) -> None:
        """Until it has ended, which is forced when it takes too long."""
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
        self._supervisor.stdout.close()
        self._supervisor, self.pid = None, 0
        remove(self._cgroups)  # which the supervisor could not do if it was killed
        self._cgroups = ()


def free_ports(count: int) -> list[int]:
    """Distinct ports of loopback on which nothing listens now, chosen by the system."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in sockets]


def taken(ports: Mapping[str, int]) -> list[int]:
    """Those of `ports` on which somebody listens."""
    found = []
    for port in ports.values():
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind((HOST, port))
            except OSError:
                found.append(port)
    return found


def until_ready(wait: Callable[[], None], on_other_ports: Callable[[], bool]) -> None:
    """Wait for a server that was started for the first time.

    wait: raises `ServerError` when it ended or was not ready in time.
    on_other_ports: called then; starts it again where others had taken its ports, and else
        returns False.
    """
    for left in reversed(range(_PORT_TRIES)):
        try:
            wait()
        except ServerError:
            if not left or not on_other_ports():
                raise
        else:
            return
