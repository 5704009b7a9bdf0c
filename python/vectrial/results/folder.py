"""Files of a run's folder, and their replacement. The folder may come from elsewhere and contain
links."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path

from vectrial.model.errors import UserError

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


class FolderHandle:
    """A handle on the folder of a run that is being written: it finds the folder if somebody moves
    it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)

    def close(self, error: BaseException | None = None) -> None:
        """Close the handle. error: the error that ended the writing, if any.

        Raises:
            UserError: from `error`, the folder is not at its place any more.
        """
        try:
            if error is None or isinstance(error, Exception):
                self._check_place(error)
        finally:
            os.close(self._descriptor)

    def _check_place(self, error: Exception | None) -> None:
        with suppress(FileNotFoundError):
            if os.path.samestat(self._folder.stat(), os.fstat(self._descriptor)):
                return
        link = Path(f"/proc/self/fd/{self._descriptor}")
        now = link.readlink() if link.is_symlink() else link
        if now.is_dir():
            again = shlex.join(["vectrial", "run", "--resume", str(now)])
            what, remedy = "moved", f"what was measured is there; go on with: {again}"
        else:
            again = "`vectrial run --resume` goes on"
            what, remedy = "removed", f"start the run again; if the folder was moved, {again}"
        raise UserError(
            f"the run's folder was {what} while it was written",
            where=str(self._folder),
            remedy=remedy,
        ) from error
