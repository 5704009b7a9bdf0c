"""Executes a program with fewer rights than whoever starts it.

    python -I -S confine.py '{"network": […], "account": …, …}' PROGRAM ARGUMENT…

network: descriptors of the namespaces to enter, as `vectrial.servers.namespaces.Network` has them.
account: user and group id to run as, without further groups; root alone can ask for that.
cover: folders that the program sees empty, but for what is in `show`. Only with an account.
show: files and folders that stay where they are, below covered ones.
passwd: a file that the program sees as /etc/passwd. Only with an account and covered folders.
die_with_parent: its parent's process id; the program is killed when that dies.

The program has no capability, gains none by executing another, and its files are its own user's
alone. The process id stays the same. What goes wrong is said on standard error; the exit status is
127 then.

    python -I -S confine.py --namespaces FD         make namespaces; send them over the socket FD
    python -I -S confine.py --mounts                exit with 0 where folders can be covered

Imports only what starts quickly, and nothing of Vectrial's.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterable, Sequence

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
MS_NOSUID, MS_NODEV = 2, 4
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_WORLD_WRITABLE = frozenset(("/tmp", "/var/tmp", "/dev/shm"))

_libc = ctypes.CDLL(None, use_errno=True)


def main(arguments: Sequence[str]) -> int:
    """Execute the program and never return; if that fails, return the exit status."""
    try:
        match arguments:
            case ["--namespaces", number]:
                _send_namespaces(int(number))
                return 0
            case ["--mounts"]:
                _cover(["/tmp"], [])
                return 0
            case [order, *argv]:
                _execute(argv, **json.loads(order))
    except OSError as error:
        print(f"cannot be confined: {error}", file=sys.stderr)
    return 127


def _execute(
    argv: Sequence[str],
    network: Sequence[int] = (),
    account: int | None = None,
    cover: Sequence[str] = (),
    show: Sequence[str] = (),
    passwd: str | None = None,
    die_with_parent: str | None = None,
) -> None:
    for number in network:
        _call("setns", number, 0)
        os.close(number)
    here = os.getcwd()  # noqa: PTH109 - pathlib takes its time to import
    if cover:
        _cover(cover, [*show, here, *([] if passwd is None else [passwd])])
    if passwd is not None and cover:
        _mount(passwd, "/etc/passwd", None, MS_BIND)
    if account is not None:
        os.setgroups([])
        os.setresgid(account, account, account)
        os.setresuid(account, account, account)
        os.chdir(here)  # the covered folder's, and as the account may
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.umask(0o077)
    if die_with_parent is not None:  # after the change of user, which undoes it
        _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != int(die_with_parent):
            raise OSError("whoever started this has ended")
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        print(f"{argv[0]} cannot be executed: {error}", file=sys.stderr)
        raise SystemExit(127) from error


def _cover(folders: Iterable[str], show: Iterable[str]) -> None:
    """Cover each of `folders` with an empty folder in a new mount namespace, and bring `show`
    back."""
    _call("unshare", CLONE_NEWNS)
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    descriptors = {path: os.open(path, os.O_PATH) for path in show}
    os.umask(0o022)
    covered = set(folders)
    below = tuple(f"{folder.rstrip('/')}/" for folder in covered)
    # A folder before what is in it: one that is covered may lie in one that is shown.
    for path in sorted(covered | descriptors.keys()):
        if path in covered:
            mode = "1777" if path in _WORLD_WRITABLE else "0755"
            _mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode}")
        elif path.startswith(below) and not os.path.exists(path):  # noqa: PTH110
            _put_back(path, descriptors[path])
    for number in descriptors.values():
        os.close(number)


def _put_back(path: str, number: int) -> None:
    source = f"/proc/self/fd/{number}"
    if os.path.isdir(source):  # noqa: PTH112
        os.makedirs(path)  # noqa: PTH103
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(source, path, None, MS_BIND | MS_REC)


def _send_namespaces(number: int) -> None:
    """Make a network with loopback only, and send its namespaces' descriptors in the order of
    entry."""
    user, group = os.geteuid(), os.getegid()
    kinds = ["net"]
    if user == 0:
        _call("unshare", CLONE_NEWNET)
    else:
        _call("unshare", CLONE_NEWUSER | CLONE_NEWNET)
        for file, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{file}", "w") as target:  # noqa: PTH123
                target.write(text)
        kinds.insert(0, "user")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("16xh", fcntl.ioctl(control, _SIOCGIFFLAGS, request))
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))
    files = [os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in kinds]
    with socket.socket(fileno=number) as to:
        socket.send_fds(to, [b"."], files)


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    _call(
        "mount",
        source.encode(),
        target.encode(),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        options.encode() if options else None,
        what=f"mount on {target}",
    )


def _call(name: str, *arguments: object, what: str = "") -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what or name}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
