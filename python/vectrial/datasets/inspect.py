"""Facts about a dataset: duplicates, norms, intrinsic dimension, shift, metadata.

These facts explain recall before any store is blamed for it. All of them are exact except
those that say they were sampled.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.exact import exact_topk
from vectrial.datasets.library.parts import slices_of
from vectrial.model.dataset import Dataset
from vectrial.model.metric import Metric
from vectrial.model.progress import Progress, silent

#: Neighbours that the intrinsic dimension is estimated from.
NEIGHBOURS = 100
_SAMPLE = 500
#: Neighbours this much nearer than the last are duplicates up to rounding.
_SAME = 1e-6
_MAX_ROWS = 1_000_000
_BLOCK_BYTES = 32 << 20
_TOP_VALUES = 10


def inspect(dataset: Dataset, *, seed: int = 0, progress: Progress = silent) -> dict[str, Any]:
    """All facts of a dataset, ready for JSON.

    Keys: `duplicates`, `norms`, `intrinsic_dimension`, `shift` (None if it cannot be determined)
    and, with metadata, `metadata`. `seed` picks the rows and queries that are sampled.
    """
    facts: dict[str, Any] = {
        "duplicates": duplicates(dataset, progress=progress),
        "norms": norms(dataset, progress=progress),
    }
    facts |= geometry(dataset, seed=seed, progress=progress)
    if dataset.metadata is not None:
        facts["metadata"] = {
            name: column_facts(dataset.metadata.column(name))
            for name in dataset.metadata.column_names
        }
    return facts


def duplicates(dataset: Dataset, *, progress: Progress = silent) -> dict[str, int]:
    """Exact duplicates; 0.0 and -0.0 are the same.

    rows: rows equal to an earlier row. queries: queries equal to some row. groups: distinct vectors
        that occur more than once. repeated_queries: queries equal to an earlier query, which a
        store that caches its answers gets for nothing.
    """
    parts = []
    for rows in slices_of(dataset.vectors, _BLOCK_BYTES):
        progress(rows.start, dataset.rows, "looking for duplicates")
        parts.append(_row_hashes(dataset.vectors[rows]))
    hashes = np.concatenate(parts)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    # Equal hashes are only candidates; the rows themselves decide.
    equal = np.fromiter(
        (np.array_equal(dataset.vectors[order[i]], dataset.vectors[order[i + 1]]) for i in same),
        dtype=bool,
        count=len(same),
    )
    twins = same[equal]
    groups = len(twins) - int(np.count_nonzero(np.diff(twins) == 1))
    found = np.searchsorted(ordered, wanted := _row_hashes(dataset.queries))
    found = np.minimum(found, len(ordered) - 1)
    known = sum(
        bool(
            ordered[at] == wanted[q]
            and np.array_equal(dataset.vectors[order[at]], dataset.queries[q])
        )
        for q, at in enumerate(found)
    )
    return {
        "rows": len(twins),
        "groups": groups,
        "queries": known,
        "repeated_queries": repeated_queries(dataset),
    }


def repeated_queries(dataset: Dataset) -> int:
    """Number of queries equal to an earlier one, and under the same filter if there are any."""
    wheres = dataset.filters or [None] * len(dataset.queries)
    distinct = {
        (row.tobytes(), repr(where))
        for row, where in zip(dataset.queries + np.float32(0), wheres, strict=True)
    }
    return len(dataset.queries) - len(distinct)


def _row_hashes(block: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Multilinear hash of each row's 32-bit words (Carter & Wegman 1979)."""
    words = np.ascontiguousarray(block + np.float32(0)).view(np.uint32)
    factors = np.random.default_rng(0x5EED).integers(0, 1 << 63, block.shape[1], np.uint64)
    return np.asarray(np.einsum("ij,j->i", words, factors | np.uint64(1), dtype=np.uint64))


def norms(dataset: Dataset, *, progress: Progress = silent) -> dict[str, Any]:
    """Euclidean norms of the rows: min, median, max; normalised when all are 1 within 0.001."""
    parts = []
    for rows in slices_of(dataset.vectors, _BLOCK_BYTES):
        progress(rows.start, dataset.rows, "measuring norms")
        wide = dataset.vectors[rows].astype(np.float64)
        parts.append(np.sqrt(np.einsum("ij,ij->i", wide, wide)))
    values = np.concatenate(parts)
    return {
        "min": float(values.min()),
        "median": float(np.median(values)),
        "max": float(values.max()),
        "normalised": bool(np.abs(values - 1).max() < 1e-3),
    }


def extreme_norms(dataset: Dataset) -> tuple[float, float] | None:
    """Lengths of the shortest and of the longest vector among rows and queries; None if the rows'
    lengths were never determined."""
    if "norms" not in dataset.facts:
        return None
    least, most = (float(dataset.facts["norms"][name]) for name in ("min", "max"))
    for rows in slices_of(dataset.queries, _BLOCK_BYTES):
        wide = dataset.queries[rows].astype(np.float64)
        lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
        least, most = min(least, float(lengths.min())), max(most, float(lengths.max()))
    return least, most


