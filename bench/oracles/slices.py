"""Searches of several indexes that take turns of a moment in one process, so that whatever else the
machine does slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SLICE_S, ROUNDS = 0.05, 30


@dataclass(frozen=True)
class Contestant:
    """A search at one setting. prepare: sets it."""

    name: str
    prepare: Callable[[], None]
    search: Callable[[Any], Any]


def speeds(
    contestants: Sequence[Contestant], queries: Any, rounds: int = ROUNDS, seed: int = 3
) -> NDArray[np.float64]:
    """Searches per second of processor time, (rounds, contestants); the order is drawn for each
    round."""
    rng = np.random.default_rng(seed)
    found = np.empty((rounds, len(contestants)))
    at = 0
    for turn in range(rounds + 1):
        for which in rng.permutation(len(contestants)):
            one = contestants[which]
            one.prepare()
            count, began = 0, time.thread_time()
            end = time.perf_counter() + SLICE_S
            while time.perf_counter() < end:
                one.search(queries[at % len(queries)])
                at += 1
                count += 1
            if turn:  # the first round warms up
                found[turn - 1, which] = count / (time.thread_time() - began)
    return found


def ratio(over: NDArray[np.float64], under: NDArray[np.float64]) -> tuple[float, float, float]:
    """Median of the ratios by round, with the ends of its 95 % bootstrap interval."""
    ratios = over / under
    rng = np.random.default_rng(11)
    medians = np.median(rng.choice(ratios, (2000, len(ratios))), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return float(np.median(ratios)), float(low), float(high)
