"""Stores that lie in what they answer, and one that does not.

Each lies in the store that is measured, and not in the small one that the gate makes beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vectrial.filters import Filter
from vectrial.stores.base import Params, Searcher
from vectrial.stores.memory import MemoryStore


class Honest(MemoryStore):
    """As it is."""

    name: ClassVar[str] = "honest"


class _Liar(MemoryStore):
    """Counts the searches of the measured store, and changes what it answers."""

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.main = location.name == "data"
        self.searches = 0

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        honest = super().searcher(k, params, where)
        if not self.main:
            return honest

        def search(vector: NDArray[np.float32], /) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            self.searches += 1
            return self.answer(honest, vector)

        return search

    def answer(
        self, honest: Searcher, vector: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """What is answered in place of what an honest one would."""
        raise NotImplementedError


class StaleAnswers(_Liar):
    """Remembers every answer, and does not forget them when rows change."""

    name: ClassVar[str] = "stale-answers"

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.known: dict[bytes, Any] = {}

    def answer(
        self, honest: Searcher, vector: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        key = vector.tobytes()
        if key not in self.known:
            self.known[key] = honest(vector)
        ids, scores = self.known[key]
        return ids, scores
