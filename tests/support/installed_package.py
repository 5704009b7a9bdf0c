"""A package as pip installs it, for processes that find its stores and experiments."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, name: str, entry_points: str, **modules: str) -> Path:
    """Write a package into `folder`, and return that: for the module path of processes.

    entry_points: as in its metadata. modules: the text of each, by name.
    """
    about = folder / f"{name}-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(entry_points)
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    return folder
