"""Stores that lie in what they answer, and one that does not.

Each lies in the store that is measured, and not in the small one that the gate makes beside it.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vectrial.model.capabilities import Params
from vectrial.model.filters import Filter
from vectrial.model.store import Hits, Searcher
from vectrial.stores.memory import MemoryStore

#: Searches of the gate and of a warm-up together, of the measured store.
LATER = 120


class Honest(MemoryStore):
    """As it is."""

    name: ClassVar[str] = "honest"


class _Liar(MemoryStore):
    """Counts the searches of the measured store, and changes what it answers."""

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.main = "data" in location.parts[-2:]
        self.searches = 0

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        honest = super().searcher(k, params, where)
        if not self.main:
            return honest

        def search(vector: NDArray[np.float32], /) -> Hits:
            self.searches += 1
            return self.answer(honest, vector)

        return search

    def answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        """What is answered in place of what an honest one would."""
        raise NotImplementedError


class StaleAnswers(_Liar):
    """Remembers every answer, and does not forget them when rows change."""

    name: ClassVar[str] = "stale-answers"

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.known: dict[bytes, Hits] = {}

    def answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        key = vector.tobytes()
        if key not in self.known:
            self.known[key] = self.first_answer(honest, vector)
        return self.known[key]

    def first_answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        """What is remembered."""
        return honest(vector)


class SlowAtFirst(StaleAnswers):
    """Takes two milliseconds for an answer that it does not remember."""

    name: ClassVar[str] = "slow-at-first"

    def first_answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        time.sleep(0.002)
        return honest(vector)


class RoundsOff(SlowAtFirst):
    """Remembers answers, and gives them to all vectors that agree in three digits."""

    name: ClassVar[str] = "rounds-off"

    def answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        key = np.round(vector, 3).tobytes()
        if key not in self.known:
            self.known[key] = self.first_answer(honest, vector)
        return self.known[key]


class ShorterLater(_Liar):
    """Leaves the last row out of each tenth answer, after the gate and the warm-up."""

    name: ClassVar[str] = "shorter-later"

    def answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        ids, scores = honest(vector)
        cut = len(ids) - (self.searches > LATER and self.searches % 10 == 0)
        return ids[:cut], scores[:cut]


class AlmostExact(_Liar):
    """Names the row after the last one in its place in each three-hundredth answer, after the gate:
    of the recall 0.03 % is lost."""

    name: ClassVar[str] = "almost-exact"

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        self.longer = MemoryStore.searcher(self, k + 1, params, where)
        return super().searcher(k, params, where)

    def answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        if self.searches <= LATER or self.searches % 300:
            return honest(vector)
        ids, scores = self.longer(vector)
        kept = np.delete(np.arange(len(ids)), -2)
        return ids[kept], scores[kept]


class SeldomShorter(_Liar):
    """Leaves the last row out of each hundredth answer: of the recall a thousandth is lost."""

    name: ClassVar[str] = "seldom-shorter"

    def answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        ids, scores = honest(vector)
        cut = len(ids) - (self.searches % 100 == 99)
        return ids[:cut], scores[:cut]


class TwiceLater(_Liar):
    """Names its best row twice, after the gate and the warm-up."""

    name: ClassVar[str] = "twice-later"

    def answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        ids, scores = honest(vector)
        if self.searches > LATER:
            ids = ids.copy()
            ids[-1] = ids[0]
        return ids, scores


class ScoresLater(_Liar):
    """Triples its scores, after the gate and the warm-up."""

    name: ClassVar[str] = "scores-later"

    def answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        ids, scores = honest(vector)
        return ids, scores * np.float32(3 if self.searches > LATER else 1)


class WorstFirstLater(_Liar):
    """Names the right rows from the worst to the best, after the gate and the warm-up."""

    name: ClassVar[str] = "worst-first-later"

    def answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        ids, scores = honest(vector)
        step = -1 if self.searches > LATER else 1
        return np.ascontiguousarray(ids[::step]), np.ascontiguousarray(scores[::step])


class UnknownLater(_Liar):
    """Names a row that was never written in each hundredth answer, after the gate."""

    name: ClassVar[str] = "unknown-later"

    def answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        ids, scores = honest(vector)
        if self.searches > LATER and self.searches % 100 == 0:
            ids = ids.copy()
            ids[-1] = 10**9
        return ids, scores


class FilterLater(MemoryStore):
    """Ignores the filter in each hundredth answer, after 300 searches under it."""

    name: ClassVar[str] = "filter-later"

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.filtered = 0

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        honest, free = super().searcher(k, params, where), super().searcher(k, params)

        def search(vector: NDArray[np.float32], /) -> Hits:
            self.filtered += where is not None
            lies = where is not None and self.filtered > 300 and self.filtered % 100 == 0
            return (free if lies else honest)(vector)

        return search


class Pausing(_Liar):
    """Stands still for a hundred times a search, four tenths of a second at least, once in two
    hundred searches."""

    name: ClassVar[str] = "pausing"

    def answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        began = time.perf_counter()
        found = honest(vector)
        if self.searches % 200 == 199:
            time.sleep(max(0.4, 100 * (time.perf_counter() - began)))
        return found


class ShorterUnderLoad(_Liar):
    """Leaves the last row out of an answer while another search is under way."""

    name: ClassVar[str] = "shorter-under-load"

    def __init__(self, location: Path) -> None:
        super().__init__(location)
        self.busy = threading.Semaphore(1)

    def answer(self, honest: Searcher, vector: NDArray[np.float32]) -> Hits:
        alone = self.busy.acquire(blocking=False)
        try:
            time.sleep(0.001)
            ids, scores = honest(vector)
        finally:
            if alone:
                self.busy.release()
        cut = len(ids) - (not alone)
        return ids[:cut], scores[:cut]
