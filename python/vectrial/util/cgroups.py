"""Control groups: version 2 has one tree, version 1 a tree for each controller."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def read(path: Path) -> str | None:
    """A file of the kernel, stripped; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def is_unified(root: Path = ROOT) -> bool:
    """True for version 2."""
    return (root / "cgroup.controllers").exists()


def membership(process: Path = Path("/proc/self")) -> dict[str, str]:
    """The groups of a process by controller; the one of version 2 under the empty name."""
    found: dict[str, str] = {}
    for line in (read(process / "cgroup") or "").splitlines():
        _, controllers, group = line.split(":", 2)
        found |= dict.fromkeys(controllers.split(","), group)
    return found


def upwards(root: Path, group: str | None) -> list[Path]:
    """The folders of a group and all above it; within a container only the root may be there."""
    here = root / (group or "/").strip("/")
    folders = (here, *here.parents)
    return [one for one in folders if one.is_relative_to(root) and one.is_dir()]
