"""Stores that lie about the rows that they keep, change and serve, and one that does not.

A lie that only the loaded store tells, and not the gate's small one beside it, is told from
`MAIN` rows on.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vectrial.filters import Filter
from vectrial.stores.base import Params, Searcher
from vectrial.stores.memory import MemoryStore

Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
#: More rows than the gate's own small store has.
MAIN = 2_001


class Honest(MemoryStore):
    """As it is."""

    name: ClassVar[str] = "honest"


class BuildsAtFirstSearch(MemoryStore):
    """Says that it is ready, and builds its index when it is first searched."""

    name: ClassVar[str] = "builds-at-first-search"
    build_s: ClassVar[float] = 0.3
    built = False

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        plain = super().searcher(k, params, where)

        def search(vector: NDArray[np.float32], /) -> tuple[Ids, Scores]:
            if not self.built:
                time.sleep(self.build_s)
                self.built = True
            return plain(vector)

        return search


class SlowWhenCold(MemoryStore):
    """Its first 120 searches are slow."""

    name: ClassVar[str] = "slow-when-cold"
    pause_s: ClassVar[float] = 0.01

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.searched = 0

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        plain = super().searcher(k, params, where)

        def search(vector: NDArray[np.float32], /) -> tuple[Ids, Scores]:
            self.searched += 1
            if self.searched <= 120:
                time.sleep(self.pause_s)
            return plain(vector)

        return search
