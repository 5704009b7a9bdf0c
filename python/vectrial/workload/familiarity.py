"""Whether a store is faster at queries like those that it was asked before.

A cache that lives from one phase to the next makes the first answers of a phase as fast as its
later ones, so that these tell nothing. Right after a phase, pairs of queries that were never sent
are timed: one like the phase's, moved too little for other neighbours, and one unlike them, a row
of the dataset. A store that remembers nothing takes as long for either.
"""

from __future__ import annotations

from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from vectrial.model.dataset import Dataset, Truth
from vectrial.model.store import Searcher
from vectrial.workload.queries import draw_queries

#: Pairs that are timed at most, and seconds; pairs before them, since the store has been idle.
_PAIRS, _MOST_S, _WARM = 1000, 0.3, 10
#: Length of what a row is moved by, as a share of its own: no answer is known beforehand.
_MOVED = 1e-3


def compare(
    search: Searcher,
    dataset: Dataset,
    truth: Truth,
    seed: tuple[int, ...],
) -> dict[str, float | None]:
    """The medians of both kinds of queries, in microseconds, and the number of pairs, as metrics.

    Args:
        search: called with both kinds, without a filter.
        truth: truth of the dataset's queries.
        seed: one that no phase has.

    Raises:
        Exception: whatever the store raises.
    """
    rng = np.random.default_rng(seed)
    like = draw_queries(dataset, truth, seed, repeat=False, most=1).warmup
    count = min(len(like), _PAIRS + _WARM)
    unlike = _rows(dataset, count, rng)
    times: list[list[int]] = [[], []]
    end = perf_counter_ns() + int(_MOST_S * 1e9)
    for nth, query in enumerate(rng.permutation(len(like))[:count].tolist()):
        for kind in rng.permutation(2).tolist():
            vector = unlike[nth] if kind else like[query]
            began = perf_counter_ns()
            search(vector)
            took = perf_counter_ns() - began
            if nth >= _WARM:
                times[kind].append(took)
        if perf_counter_ns() >= end:
            break
    familiar, unfamiliar = (float(np.median(some)) / 1e3 if some else None for some in times)
    return {
        "familiar_p50": familiar,
        "unfamiliar_p50": unfamiliar,
        "familiar_count": float(len(times[0])),
    }


def _rows(dataset: Dataset, count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Rows of the dataset (count, d), each moved a little."""
    at = np.sort(rng.integers(0, dataset.rows, count))
    rows = np.array(dataset.vectors[at], np.float32)
    noise = rng.standard_normal(rows.shape, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True) / dataset.dim**0.5
    rows += np.float32(_MOVED) * lengths * noise
    return rows
