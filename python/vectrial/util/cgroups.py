"""Control groups: version 2 has one tree, version 1 a tree for each controller."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def read(path: Path) -> str | None:
    """Stripped content of a kernel file, or None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def is_unified(root: Path = ROOT) -> bool:
    """True for cgroup version 2."""
    return (root / "cgroup.controllers").exists()


def membership(process: Path = Path("/proc/self")) -> dict[str, str]:
    """The groups of a process by controller; the version 2 group under the empty name."""
    found: dict[str, str] = {}
    for line in (read(process / "cgroup") or "").splitlines():
        _, controllers, group = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), group)
    return found


def group_and_parents(root: Path, group: str | None) -> list[Path]:
    """The folders of a group and of all groups above it; in a container only the root may exist."""
    here = root / (group or "/").strip("/")
    folders = (here, *here.parents)
    return [one for one in folders if one.is_relative_to(root) and one.is_dir()]
