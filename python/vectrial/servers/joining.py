"""Waiting for the first node of a cluster, which the others join as they start."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from vectrial.servers.base import READY_S, Recipe, Server, ServerError

#: The state of a listening socket in /proc/net/tcp.
_LISTEN = "0A"
_POLL_S = 0.05
_UNSEEN_S = 5.0


def wait_joinable(
    recipe: Recipe,
    node: Server,
    port: int,
    check_lives: Callable[[], None],
    unseen: Callable[[], bool] = lambda: False,
) -> None:
    """Wait until a node listens on the port, in its own network, through which others join it: some
    servers end if their first attempt fails.

    Args:
        check_lives: raises if the node has ended.
        unseen: true if the node's sockets are not visible here; then wait a few seconds instead.

    Raises:
        ServerError: the node does not listen in time, or has ended.
    """
    ends = time.monotonic() + READY_S
    while not any(_listens(pid, port) for pid in node.processes().values()):
        check_lives()
        if unseen():
            time.sleep(_UNSEEN_S)
            return
        if time.monotonic() > ends:
            raise ServerError(f"{recipe.name}: no node can join the first one")
        time.sleep(_POLL_S)


def _listens(pid: int, port: int) -> bool:
    """True if something listens on a port in the network of this process."""
    for table in ("tcp", "tcp6"):  # psutil looks at this process's own network
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                if state == _LISTEN and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False
