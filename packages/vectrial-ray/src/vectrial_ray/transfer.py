"""Datasets on their way to a machine that lacks them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vectrial.datasets.library import stored
from vectrial.util.file_modes import readable_files
from vectrial.util.scratch import ScratchFolder

_BLOCK_BYTES = 32 << 20


def has(name: str, fingerprint: str) -> bool:
    """True if a dataset with this name and content is here.

    Raises:
        DataError: it is damaged.
    """
    there = name in stored.names() and stored.read_manifest(name, stored.path(name))
    return bool(there and there["fingerprint"] == fingerprint)


def blocks_of(name: str) -> Iterator[tuple[str, bytes]]:
    """The files of a dataset in blocks of bytes, in order, each with its file's name.

    Raises:
        UserError: there is no such dataset.
    """
    for file in sorted(stored.there(name).iterdir()):
        if file.is_file():
            with file.open("rb") as stream:
                while block := stream.read(_BLOCK_BYTES):
                    yield file.name, block


class Incoming:
    """A dataset being transferred to this machine. It replaces a dataset of that name when it is
    `published`."""

    def __init__(self, name: str) -> None:
        self._target = stored.path(name)
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._scratch = ScratchFolder(".incoming-", self._target.parent)
        self._folder = self._scratch.path / "content"
        self._folder.mkdir()

    def write(self, file: str, block: bytes) -> None:
        """Append a block to a file."""
        with readable_files(), (self._folder / Path(file).name).open("ab") as stream:
            stream.write(block)

    def publish(self) -> None:
        """Move the dataset to its place.

        Raises:
            DataError: its manifest is missing or damaged.
        """
        try:
            stored.read_manifest(self._target.name, self._folder)
            self._folder.chmod(0o755)
            with ScratchFolder(".removed-", self._target.parent) as grave:
                if (self._target / stored.MANIFEST).is_file():
                    self._target.rename(grave / "old")
                self._folder.rename(self._target)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the files received, unless the dataset was published."""
        self._scratch.remove()
