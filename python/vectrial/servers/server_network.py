"""Servers in a private network of a run: their readiness is checked from within that network.

    python -m vectrial.servers.server_network        is told what to ask, and of whom, on standard
    input

A process with threads cannot enter a network, so another process does.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from vectrial.model.store import Address
from vectrial.servers.base import AccessRefused, Recipe, ServerError, wait_until
from vectrial.servers.namespaces import Network
from vectrial.util.child_environment import for_measuring
from vectrial.util.children import python
from vectrial.util.process import die_with_parent

_POLL_S = 0.05
#: Seconds beyond the deadline for the process that asks.
_SPARE_S = 30.0
#: A program of few imports: see there.
_REACTION = Path(__file__).with_name("reaction.py")


@dataclass(frozen=True)
class ServerNetwork:
    """The network that a server runs in. recipe: reference "module:NAME" to the server's recipe, or
    to a function that makes it for the server's address."""

    network: Network
    recipe: str

    def is_answering(self, address: Address) -> bool:
        """True if the server reacts on one of its ports. The check is cheap, because a measurement
        may be running."""
        ports = map(str, address.ports.values())
        argv = (sys.executable, "-I", "-S", str(_REACTION), address.host, *ports)
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                self.network.enter(argv),
                pass_fds=self.network.files,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=for_measuring(),
                timeout=_SPARE_S,
                check=False,
            )
            return done.returncode == 0
        return False

    def wait_until(
        self, address: Address, deadline_s: float, check_alive: Callable[[], None]
    ) -> None:
        """Wait from within the network; see `vectrial.servers.base.wait_until`."""
        order = {
            "recipe": self.recipe,
            "host": address.host,
            "ports": dict(address.ports),
            "secrets": dict(address.secrets),
            "nodes": [(node.host, dict(node.ports)) for node in address.nodes],
            "deadline_s": deadline_s,
            "parent": os.getpid(),
        }
        command = self.network.enter(python(__name__))
        asking = subprocess.Popen(
            command,
            pass_fds=self.network.files,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=for_measuring(),
            start_new_session=True,
        )
        said, complaint = "", ""
        try:
            sending: str | None = json.dumps(order)
            left = deadline_s + _SPARE_S
            while True:
                try:
                    said, complaint = asking.communicate(sending, timeout=_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    sending = None
                    left -= _POLL_S
                    if left < 0:
                        raise ServerError(f"not ready within {deadline_s:g} s") from None
                check_alive()
        finally:
            if asking.poll() is None:
                asking.kill()
                asking.communicate()
        answer = json.loads(said) if said else {"kind": "ServerError", "message": complaint}
        if answer["kind"]:
            kind = AccessRefused if answer["kind"] == AccessRefused.__name__ else ServerError
            raise kind(answer["message"])


def main() -> None:
    """Wait, and write the outcome as JSON."""
    order = json.load(sys.stdin)
    die_with_parent(order["parent"])  # it holds the mounts of the server, which go with it
    module, _, attribute = order["recipe"].partition(":")
    found = getattr(import_module(module), attribute)
    recipe = found if isinstance(found, Recipe) else found(order["host"])
    nodes = tuple(Address(host, ports, order["secrets"]) for host, ports in order["nodes"])
    address = Address(order["host"], order["ports"], order["secrets"], nodes)
    kind = message = ""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            wait_until(recipe, address, order["deadline_s"], check_alive=lambda: None)
        except ServerError as error:
            kind, message = type(error).__name__, str(error)
    print(json.dumps({"kind": kind, "message": message}))


if __name__ == "__main__":
    main()
