"""Files that are there whole or not at all, and folders of a store's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def atomic_replace(aside: Path, target: Path) -> None:
    """Make the finished file `aside` durable and give it the name `target`, replacing that."""
    with aside.open("rb") as written:
        os.fsync(written.fileno())
    aside.replace(target)


def empty_folder(folder: Path) -> None:
    """Remove everything in `folder`, which stays."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
