"""Stores that are hnswlib by another name: the same, or slower by a share of each search's time."""

from __future__ import annotations

from time import perf_counter_ns
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vectrial.model.capabilities import Params
from vectrial.model.filters import Filter
from vectrial.model.store import Hits, Searcher
from vectrial.stores.hnswlib import HnswlibStore


class Twin(HnswlibStore):
    """The same."""

    name: ClassVar[str] = "twin"
    #: Share of the time of a search by which it is slower.
    slower: ClassVar[float] = 0.0

    def searcher(self, k: int, params: Params, where: Filter | None = None) -> Searcher:
        search, slower = super().searcher(k, params, where), self.slower
        if not slower:
            return search

        def slowed(vector: NDArray[np.float32], /) -> Hits:
            began = perf_counter_ns()
            found = search(vector)
            ends = perf_counter_ns()
            ends += int(slower * (ends - began))
            while perf_counter_ns() < ends:
                pass
            return found

        return slowed


class Slower3(Twin):
    """By 3 %."""

    name, slower = "slower-3", 0.03


class Slower5(Twin):
    """By 5 %."""

    name, slower = "slower-5", 0.05


class Slower10(Twin):
    """By 10 %."""

    name, slower = "slower-10", 0.10


class Slower25(Twin):
    """By 25 %."""

    name, slower = "slower-25", 0.25


TWINS = {one.name: one for one in (Twin, Slower3, Slower5, Slower10, Slower25)}
