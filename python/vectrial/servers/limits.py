"""Limits of processors and memory of a server that runs here, by a control group of its own.

Both layouts are known: version 2 (one tree, `cpu.max`, `memory.max`) and version 1 (a tree for each
controller, `cpu.cfs_quota_us`, `memory.limit_in_bytes`). Where none can be made the server runs
without limits, and the results say so.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from vectrial.model.placement import Limits
from vectrial.servers.supervisor import remove
from vectrial.util.cgroups import ROOT, group_and_parents, is_unified, membership

_PERIOD_US = 100_000
#: Settings that keep a group out of swap.
_NO_SWAP = ("memory.swap.max", "memory.swappiness")
#: See `group_name`.
_NAME = re.compile(r"vectrial-(\d+)-[0-9a-f]{8}")


class NoControlGroup(Exception):
    """The error that no control group can be made here; the message says why."""


def make_groups(limits: Limits, name: str, root: Path = ROOT) -> tuple[Path, ...]:
    """Make empty control groups with these limits, for a process to be put into.

    Args:
        name: an unused name for the groups. root: where control groups are mounted.

    Raises:
        NotPossible: this machine or user has none to give.
    """
    groups = membership()
    if is_unified(root):
        return (_make_unified_group(limits, name, root, groups.get("")),)
    made: list[Path] = []
    try:
        for controller, settings in _settings_v1(limits).items():
            parent = next(iter(group_and_parents(root / controller, groups.get(controller))), None)
            if parent is None:
                raise NoControlGroup(f"there is no control group '{controller}' here")
            made.append(_make(parent, name, settings))
    except NoControlGroup:
        for group in made:
            group.rmdir()
        raise
    return tuple(made)


def command_in_groups(groups: Iterable[Path], argv: Sequence[str]) -> tuple[str, ...]:
    """The command that executes `argv` in control groups, so that its use is counted from its first
    page."""
    joins = [f"echo $$ > {shlex.quote(str(group / 'cgroup.procs'))}" for group in groups]
    return ("/bin/sh", "-c", " && ".join([*joins, 'exec "$@"']), "sh", *argv)


def change_memory(groups: Iterable[Path], limit_bytes: int) -> None:
    """Change the memory limit of these groups, made by `make_groups`, while processes are in them.
    The kernel first reclaims what can be read again, such as pages of files. If that does not
    suffice, version 1 refuses; version 2 kills a process of the group.

    Raises:
        NotPossible: none of them limits memory, or the kernel refuses.
    """
    for group in groups:
        for name in ("memory.max", "memory.limit_in_bytes"):
            if not (group / name).exists():
                continue
            try:
                (group / name).write_text(str(limit_bytes))
            except OSError as error:
                size = f"{limit_bytes / 2**20:,.0f} MiB"
                raise NoControlGroup(f"{size} of memory: refused: {error.strerror}") from error
            return
    raise NoControlGroup("the server is in no control group that limits its memory")


def why_no_limits(limits: Limits, root: Path = ROOT) -> str | None:
    """The reason why control groups with these limits cannot be made here; None if they can."""
    try:
        remove(make_groups(limits, group_name(), root))
    except NoControlGroup as error:
        return str(error)
    return None


def group_name() -> str:
    """A unique name for the control groups of a server that this process starts."""
    return f"vectrial-{os.getpid()}-{secrets.token_hex(4)}"


def remove_orphans(root: Path = ROOT) -> list[Path]:
    """Remove the control groups of ended Vectrial processes, and end the processes still in them:
    servers whose supervisor was killed. Returns the groups removed."""
    groups = membership()
    if is_unified(root):
        parents = group_and_parents(root, groups.get(""))
    else:
        parents = [
            folder
            for controller in ("cpu", "memory")
            for folder in group_and_parents(root / controller, groups.get(controller))
        ]
    found = [
        group for parent in parents for group in parent.glob("vectrial-*") if _is_orphan(group)
    ]
    for group in found:
        for pid in _processes(group):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    remove(found)
    return [group for group in found if not group.exists()]


def _processes(group: Path) -> list[int]:
    """Process ids in a group; empty if another process has just removed it."""
    with suppress(OSError):
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    return []


def _is_orphan(group: Path) -> bool:
    """True if the process that made this group has ended and every process in it is visible
    here."""
    match = _NAME.fullmatch(group.name)
    if match is None or not group.is_dir():
        return False
    with suppress(OSError):  # it has just been removed
        if "0" in (group / "cgroup.procs").read_text().split():
            return False  # a process that is not ours to see, as in a container's view of another
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(int(match[1])).create_time() > group.stat().st_ctime + 1.0
        return True
    return False


def _make_unified_group(limits: Limits, name: str, root: Path, own: str | None) -> Path:
    """A version 2 group below the nearest of our parents that shares out its controllers: processes
    are in leaves only."""
    settings = {}
    if limits.cpus is not None:
        settings["cpu.max"] = f"{round(limits.cpus * _PERIOD_US)} {_PERIOD_US}"
    if limits.memory_bytes is not None:
        settings |= {"memory.max": str(limits.memory_bytes), "memory.swap.max": "0"}
    wanted = {key.split(".")[0] for key in settings}
    why = "no control group above this process may be changed"
    for parent in group_and_parents(root, own):
        if not os.access(parent, os.W_OK):
            continue
        shared = parent / "cgroup.subtree_control"
        try:
            lacking = wanted - set(shared.read_text().split())
            if lacking:
                shared.write_text(" ".join(f"+{one}" for one in sorted(lacking)))
            return _make(parent, name, settings)
        except (OSError, NoControlGroup) as error:
            why = f"{parent}: {error}"
    raise NoControlGroup(why)


def _settings_v1(limits: Limits) -> dict[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    if limits.cpus is not None:
        quota = round(limits.cpus * _PERIOD_US)
        found["cpu"] = {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": str(quota)}
    if limits.memory_bytes is not None:
        memory = str(limits.memory_bytes)
        found["memory"] = {"memory.limit_in_bytes": memory, "memory.swappiness": "0"}
    return found


def _make(parent: Path, name: str, settings: Mapping[str, str]) -> Path:
    group = parent / name
    try:
        group.mkdir()
    except OSError as error:  # also where there is one of that name, which is not ours
        raise NoControlGroup(f"{group}: {error.strerror}") from error
    try:
        for key, value in settings.items():
            if key in _NO_SWAP and not (group / key).exists():
                continue  # a kernel without swap accounting
            (group / key).write_text(value)
    except OSError as error:
        group.rmdir()
        raise NoControlGroup(f"{error.filename or group}: {error.strerror}") from error
    return group
