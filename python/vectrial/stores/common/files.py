"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def atomic_replace(aside: Path, target: Path) -> None:
    """Make the finished file `aside` durable and give it the name `target`, replacing that."""
    with aside.open("rb") as written:
        os.fsync(written.fileno())
    aside.replace(target)
