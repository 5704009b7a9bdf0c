"""Searches for rows by their own vectors: each is among the nearest there, unless others are as
near."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from vectrial.gate.model import Ids, Vectors
from vectrial.model.metric import FLOAT32_SLACK, Metric, distances
from vectrial.model.store import Searcher

#: Neighbours per search: some stores refuse more than their search effort.
NEIGHBOURS = 10
#: Standard deviations by which a sample of an approximate index may be below its floor.
_DEVIATIONS = 3.0


@dataclass
class RowSearch:
    """Result of searching for rows.

    tried: number of searches with a known outcome; lost: ids of rows not found although the answer
        has rows that are farther away, or too few rows.
    """

    tried: int = 0
    lost: list[int] = field(default_factory=list)


def search_ids(
    search: Searcher, vectors: Iterable[Vectors], *, budget_s: float, least: int = 20
) -> Iterator[Ids]:
    """The ids that searches near vectors (d,) return; after `budget_s` only the first `least`
    searches are started."""
    end = time.perf_counter() + budget_s
    for number, vector in enumerate(vectors):
        if number >= least and time.perf_counter() > end:
            return
        yield np.array(search(vector)[0], dtype=np.int64)


def find_rows(
    search: Searcher,
    rows: Sequence[int],
    vectors: Iterable[Vectors],
    vectors_of: Callable[[Ids], Vectors],
    metric: Metric,
    *,
    expected: int,
    budget_s: float = math.inf,
    rounding: float = 0.0,
) -> RowSearch:
    """Search for rows, by their ids, near their own vectors, (d,) each.

    A missed row is not lost if the answer has `expected` other rows that are as near to float32
    precision: its copies, or longer vectors under inner product.

    Args:
        vectors_of: the vectors (n, d) of rows by their ids (n,), NaN for missing rows.
        expected: number of rows that an answer should have.
        budget_s: see `search_ids`. rounding: the distances' rounding; see `rounding_of`.
    """
    out = RowSearch()
    mine, theirs = itertools.tee(vectors)
    found = search_ids(search, theirs, budget_s=budget_s)
    for id_, ids, vector in zip(rows, found, mine, strict=False):
        if id_ in ids:
            out.tried += 1
        elif len(ids) < expected or not _are_all_as_near(vector, vectors_of(ids), metric, rounding):
            out.tried += 1
            out.lost.append(id_)
    return out


def _are_all_as_near(vector: Vectors, vectors: Vectors, metric: Metric, rounding: float) -> bool:
    """True if all of `vectors` (n, d) are as near to a row's vector (d,) as the row itself."""
    own = float(distances(vector, vector[None], metric)[0])
    far = distances(vector, vectors, metric)
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    norm = float(np.linalg.norm(vector.astype(np.float64)))
    if metric is Metric.L2:
        return bool((far**2 <= own**2 + FLOAT32_SLACK * (norm + norms) ** 2).all())
    scale = np.ones(len(norms)) if metric is Metric.COSINE else norm * norms
    return bool((far <= own + FLOAT32_SLACK * scale + rounding).all())


def allowed_misses(searched: int, floor: float) -> int:
    """Number of `searched` rows that an index of this recall floor may miss: the share below the
    floor, plus a margin for sampling. An exact index may miss none."""
    if floor >= 1.0:
        return 0
    spread = _DEVIATIONS * math.sqrt(searched * floor * (1 - floor))
    return int((1 - floor) * searched + spread + 1e-9)


def detectable_loss(sample: int) -> float:
    """Smallest share of faulty rows at which a random sample contains one with 95 % probability."""
    return 1.0 - float(0.05 ** (1.0 / sample))
