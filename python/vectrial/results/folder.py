"""What belongs to a run's folder: it may have come from somebody else, links and all."""

from __future__ import annotations

import os
from pathlib import Path


def is_own(folder: Path, path: Path) -> bool:
    """Whether a path below `folder` is a file, and no link leads out of the folder to it. What
    cannot be looked at is none."""
    try:
        return path.is_file() and Path(os.path.realpath(path)).is_relative_to(
            os.path.realpath(folder)
        )
    except OSError:
        return False
