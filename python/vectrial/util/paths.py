"""Folders of the cache, which holds everything that Vectrial fetches and makes outside of run
folders."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Home folder: `$VECTRIAL_HOME`, else `$XDG_CACHE_HOME/vectrial`, else `~/.cache/vectrial`."""
    if path := os.environ.get("VECTRIAL_HOME"):
        return Path(path).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "vectrial"


def datasets_dir() -> Path:
    """Folder of the datasets in Vectrial's own layout, one folder each, and their truth."""
    return home() / "datasets"


def downloads_dir() -> Path:
    """Folder of fetched packages and archives, unchanged, by checksum-verified name."""
    return home() / "downloads"


def environments_dir() -> Path:
    """Folder of the Python environments for stores whose pins conflict, one folder each."""
    return home() / "environments"


def servers_dir() -> Path:
    """Folder of server programs, one folder for each version."""
    return home() / "servers"
