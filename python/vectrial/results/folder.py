"""Files of a run's folder, and their replacement. The folder may come from elsewhere and contain
links."""

from __future__ import annotations

import os
from pathlib import Path

#: The suite that measures a choice of `vectrial tune` again.
CHOSEN = "chosen.toml"


def is_own(folder: Path, path: Path) -> bool:
    """True if a path below `folder` is a file and no link leads out of the folder to it. False if
    it cannot be accessed."""
    try:
        return path.is_file() and Path(os.path.realpath(path)).is_relative_to(
            os.path.realpath(folder)
        )
    except OSError:
        return False


def replace_text(path: Path, text: str) -> None:
    """Replace a file atomically: after an interruption or on a full disk, the old one remains."""
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
