"""The user that a server runs as when Vectrial runs as root: an account of its own that owns the
server's data and nothing else.

Ids are taken from 61184 to 65519, the range that systemd sets aside for such users, also in most
containers. One is free when no account has it and no process runs with it. Folders that only root
may enter, such as root's home, are covered by empty ones in the server's view of the file system,
with the program and the data back in their places; so the server needs no right to pass them.
Folders for temporary files and shared memory (/dev/shm) are covered, too: what a server that is
killed leaves there goes with it.
Where root may not do that, as in most containers, the server runs as nobody, and its program and
its data must be where nobody may go.
"""

from __future__ import annotations

import os
import pwd
import random
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from vectrial.servers.base import ServerError
from vectrial.servers.namespaces import can_cover_folders
from vectrial.util import paths

NOBODY = 65534
_IDS = range(61184, 65520)
_SHARED = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
_OTHERS_ENTER = stat.S_IXOTH


@dataclass(frozen=True)
class Account:
    """A user id, which is also a group id. covers: folders can be covered for this user."""

    number: int
    covers: bool

    def confine_arguments(self, show: Iterable[Path], passwd: Path) -> dict[str, Any]:
        """The arguments of `vectrial.servers.confine` that run a program as this user.

        show: paths that the program must find. passwd: file to write if the program must see its
            user by name, as PostgreSQL demands.

        Raises:
            ServerError: this user cannot enter a folder that it needs.
        """
        wanted = sorted({place for path in show for place in _with_link_targets(path)})
        if not self.covers:
            for path in wanted:
                if (closed := _closed_folder(path)) is not None:
                    raise ServerError(
                        f"the server runs as another user than root, who may not enter {closed}, "
                        f"where {path} is: choose VECTRIAL_HOME and --out where other users may "
                        "go, or let root make mount namespaces"
                    )
            return {"account": self.number}
        closed_folders = {closed for path in wanted if (closed := _closed_folder(path)) is not None}
        cover = _outermost_folders({*closed_folders, *(path for path in _SHARED if path.is_dir())})
        # A program may lie in a folder above that of the run, which is shown with it.
        inner = {
            _closed_folder(path, below)
            for path in wanted
            for below in path.parents
            if below in wanted
        }
        cover = sorted({*cover, *(folder for folder in inner if folder is not None)})
        name = f"vectrial:x:{self.number}:{self.number}::/nonexistent:/usr/sbin/nologin"
        passwd.write_text(f"{Path('/etc/passwd').read_text()}{name}\n")
        passwd.chmod(0o644)
        return {
            "account": self.number,
            "cover": [str(path) for path in cover],
            "show": [str(path) for path in wanted],
            "passwd": str(passwd),
        }

    def take_ownership(self, *folders: Path) -> None:
        """Give this user the folders and their contents; nobody else may enter them afterwards."""
        for folder in folders:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self.number, self.number, follow_symlinks=False)
            folder.chmod(0o700)


def free_account() -> Account:
    """An unused account: no user and no process has its id."""
    if not can_cover_folders():
        return Account(NOBODY, covers=False)
    running = {one.info["uids"].real for one in psutil.process_iter(["uids"]) if one.info["uids"]}
    while True:
        number = random.SystemRandom().choice(_IDS)
        if number not in running and not _has_name(number):
            return Account(number, covers=True)


def allow_passage(*folders: Path) -> None:
    """Let a server's user pass through our folders to its own if folders cannot be covered."""
    if os.geteuid() == 0 and not can_cover_folders():
        for folder in folders:
            folder.chmod(0o711)


def installation_folder(program: Path) -> Path:
    """The folder that a program needs: in the cache, the unpacked program; elsewhere the folder
    above its `bin`, or the program's own folder."""
    servers = paths.servers_dir()
    if program.is_relative_to(servers):
        return servers / program.relative_to(servers).parts[0]
    return program.parent.parent if program.parent.name == "bin" else program.parent


def _has_name(number: int) -> bool:
    try:
        pwd.getpwuid(number)
    except KeyError:
        return False
    return True


def _with_link_targets(path: Path) -> Iterator[Path]:
    """A path, followed by each target if it is a link."""
    seen: set[Path] = set()
    while path not in seen:
        seen.add(path)
        yield path
        if path.is_symlink():
            path = path.parent / path.readlink()
    if (resolved := path.resolve()) not in seen:
        yield resolved


def _closed_folder(path: Path, outer: Path | None = None) -> Path | None:
    """The outermost folder above `path` (and below `outer`) that only its owner or group may
    enter."""
    for folder in reversed(path.parents):
        if outer is not None and (folder == outer or not folder.is_relative_to(outer)):
            continue
        try:
            if not folder.stat().st_mode & _OTHERS_ENTER:
                return folder
        except FileNotFoundError:
            return None
    return None


def _outermost_folders(folders: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for folder in sorted(folders):
        if not any(folder.is_relative_to(one) for one in found):
            found.append(folder)
    return found
