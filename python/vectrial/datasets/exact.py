"""Exact neighbours: the k nearest rows of every query, and everything that ties with them.

The arithmetic is the engine's (`engine/src/topk`): float32 products with a proven error bound
choose candidates, float64 decides. The distances are, to the last bit, those of
`vectrial.model.metric.distances`. Memory stays bounded: rows are read once, in blocks, and may be a
memory map larger than memory; what is held grows only with what the answer holds. Blocks may be
scanned by several machines (`Scanner`): the hits of each merge to the answer of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vectrial._engine import TopK
from vectrial.model.dataset import Truth
from vectrial.model.errors import DataError, UserError
from vectrial.model.metric import Metric, tie_tolerance, uncertainty
from vectrial.model.progress import Progress

#: The label that progress is reported under.
_WHAT = "finding the exact neighbours"
_BLOCK_BYTES = 64 << 20
_MASK_BYTES = 256 << 20
_SAMPLE_ROWS = 1024
#: Hits held at once over all queries (24 bytes each): beyond, the data are one heap of ties.
_MOST_HELD = 100_000_000
#: A filter that keeps less than this share of the rows is searched in a pass of its own.
_SELECTIVE = 1 / 8


class Hits(NamedTuple):
    """The k nearest rows of each query among some rows, and all rows that tie with the k-th.

    offsets: int64 (q + 1,), where the hits of each query begin. ids: int64. distances: float64.
        least: float64, the distances less their uncertainty.
    """

    offsets: NDArray[np.int64]
    ids: NDArray[np.int64]
    distances: NDArray[np.float64]
    least: NDArray[np.float64]


@dataclass(frozen=True)
class ExactSearch:
    """A search for exact neighbours; can be pickled.

    queries: float32 (q, d). filters: (q,) row of `RowBlock.allowed` for each query, below 0 for
        none; None without filters. centre, scale: see `TopK`; they change the speed alone.
    """

    queries: NDArray[np.float32]
    metric: Metric
    k: int
    filters: NDArray[np.int64] | None = None
    centre: NDArray[np.float32] | None = None
    scale: float = 1.0

    def search(self) -> TopK:
        """A search that has seen no rows."""
        dim = self.queries.shape[1]
        noise, floor = uncertainty(self.metric, dim)
        return TopK(
            self.queries,
            self.metric.value,
            self.k,
            centre=np.zeros(dim, np.float32) if self.centre is None else self.centre,
            scale=self.scale,
            tie=tie_tolerance(dim),
            noise=noise,
            floor=floor,
            most_held=_MOST_HELD,
            filters=self.filters,
        )


@dataclass(frozen=True)
class SearchedRows:
    """Rows to search. vectors: (n, d), of a type that float32 holds exactly; may be memory-mapped.
    ids: int64 (n,)."""

    vectors: NDArray[Any]
    ids: NDArray[np.int64]

    def part(self, which: slice | NDArray[np.int64]) -> SearchedRows:
        """Some of the rows, in memory, as the engine takes them."""
        return SearchedRows(
            np.ascontiguousarray(self.vectors[which], dtype=np.float32),
            np.ascontiguousarray(self.ids[which], dtype=np.int64),
        )


@dataclass(frozen=True)
class RowBlock:
    """Rows to scan at a time: their positions, and a mask, bool (filters, b), of the rows that each
    filter of the question keeps."""

    which: slice | NDArray[np.int64]
    allowed: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return (
            self.which.stop - self.which.start if isinstance(self.which, slice) else len(self.which)
        )


#: Scans blocks of rows and returns the hits; calls back with the number of rows of each. Raises
#: DataError as `scan` and `merged`.
Scanner = Callable[[ExactSearch, SearchedRows, Iterator[RowBlock], Callable[[int], None]], Hits]


def scan_here(
    question: ExactSearch,
    rows: SearchedRows,
    blocks: Iterator[RowBlock],
    scanned: Callable[[int], None],
) -> Hits:
    """Scan on this machine; see `Scanner`."""
    search = question.search()
    for block in blocks:
        scan(search, rows.part(block.which), block.allowed)
        scanned(len(block))
    return Hits(*search.hits())


def scan(search: TopK, rows: SearchedRows, allowed: NDArray[np.bool_] | None) -> None:
    """Scan rows (see `SearchedRows.part`) with a search.

    Raises:
        DataError: a component is not finite, a zero vector under cosine, or more ties than memory
            should hold.
    """
    try:
        search.scan(rows.vectors, rows.ids, allowed)
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
        raise _too_many_ties() from error


def merged(question: ExactSearch, parts: Sequence[Hits]) -> Hits:
    """The hits over all rows, merged from the hits of disjoint sets of rows.

    Raises:
        DataError: more ties than memory should hold.
    """
    return Hits(*_with_hits(question, parts).hits())


def _with_hits(question: ExactSearch, parts: Sequence[Hits]) -> TopK:
    search = question.search()
    try:
        for part in parts:
            search.merge(*part)
    except MemoryError as error:
        raise _too_many_ties() from error
    return search


def _too_many_ties() -> DataError:
    return DataError(
        f"more than {_MOST_HELD:,} rows tie with the k-th neighbour over all queries",
        remedy="remove duplicate vectors, or use fewer queries",
    )


def exact_topk(
    vectors: NDArray[Any],
    ids: NDArray[np.int64],
    queries: NDArray[np.float32],
    metric: Metric,
    k: int,
    *,
    mask: NDArray[np.bool_] | None = None,
    progress: Progress | None = None,
    scanner: Scanner = scan_here,
) -> Truth:
    """The exact k nearest of `vectors` (n, d), named `ids` (n,), to each of `queries` (q, d).

    Args:
        vectors: float32, or a type that float32 holds exactly; may be memory-mapped.
        mask: the rows that count, (n,); None for all.
        scanner: scans the rows, here or elsewhere.

    Raises:
        DataError: shapes that do not fit, a component that is not finite, a zero vector under
            cosine, or more ties than memory should hold.
        UserError: k below 1.
    """
    _check(vectors, ids, queries, metric, k)
    search = _Passes(SearchedRows(vectors, ids), metric, k, scanner)
    only = None if mask is None else np.flatnonzero(mask)
    hits = search.hits(_contiguous(queries), only, progress=progress)
    return _truth(ExactSearch(_contiguous(queries), metric, k), hits)


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
    scanner: Scanner = scan_here,
) -> Truth:
    """The result of `exact_topk` with each query under a mask of its own.

    Args:
        masks: the distinct masks, each made when called, once.
        mask_of: (q,) index into `masks`, or -1 for a query without a mask.
    """
    _check(vectors, ids, queries, metric, k)
    queries = _contiguous(queries)
    search = _Passes(SearchedRows(vectors, ids), metric, k, scanner)
    parts: list[tuple[NDArray[np.int64], Hits]] = []
    done = 0

    def add(where: NDArray[np.int64], hits: Hits) -> None:
        nonlocal done
        parts.append((where, hits))
        done += len(where)
        if progress is not None:
            progress(done, len(queries), _WHAT)

    broad: list[tuple[NDArray[np.int64], NDArray[np.bool_]]] = []

    def search_broad() -> None:
        where = np.concatenate([positions for positions, _ in broad])
        filters = np.repeat(np.arange(len(broad)), [len(positions) for positions, _ in broad])
        allowed = np.stack([mask for _, mask in broad])
        broad.clear()
        add(where, search.hits(queries[where], allowed=allowed, filters=filters))

    free = np.flatnonzero(mask_of < 0)
    if len(free):
        add(free, search.hits(queries[free]))
    together = max(1, _MASK_BYTES // max(len(vectors), 1))
    for which, make in enumerate(masks):
        positions = np.flatnonzero(mask_of == which)
        if not len(positions):
            continue
        mask = make()
        rows = np.flatnonzero(mask)
        if len(rows) < _SELECTIVE * len(vectors):
            add(positions, search.hits(queries[positions], rows))
            continue
        broad.append((positions, mask))
        if len(broad) == together:
            search_broad()
    if broad:
        search_broad()
    return _truth(ExactSearch(queries, metric, k), _by_query(parts, len(queries)))


@dataclass(frozen=True)
class _Passes:
    """Passes over the same rows."""

    rows: SearchedRows
    metric: Metric
    k: int
    scanner: Scanner

    def hits(
        self,
        queries: NDArray[np.float32],
        only: NDArray[np.int64] | None = None,
        *,
        allowed: NDArray[np.bool_] | None = None,
        filters: NDArray[np.int64] | None = None,
        progress: Progress | None = None,
    ) -> Hits:
        """Search all rows, or the rows at positions `only`, for every query; query i is restricted
        to `allowed[filters[i]]`."""
        n = len(self.rows.vectors) if only is None else len(only)
        centre, scale = _frame(self.rows.vectors, only, queries, self.metric)
        question = ExactSearch(queries, self.metric, self.k, filters, centre, scale)
        done = 0

        def scanned(rows: int) -> None:
            nonlocal done
            done += rows
            if progress is not None:
                progress(done, n, _WHAT)

        def blocks() -> Iterator[RowBlock]:
            for start, stop in _blocks(n, queries.shape[1]):
                which = slice(start, stop) if only is None else only[start:stop]
                yield RowBlock(
                    which, None if allowed is None else np.ascontiguousarray(allowed[:, which])
                )

        return self.scanner(question, self.rows, blocks(), scanned)


def _contiguous(queries: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(queries, dtype=np.float32)


def _truth(question: ExactSearch, hits: Hits) -> Truth:
    return Truth(question.k, *_with_hits(question, [hits]).finish())


def _by_query(parts: Sequence[tuple[NDArray[np.int64], Hits]], q: int) -> Hits:
    """The hits of all queries, merged from disjoint sets of queries, each with its positions."""
    sizes = np.zeros(q, np.int64)
    for where, part in parts:
        sizes[where] = np.diff(part.offsets)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    hits = Hits(
        offsets, np.empty(offsets[-1], np.int64), np.empty(offsets[-1]), np.empty(offsets[-1])
    )
    for where, part in parts:
        for i, query in enumerate(where):
            to = slice(*offsets[query : query + 2])
            run = slice(*part.offsets[i : i + 2])
            for column in ("ids", "distances", "least"):
                getattr(hits, column)[to] = getattr(part, column)[run]
    return hits


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
