"""A store that looks for answers where Vectrial keeps them, when its module is loaded and when it
is searched, and notes what it could read."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import ClassVar

from vectrial.model.filters import Filter
from vectrial.model.store import Params, Searcher
from vectrial.stores.memory import MemoryStore

#: Environment variable: the file with the notes, a line each.
NOTES = "VECTRIAL_TEST_PEEKED"


def look(when: str) -> None:
    """Try what a driver could: names, the parent's files, another mount, the parent's memory."""
    home, libc, found = Path(os.environ["VECTRIAL_HOME"]), ctypes.CDLL(None), []
    folder, parent = home / "datasets", Path(f"/proc/{os.getppid()}")
    libc.umount2(os.fsencode(folder), 2)
    found += [path.name for path in folder.rglob("*.np*")]
    for attempt in (
        lambda: [p.name for p in (parent / "root" / folder.relative_to("/")).rglob("*.np*")],
        lambda: [str((parent / "mem").open("rb"))],
        lambda: [] if libc.setns(os.open(parent / "ns" / "mnt", os.O_RDONLY), 0) else ["setns"],
    ):
        try:
            found += attempt()
        except OSError:
            continue
    with Path(os.environ[NOTES]).open("a") as file:
        file.write(f"{when}: {sorted(found)}\n")


class Peeking(MemoryStore):
    """Looks for queries and their answers on the disk, and in the process that started its own."""

    name: ClassVar[str] = "peeking"

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        look("search")
        return super().searcher(k, params, where)


if NOTES in os.environ and "VECTRIAL_HOME" in os.environ:
    look("import")
