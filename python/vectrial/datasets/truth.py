"""Exact ground truth: the k nearest rows of every query, and everything that ties with them.

The arithmetic is the engine's (`engine/src/topk`): float32 products with a proven error bound
choose candidates, float64 decides. The distances are, to the last bit, those of
`vectrial.model.metric.distances`. Memory stays bounded: rows are read once, in blocks, and may be a
memory map larger than memory; what is held grows only with what the answer holds.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import TopK
from vectrial.model import filters
from vectrial.model.dataset import Dataset, Truth
from vectrial.model.errors import DataError, UserError
from vectrial.model.filters import Filter
from vectrial.model.metric import NOISE, TIE_TOLERANCE, Metric
from vectrial.model.progress import Progress
from vectrial.util import paths

#: The label that progress is reported under.
_WHAT = "finding the exact neighbours"
#: Raised when the answer to the same question would come out differently.
_VERSION = 1
_BLOCK_BYTES = 64 << 20
_MASK_BYTES = 256 << 20
_SAMPLE_ROWS = 1024
#: Hits held at once over all queries (24 bytes each): beyond, the data are one heap of ties.
_MOST_HELD = 100_000_000
#: A filter that keeps less than this share of the rows is searched in a pass of its own.
_SELECTIVE = 1 / 8


def exact_topk(
    vectors: NDArray[Any],
    ids: NDArray[np.int64],
    queries: NDArray[np.float32],
    metric: Metric,
    k: int,
    *,
    mask: NDArray[np.bool_] | None = None,
    progress: Progress | None = None,
) -> Truth:
    """The exact k nearest of `vectors` (n, d), named `ids` (n,), to each of `queries` (q, d).

    Args:
        vectors: float32, or a type that float32 holds exactly; may be memory-mapped.
        mask: the rows that count, (n,); None for all.

    Raises:
        DataError: shapes that do not fit, a component that is not finite, a zero vector under
            cosine, or more ties than memory should hold.
        UserError: k below 1.
    """
    _check(vectors, ids, queries, metric, k)
    if mask is None:
        return _pass(vectors, ids, queries, metric, k, progress=progress)
    rows = np.flatnonzero(mask)
    return _pass(vectors, ids, queries, metric, k, rows=rows, progress=progress)


def exact_topk_filtered(
    vectors: NDArray[Any],
    ids: NDArray[np.int64],
    queries: NDArray[np.float32],
    metric: Metric,
    k: int,
    masks: Sequence[Callable[[], NDArray[np.bool_]]],
    mask_of: NDArray[np.int64],
    *,
    progress: Progress | None = None,
) -> Truth:
    """As `exact_topk`, each query under a mask of its own.

    Args:
        masks: the distinct masks, each made when called, once.
        mask_of: (q,) index into `masks`, or -1 for a query without.
    """
    _check(vectors, ids, queries, metric, k)
    n = len(vectors)
    together = max(1, _MASK_BYTES // max(n, 1))
    parts: list[tuple[NDArray[np.int64], Truth]] = []
    done = 0

    def add(where: NDArray[np.int64], truth: Truth) -> None:
        nonlocal done
        parts.append((where, truth))
        done += len(where)
        if progress is not None:
            progress(done, len(queries), _WHAT)

    broad: list[tuple[NDArray[np.int64], NDArray[np.bool_]]] = []

    def search_broad() -> None:
        where = np.concatenate([positions for positions, _ in broad])
        group = np.repeat(np.arange(len(broad)), [len(positions) for positions, _ in broad])
        allowed = np.stack([mask for _, mask in broad])
        broad.clear()
        found = _pass(vectors, ids, queries[where], metric, k, allowed=allowed, group=group)
        add(where, found)

    free = np.flatnonzero(mask_of < 0)
    if len(free):
        add(free, _pass(vectors, ids, queries[free], metric, k))
    for which, make in enumerate(masks):
        positions = np.flatnonzero(mask_of == which)
        if not len(positions):
            continue
        mask = make()
        rows = np.flatnonzero(mask)
        if len(rows) < _SELECTIVE * n:
            add(positions, _pass(vectors, ids, queries[positions], metric, k, rows=rows))
            continue
        broad.append((positions, mask))
        if len(broad) == together:
            search_broad()
    if broad:
        search_broad()
    return _join(parts, len(queries), k)


def truth_of(
    dataset: Dataset,
    k: int,
    where: Filter | Sequence[Filter | None] | None = None,
    *,
    rows: int | None = None,
    progress: Progress | None = None,
) -> Truth:
    """The truth of a dataset's queries, from the cache if it was computed before.

    Args:
        where: one filter for all queries, one for each (as `dataset.filters`), or None.
        rows: count only the dataset's first rows.

    Raises:
        UserError: a filter reads a column that is not there, or rows is out of range.
        DataError: as `exact_topk`.
    """
    rows = dataset.rows if rows is None else rows
    if not 0 <= rows <= dataset.rows:
        raise UserError(f"{rows} rows of a dataset that has {dataset.rows}", where=dataset.name)
    every: Sequence[Filter | None]
    every = where if isinstance(where, Sequence) else [where] * len(dataset.queries)
    if len(every) != len(dataset.queries):
        raise UserError(f"{len(every)} filters for {len(dataset.queries)} queries")
    texts = [None if one is None else filters.to_json(one) for one in every]
    if len(set(texts)) == 1:
        texts = texts[:1]
    key = json.dumps([_VERSION, dataset.fingerprint, k, rows, texts])
    name = hashlib.sha256(key.encode()).hexdigest()[:32]
    path = paths.datasets_dir() / "truth" / f"{name}.npz"
    cached = _read(path, key, k)
    if cached is not None:
        return cached
    truth = _computed(dataset, k, every, rows, progress)
    _write(path, key, truth)
    return truth


def _computed(
    dataset: Dataset, k: int, every: Sequence[Filter | None], rows: int, progress: Progress | None
) -> Truth:
    vectors, ids = dataset.vectors[:rows], dataset.ids[:rows]
    # By text, since Eq("a", 1) == Eq("a", True) in Python.
    distinct = {filters.to_json(one): one for one in every if one is not None}
    if distinct and dataset.metadata is None:
        raise UserError("a filter needs metadata, and the dataset has none", where=dataset.name)
    metadata = None if dataset.metadata is None else dataset.metadata.slice(0, rows)

    def mask(where: Filter) -> NDArray[np.bool_]:
        assert metadata is not None
        return filters.evaluate(where, metadata)

    ask = (vectors, ids, dataset.queries, dataset.metric, k)
    if not distinct:
        return exact_topk(*ask, progress=progress)
    if len(distinct) == 1 and None not in every:
        (only,) = distinct.values()
        return exact_topk(*ask, mask=mask(only), progress=progress)
    number = {text: i for i, text in enumerate(distinct)}
    group = [-1 if one is None else number[filters.to_json(one)] for one in every]
    masks = [partial(mask, where) for where in distinct.values()]
    return exact_topk_filtered(*ask, masks, np.array(group, dtype=np.int64), progress=progress)


# -- one pass over the rows ------------------------------------------------------------------


def _check(
    vectors: NDArray[Any],
    ids: NDArray[np.int64],
    queries: NDArray[np.float32],
    metric: Metric,
    k: int,
) -> None:
    if k < 1:
        raise UserError(f"k is {k}", remedy="ask for at least one neighbour")
    if vectors.ndim != 2 or queries.ndim != 2 or vectors.shape[1] != queries.shape[1]:
        raise DataError(f"vectors {vectors.shape} and queries {queries.shape} do not fit")
    if ids.shape != (len(vectors),):
        raise DataError(f"{len(vectors)} vectors have ids of shape {ids.shape}")
    for name, array in (("vectors", vectors), ("queries", queries)):
        if not np.can_cast(array.dtype, np.float32, "safe"):
            raise DataError(f"{name} are {array.dtype}", remedy="convert them to float32")
    norms = np.linalg.norm(queries.astype(np.float64), axis=1)
    if not np.isfinite(norms).all():
        raise DataError("a component is not finite", where=f"query {np.argmin(np.isfinite(norms))}")
    if metric is Metric.COSINE and len(norms) and not norms.min():
        raise DataError(
            "a zero vector has no direction",
            where=f"query {np.argmin(norms)}",
            remedy="remove it, or use l2 or ip",
        )


def _pass(
    vectors: NDArray[Any],
    ids: NDArray[np.int64],
    queries: NDArray[np.float32],
    metric: Metric,
    k: int,
    *,
    rows: NDArray[np.int64] | None = None,
    allowed: NDArray[np.bool_] | None = None,
    group: NDArray[np.int64] | None = None,
    progress: Progress | None = None,
) -> Truth:
    """Every query against all rows (or `rows`); query i keeps to `allowed[group[i]]`."""
    n = len(vectors) if rows is None else len(rows)
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    centre, scale = _frame(vectors, rows, queries, metric)
    search = TopK(
        queries,
        metric.value,
        k,
        centre=centre,
        scale=scale,
        tie=TIE_TOLERANCE,
        noise=NOISE,
        most_held=_MOST_HELD,
        filters=group,
    )
    try:
        for start, stop in _blocks(n, vectors.shape[1]):
            which: Any = slice(start, stop) if rows is None else rows[start:stop]
            search.scan(
                np.ascontiguousarray(vectors[which], dtype=np.float32),
                np.ascontiguousarray(ids[which], dtype=np.int64),
                None if allowed is None else np.ascontiguousarray(allowed[:, which]),
            )
            if progress is not None:
                progress(stop, n, _WHAT)
    except ValueError as error:
        match error.args:
            case ("zero vector", row):
                what, remedy = "a zero vector has no direction", "remove it, or use l2 or ip"
            case ("not finite", row):
                what, remedy = "a component is not finite", "remove the row"
            case _:
                raise
        raise DataError(what, where=f"row with id {row}", remedy=remedy) from error
    except MemoryError as error:
        raise DataError(
            f"more than {_MOST_HELD:,} rows tie with the k-th neighbour over all queries",
            remedy="remove duplicate vectors, or use fewer queries",
        ) from error
    return Truth(k, *search.finish())


def _blocks(n: int, dim: int) -> Iterator[tuple[int, int]]:
    rows = min(max(_BLOCK_BYTES // (4 * dim), 1024), 1 << 18)
    for start in range(0, n, rows):
        yield start, min(start + rows, n)


def _frame(
    vectors: NDArray[Any],
    rows: NDArray[np.int64] | None,
    queries: NDArray[np.float32],
    metric: Metric,
) -> tuple[NDArray[np.float32], float]:
    """A centre (d,) and a power of two that bring most rows near the unit ball, from a sample.

    Any choice gives the same answer; a good one makes float32 tell more rows apart.
    """
    n = len(vectors) if rows is None else len(rows)
    if n == 0:
        return np.zeros(vectors.shape[1], np.float32), 1.0
    chosen = np.unique(np.linspace(0, n - 1, min(n, _SAMPLE_ROWS)).astype(np.int64))
    sample = vectors[chosen if rows is None else rows[chosen]].astype(np.float64)
    probes = queries[:_SAMPLE_ROWS].astype(np.float64)
    if metric is Metric.COSINE:
        sample /= np.maximum(np.linalg.norm(sample, axis=1, keepdims=True), 1e-300)
        probes /= np.linalg.norm(probes, axis=1, keepdims=True)
    centre = sample.mean(axis=0)
    if not np.isfinite(centre).all():  # the scan will name the row
        centre = np.zeros_like(centre)
    centre = centre.astype(np.float32)
    around = [sample - centre] if metric is Metric.IP else [sample - centre, probes - centre]
    lengths = [float(np.median(np.linalg.norm(part, axis=1))) for part in around if len(part)]
    typical = max(lengths)
    exponent = np.floor(np.log2(typical)) if np.isfinite(typical) and typical > 0 else 0.0
    return centre, float(2.0**-exponent)


def _join(parts: Sequence[tuple[NDArray[np.int64], Truth]], q: int, k: int) -> Truth:
    """One truth from those of disjoint sets of queries, each with its positions."""
    ids = np.full((q, k), -1, np.int64)
    far = np.full((q, k), np.inf)
    available = np.zeros(q, np.int64)
    accepted = np.zeros(q, np.int64)
    for where, part in parts:
        ids[where], far[where], available[where] = part.ids, part.distances, part.available
        accepted[where] = np.diff(part.accept_offsets)
    offsets = np.concatenate([[0], np.cumsum(accepted)]).astype(np.int64)
    accept = np.empty(offsets[-1], np.int64)
    for where, part in parts:
        for i, query in enumerate(where):
            start, stop = part.accept_offsets[i : i + 2]
            accept[offsets[query] : offsets[query + 1]] = part.accept_ids[start:stop]
    return Truth(k, ids, far, available, offsets, accept)


# -- the cache -------------------------------------------------------------------------------

_ARRAYS = ("ids", "distances", "available", "accept_offsets", "accept_ids")


def _digest(key: str, arrays: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    seen = hashlib.sha256(key.encode())
    for array in arrays:
        seen.update(f"{array.dtype.str}{array.shape}".encode())
        seen.update(np.ascontiguousarray(array).data)
    return np.frombuffer(seen.digest(), np.uint8)


def _read(path: Path, key: str, k: int) -> Truth | None:
    """The cached truth that `_write` wrote; None, with a warning, when it is damaged."""
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[name] for name in _ARRAYS]
            if not np.array_equal(file["digest"], _digest(key, arrays)):
                raise ValueError("its checksum does not fit its content")
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        warnings.warn(f"{path}: damaged ({error}); computing the truth again", stacklevel=3)
        return None
    return Truth(k, *arrays)


def _write(path: Path, key: str, truth: Truth) -> None:
    """Whole or not at all: another process sees the old file, none, or the new one."""
    arrays = [getattr(truth, name) for name in _ARRAYS]
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        try:
            parts = dict(zip(_ARRAYS, arrays, strict=True))
            np.savez(file, digest=_digest(key, arrays), **parts)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    Path(file.name).replace(path)
