"""A private network of a run, with loopback only. Only processes in this network reach a server in
it, whatever address it listens on.

Root can make one; other users can if the system lets them make namespaces.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from vectrial.util.child_environment import for_server

CONFINE = Path(__file__).with_name("confine.py")
_RELAY = Path(__file__).with_name("relay.py")
_LOOPBACK = "127.0.0.1"
#: Namespaces are at most two: of users, and of the network.
_MOST = 2
_START_S = 30.0


class NoNamespace(Exception):
    """This machine or user may not make a network namespace; the message says why."""


class Network:
    """Open descriptors of a network namespace with loopback only and, for an ordinary user, of the
    user namespace that owns it. It exists until it is closed and its last process has ended.

    Raises:
        NoNamespace: none can be made here.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            try:
                done = subprocess.run(
                    confine_program("--namespaces", str(theirs.fileno())),
                    pass_fds=(theirs.fileno(),),
                    env=for_server(),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=_START_S,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise NoNamespace(f"none was made within {_START_S:g} s") from error
            if done.returncode:
                raise NoNamespace(_last_line(done.stderr))
            _, files, _, _ = socket.recv_fds(ours, 1, _MOST)
        self.files: tuple[int, ...] = tuple(files)

    def enter(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command that executes `argv` in this network; it must inherit `files`."""
        return confine_command(argv, network=self.files)

    def close(self) -> None:
        """Release the network. Calling it twice is harmless."""
        for number in self.files:
            os.close(number)
        self.files = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Relay:
    """A network with one server in it, and the process that relays connections to it from this
    machine's loopback. Traffic passes through Python: measure inside the network."""

    def __init__(self) -> None:
        self.network = Network()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, ports: Mapping[str, int]) -> None:
        """Relay connections from these ports of 127.0.0.1 to the same ports in the network.

        Raises:
            OSError: a port is already taken.
        """
        self.stop()
        with ExitStack() as here:
            listens = {}
            for port in ports.values():
                one = here.enter_context(socket.create_server((_LOOPBACK, port), backlog=1024))
                listens[one.fileno()] = port
            order = json.dumps({"listens": listens})
            self._process = subprocess.Popen(
                self.network.enter((sys.executable, "-I", "-S", str(_RELAY), order)),
                pass_fds=(*self.network.files, *listens),
                stdin=subprocess.PIPE,
                env=for_server(),
                start_new_session=True,
            )

    def stop(self) -> None:
        """Stop relaying connections. Calling it twice is harmless."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            assert process.stdin is not None
            process.stdin.close()
            process.wait()

    def close(self) -> None:
        """Stop relaying connections and release the network. Calling it twice is harmless."""
        self.stop()
        self.network.close()


def confine_program(*arguments: str) -> tuple[str, ...]:
    """The command of `vectrial.servers.confine` with these arguments."""
    return (sys.executable, "-I", "-S", str(CONFINE), *arguments)


def confine_command(argv: Sequence[str], **arguments: Any) -> tuple[str, ...]:
    """The command that executes `argv` confined; for `arguments` see `vectrial.servers.confine`."""
    return confine_program(json.dumps(arguments), *argv)


@lru_cache(maxsize=1)
def why_no_network() -> str:
    """The reason why no network can be made here; empty if one can."""
    try:
        Network().close()
    except NoNamespace as error:
        return str(error)
    return ""


@lru_cache(maxsize=1)
def can_cover_folders() -> bool:
    """True if folders can be covered for a program: by root, unless that right was removed."""
    done = subprocess.run(
        confine_program("--mounts"), env=for_server(), capture_output=True, check=False
    )
    return done.returncode == 0


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it did not say why"])[-1].removeprefix(
        "cannot be confined: "
    )
