"""What another user of this machine, of no group, sees and gets of a server that runs here."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from vectrial.servers.base import Server

#: Such a user; nobody's account.
STRANGER = 12345
CANARY = "canary-7711"
#: In the environment of the tests of servers, and of nobody else.
CANARIES = {"VECTRIAL_SERVE_TOKEN": CANARY, "VECTRIAL_OTHER_API_KEY": CANARY}

LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def as_stranger(look: Callable[[], Any]) -> Any:
    """What `look` returns in a process of that user; plain values only."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            os.setgroups([])
            os.setresgid(STRANGER, STRANGER, STRANGER)
            os.setresuid(STRANGER, STRANGER, STRANGER)
            with os.fdopen(writes, "w") as out:
                json.dump(look(), out)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - nothing may go on in the child
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    os.close(writes)
    with os.fdopen(reads) as told:
        text = told.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, "see standard error"
    return json.loads(text)


def connects(port: int) -> bool:
    """Whether something listens on this port of loopback."""
    with socket.socket() as one:
        one.settimeout(5)
        return one.connect_ex(("127.0.0.1", port)) == 0


def processes(server: Server) -> list[psutil.Process]:
    """The server's own, without its guard."""
    (pid,) = server.processes().values()
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def exposed(tree: list[psutil.Process]) -> list[str]:
    """Sockets of these processes that hear more than loopback, in the network of this machine."""
    own, found = Path("/proc/self/ns/net").stat().st_ino, []
    for one in tree:
        try:
            if Path(f"/proc/{one.pid}/ns/net").stat().st_ino != own:
                continue
            connections = one.net_connections("inet")
        except (psutil.NoSuchProcess, FileNotFoundError):
            continue  # it has ended
        for there in connections:
            hears = there.status == psutil.CONN_LISTEN or not there.raddr
            if hears and there.laddr and there.laddr.ip not in LOOPBACK:
                found.append(f"{one.name()} on {there.laddr.ip}:{there.laddr.port}")
    return found


def check(server: Server) -> None:
    """Assert that a server gives nothing away, and can do nothing that a stranger could not."""
    tree = processes(server)
    guard = tree[0].parent()
    assert guard is not None
    secrets = list(server.address.secrets.values())
    _check_secrets(guard, secrets)
    for one in tree:
        try:
            _check_secrets(one, secrets)
            _check_rights(one)
        except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            assert one is not tree[0], "the server ended"  # and others come and go
    assert not (heard := exposed(tree)), heard
    (data,) = server.data_dirs()
    if os.geteuid() == 0:
        _check_files(server, data, tree)


def _check_secrets(one: psutil.Process, secrets: list[str]) -> None:
    assert CANARY not in str(one.environ()), f"{one.name()} knows another's secret"
    assert not any(secret in " ".join(one.cmdline()) for secret in secrets)


def _check_rights(one: psutil.Process) -> None:
    status = Path(f"/proc/{one.pid}/status").read_text()
    capabilities = re.findall(r"^Cap(?:Inh|Prm|Eff|Amb):\s*(\w+)$", status, re.M)
    assert {int(value, 16) for value in capabilities} == {0}, status
    assert 0 not in one.uids()
    assert "NoNewPrivs:\t1" in status
    if os.geteuid() == 0:
        assert re.search(r"^Groups:\s*$", status, re.M)


def _check_files(server: Server, data: Path, tree: list[psutil.Process]) -> None:
    # Not `rglob`, which fails where the server removes a folder meanwhile.
    places = [data.parent]
    for top, folders, files in os.walk(data.parent):
        places += [Path(top, name) for name in (*folders, *files)]

    def look() -> list[str]:
        got = []
        for place in places:
            try:
                listed = [*place.iterdir()] if place.is_dir() else place.read_bytes()[:1]
            except OSError:
                continue
            got.append(f"{place}: {listed!r}")
        for one in tree:
            try:
                got.append(Path(f"/proc/{one.pid}/environ").read_text())
            except OSError:
                continue
        return got

    # The folders above, as a temporary one of root's, may keep it out too: these are opened here.
    closed = [one for one in data.parent.parents if not one.stat().st_mode & 0o001]
    before = {one: one.stat().st_mode & 0o7777 for one in closed}
    try:
        for one in closed:
            one.chmod(before[one] | 0o001)
        assert as_stranger(look) == []
    finally:
        for one, mode in before.items():
            one.chmod(mode)
