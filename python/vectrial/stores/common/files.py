"""Files that are replaced atomically, and folders of a store."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def atomic_replace(source: Path, target: Path) -> None:
    """Sync the finished file `source` to disk and rename it to `target`, which it replaces."""
    with source.open("rb") as written:
        os.fsync(written.fileno())
    source.replace(target)


def empty_folder(folder: Path) -> None:
    """Remove everything in `folder`, but not the folder itself."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
