"""Folders of the cache, which holds everything that Vectrial fetches and makes outside of run
folders."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """`$VECTRIAL_HOME`, else `$XDG_CACHE_HOME/vectrial`, else `~/.cache/vectrial`."""
    if path := os.environ.get("VECTRIAL_HOME"):
        return Path(path).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "vectrial"


def datasets_dir() -> Path:
    """Datasets in Vectrial's own layout, one folder each, and their truth."""
    return home() / "datasets"


def downloads_dir() -> Path:
    """Fetched packages and archives as they came, by checksum-verified name."""
    return home() / "downloads"


def environments_dir() -> Path:
    """Python environments of stores whose pins conflict, one folder each."""
    return home() / "environments"


def servers_dir() -> Path:
    """Programs of servers, one folder for each and its version."""
    return home() / "servers"
