"""Queries of timed searches: ones that the store has not seen before.

If the same few queries were repeated, a store that caches answers would be measured by the speed of
its cache. So each round of a phase sends every query of the dataset slightly perturbed: too little
to have other neighbours, but enough to be another vector. The warm-up has its own round, and the
gate sends the dataset's own queries. If a phase needs more rounds than there are, they are
repeated. A store that caches answers to similar queries is found by its latency: see
`workload.answers`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vectrial.model.dataset import Dataset, Truth
from vectrial.model.metric import Metric, tie_tolerance
from vectrial.model.workload import Load, OpenLoop

#: Distance by which a query is moved, as a share of `tie_tolerance` of the distance of its k-th
#: neighbour (under cosine, of its length). A row that becomes nearer than that neighbour ties with
#: it, and counts as right.
MOVED = 0.4
#: A component less than this share of the largest is not moved in its place.
_LEAST = 2.0**-60
#: Rows of which the longest is looked for.
_SOME = 4096
#: Queries and bytes that the rounds of a phase have at most.
_MOST, _MOST_BYTES = 50_000, 64 << 20
#: Random arrivals of an open loop are hardly ever more than so many times those expected.
_MORE_ARRIVALS = 1.25
#: Numbers of queries that are moved at once.
_TOGETHER = 1 << 15


@dataclass(frozen=True)
class Queries:
    """The queries of a phase.

    rounds: float32 (r, q, d): query j of every round has the truth of the dataset's query j.
    warmup: float32 (q, d), sent before the clock starts.
    """

    rounds: NDArray[np.float32]
    warmup: NDArray[np.float32]

    @staticmethod
    def constant(queries: NDArray[np.float32]) -> Queries:
        """Use the same queries (q, d) in every pass, and in the warm-up."""
        return Queries(queries[None], queries)

    @property
    def count(self) -> int:
        """Number of queries in a round, q."""
        return int(self.rounds.shape[1])

    def round_count(self) -> int:
        """Number of rounds, r."""
        return len(self.rounds)


def arrivals_of(load: Load) -> int | None:
    """About how many requests a load sends at most; None if that depends on the answers."""
    if not isinstance(load, OpenLoop):
        return None
    return int(_MORE_ARRIVALS * load.rate * load.duration_s) + 100


def draw_queries(
    dataset: Dataset,
    truth: Truth,
    seed: tuple[int, ...],
    *,
    repeat: bool,
    most: int | None = None,
) -> Queries:
    """The queries of one phase.

    Args:
        truth: truth of the dataset's queries, for the k and the filter of the searches.
        seed: a different one for every phase.
        repeat: repeat the dataset's own queries in the timed part.
        most: no more queries are drawn than whole rounds of so many take; None: as many as fit
            into memory that no machine lacks.
    """
    queries, reach = dataset.queries, _largest_shift(dataset, truth)
    noise = _noise(queries, seed)
    count = max(1, min(_MOST, _MOST_BYTES // (4 * dataset.dim)) // len(queries))
    if most is not None:
        count = min(count, -(-most // len(queries)))
    warmup = _perturb(queries, noise, reach, np.array([0]), np.array([0.5 / (count + 1)]))[0]
    if repeat:
        return Queries(queries[None], warmup)
    rounds = np.empty((count, *queries.shape), np.float32)
    turns = np.arange(1, count + 1)
    # So many at once that what is made on the way has at most `_TOGETHER` numbers.
    step = max(1, _TOGETHER // max(1, queries.size))
    for begin in range(0, count, step):
        some = turns[begin : begin + step]
        rounds[begin : begin + step] = _perturb(queries, noise, reach, some, some / count)
    return Queries(rounds, warmup)


def _largest_shift(dataset: Dataset, truth: Truth) -> NDArray[np.float64]:
    """Distance by which each query may be perturbed, (q,)."""
    known = np.isfinite(truth.distances)
    far = np.abs(np.where(known, truth.distances, 0.0)).max(axis=1, initial=0.0)
    if dataset.metric is Metric.COSINE:
        far = np.linalg.norm(dataset.queries.astype(np.float64), axis=1)
    elif dataset.metric is Metric.IP:
        some = dataset.vectors[:: max(1, dataset.rows // _SOME)].astype(np.float64)
        far = far / (float(np.linalg.norm(some, axis=1).max(initial=0.0)) or 1.0)
    reach: NDArray[np.float64] = MOVED * tie_tolerance(dataset.dim) * np.minimum(far, 1e30)
    return reach


def _noise(queries: NDArray[np.float32], seed: tuple[int, ...]) -> NDArray[np.float32]:
    """A direction for each query: rows of length 1."""
    noise = np.random.default_rng([*seed, 0x51]).standard_normal(queries.shape, dtype=np.float32)
    noise /= np.maximum(np.linalg.norm(noise, axis=1, keepdims=True), 1e-12)
    return noise


def _perturb(
    queries: NDArray[np.float32],
    noise: NDArray[np.float32],
    largest_shift: NDArray[np.float64],
    turns: NDArray[np.int64],
    shares: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Every query perturbed, (r, q, d). For each of the turns (r,), it is moved by that share of
    its reach, in the direction of the query that many turns before it. If that is too little for a
    different float32, one component is moved by units in the last place: the least one, which moves
    the query least."""
    far = (largest_shift * shares[:, None]).astype(np.float32)[:, :, None]
    before = np.arange(len(queries)) - turns[:, None]
    moved: NDArray[np.float32] = queries + far * noise[before % len(queries)]
    turn, same = np.nonzero((moved == queries).all(axis=2))
    sizes = np.abs(queries[same])
    sizes[(sizes == 0) | (sizes < _LEAST * sizes.max(axis=1, keepdims=True))] = np.inf
    at = sizes.argmin(axis=1)
    moved[turn, same, at] = _add_ulps(moved[turn, same, at], 1 + turns[turn])
    return moved


def _add_ulps(numbers: NDArray[np.float32], units: NDArray[np.int64]) -> NDArray[np.float32]:
    """Each number (n,) increased by this many units in the last place."""
    bits = numbers.view(np.int32).astype(np.int64)
    # Bits of negative numbers count downwards from those of minus zero.
    steps = np.where(bits < 0, -(2**31) - bits, bits) + units
    up = np.where(steps < 0, -(2**31) - steps, steps).astype(np.int32)
    moved: NDArray[np.float32] = up.view(np.float32)
    return moved
