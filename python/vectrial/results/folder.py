"""What belongs to a run's folder, and how its files are replaced: it may have come from somebody
else, links and all."""

from __future__ import annotations

import os
from pathlib import Path

#: The suite that measures a choice of `vectrial tune` anew.
CHOSEN = "chosen.toml"


def is_own(folder: Path, path: Path) -> bool:
    """Whether a path below `folder` is a file, and no link leads out of the folder to it. What
    cannot be looked at is none."""
    try:
        return path.is_file() and Path(os.path.realpath(path)).is_relative_to(
            os.path.realpath(folder)
        )
    except OSError:
        return False


def replace_text(path: Path, text: str) -> None:
    """Write a file in one step: an interruption, or a full disk, leaves the one that was there."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error  # a full disk names none
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