def geometry(dataset: Dataset, *, seed: int = 0, progress: Progress = silent) -> dict[str, Any]:
    """`intrinsic_dimension` and `shift`, from nearest neighbours of sampled rows and queries.

    Distances are Euclidean; under cosine, between the vectors scaled to length 1. At most a million
    rows, drawn by `seed`, are searched; `corpus_rows` says how many were.
    """
    if dataset.rows < 3:
        return {"intrinsic_dimension": None, "shift": None}
    rng = np.random.default_rng(seed)
    rows, mask = np.arange(dataset.rows), None
    if dataset.rows > _MAX_ROWS:
        rows = np.sort(rng.choice(dataset.rows, _MAX_ROWS, replace=False))
        mask = np.zeros(dataset.rows, dtype=bool)
        mask[rows] = True
    picked = np.sort(rng.choice(rows, min(_SAMPLE, len(rows)), replace=False))
    sample = np.sort(
        rng.choice(len(dataset.queries), min(_SAMPLE, len(dataset.queries)), replace=False)
    )
    near = exact_topk(
        dataset.vectors,
        np.arange(dataset.rows),
        np.concatenate([dataset.vectors[picked], dataset.queries[sample]]),
        Metric.COSINE if dataset.metric is Metric.COSINE else Metric.L2,
        min(NEIGHBOURS, len(rows) - 1) + 1,
        mask=mask,
        progress=lambda done, of, _: progress(done, of, "measuring intrinsic dimension and shift"),
    )
    distances = near.distances
    if dataset.metric is Metric.COSINE:
        # Of vectors of length 1, whose squared distance is 2 - 2 cos.
        distances = np.sqrt(2 * np.maximum(distances, 0))
    of_rows = _without_itself(near.ids[: len(picked)], distances[: len(picked)], picked)
    of_queries = distances[len(picked) :, 0]
    return {
        "intrinsic_dimension": intrinsic_dimension(of_rows) | {"corpus_rows": len(rows)},
        "shift": shift(of_queries, of_rows[:, 0]) if len(sample) else None,
    }


def _without_itself(
    ids: NDArray[np.int64], distances: NDArray[np.float64], own: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Distances (p, k) of (p, k + 1) neighbours, each point removed from its own neighbours.

    If duplicates crowd a point out of its own neighbours, the last neighbour is removed instead.
    """
    itself = ids == own[:, None]
    itself[~itself.any(axis=1), -1] = True
    others: NDArray[np.float64] = distances[~itself].reshape(len(ids), -1)
    return others


def intrinsic_dimension(near: NDArray[np.float64]) -> dict[str, Any]:
    """Maximum-likelihood estimate at each point, from its neighbours' ascending distances (p, k).

    At a point with distances T_1 … T_k it is ((1/(k-1)) Σ_{j<k} ln(T_k/T_j))^-1 (Levina & Bickel,
    Maximum likelihood estimation of intrinsic dimension, NIPS 2004, eq. 8); distances of 0, or
    practically 0, are left out. Returns the median over the points and its quartiles, None if no
    point has two different distances.
    """
    estimates = []
    for distances in near:
        positive = distances[distances > _SAME * distances[-1]]
        if len(positive) < 2 or positive[0] == positive[-1]:
            continue
        logs = np.log(positive[-1] / positive[:-1])
        estimates.append((len(positive) - 1) / logs.sum())
    quartiles = np.percentile(estimates, (25, 50, 75)).tolist() if estimates else [None] * 3
    return {
        "median": quartiles[1],
        "quartiles": [quartiles[0], quartiles[2]],
        "neighbours": near.shape[1],
        "points": len(estimates),
    }


def shift(queries: NDArray[np.float64], rows: NDArray[np.float64]) -> dict[str, Any]:
    """Compare queries with rows by the distances to their nearest rows.

    A row's nearest row is another one. If queries were drawn like the rows, both samples would come
    from one distribution; the two-sample Kolmogorov-Smirnov statistic measures how far they do not
    (0: alike, 1: apart), and `p_value` how often chance alone gives as much.

    Args:
        queries: (q,), rows: (r,): distance to the nearest row other than itself.

    Returns:
        ks, p_value, median_ratio (queries over rows; None if the rows' median is 0) and shifted: ks
            above 0.1 and p_value below 0.001.
    """
    from scipy import stats  # takes seconds to import, and only this needs it

    result = stats.ks_2samp(queries, rows)
    ks, p_value = float(result.statistic), float(result.pvalue)
    middle = float(np.median(rows))
    return {
        "ks": ks,
        "p_value": p_value,
        "median_ratio": float(np.median(queries)) / middle if middle > 0 else None,
        "shifted": ks > 0.1 and p_value < 1e-3,
    }


def column_facts(column: pa.ChunkedArray[Any]) -> dict[str, Any]:
    """Facts of a metadata column: type, nulls, distinct values, the commonest, and quantiles of
    finite numbers."""
    import pyarrow.compute as pc

    values: Any = column
    counted: Any = pc.value_counts(values.drop_null())
    order = pc.sort_indices(counted.field(1), sort_keys=[("", "descending")])
    top: Any = counted.take(order[:_TOP_VALUES])
    facts: dict[str, Any] = {
        "type": str(column.type),
        "nulls": column.null_count,
        "distinct": len(counted),
        "top": [[_plain(item["values"]), item["counts"]] for item in top.to_pylist()],
    }
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        numbers = values.drop_null().to_numpy()
        numbers = numbers[np.isfinite(numbers)]
        if len(numbers):
            facts["quantiles"] = {
                f"{share:g}": float(np.quantile(numbers, share))
                for share in (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)
            }
    return facts


def _plain(value: Any) -> Any:
    """The value, with a text 'NaN', 'Infinity' or '-Infinity' in place of such a float."""
    return json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value
