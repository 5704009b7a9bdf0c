"""Parts of a dataset that are inserted apart from one another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from vectrial.datasets import library
from vectrial.datasets.truth import truth_of
from vectrial.experiments.base import Target, Values, client_points, search_points
from vectrial.model.context import Context
from vectrial.model.dataset import Dataset, Truth
from vectrial.model.errors import StoreError, Unsupported
from vectrial.model.lane import writes_natively
from vectrial.model.operating_point import OperatingPoint
from vectrial.model.progress import Progress
from vectrial.model.store import Store
from vectrial.workload import ingest
from vectrial.workload.native import inserts


def share_points(
    target: Target,
    name: str,
    shares: Iterable[float],
    clients: Sequence[int],
    search: Mapping[str, Values],
) -> list[OperatingPoint]:
    """Search points for each share of rows that are inserted last; `name` is the name of the share.

    Raises:
        Unsupported: the store takes no rows after the index is built.
    """
    if not target.capabilities.inserts_after_build:
        raise Unsupported(
            f"{target.name} cannot insert after the index is built with index '{target.index.kind}'"
        )
    points = client_points(clients, search_points(target, search))
    return [
        point.with_parameters(**{name: share})
        for share in dict.fromkeys(shares)
        for point in points
    ]


def take_rows(dataset: Dataset, rows: NDArray[np.int64]) -> Dataset:
    """The given rows (positions) of a dataset, to be inserted, with the whole's fingerprint."""
    return replace(
        dataset,
        vectors=np.ascontiguousarray(dataset.vectors[rows]),
        ids=dataset.ids[rows],
        metadata=None if dataset.metadata is None else dataset.metadata.take(rows),
    )


def insert(store: Store, context: Context, rows: Dataset, progress: Progress) -> None:
    """Insert all rows, by the engine if it can write them: a Python client would take processor
    time from concurrent searches.

    Raises:
        StoreError: not every row was taken.
    """
    task = (rows, context.schema, context.batch_rows, progress)
    if not writes_natively(type(store)):
        ingest.load(store, *task)
        return
    loaded = inserts.load(store.native_rows(), *task, context.certificate)
    if loaded.metrics["count"] != rows.rows:
        raise StoreError(f"rows could not be inserted: {loaded.reason}")


def split_non_neighbours(context: Context, count: int) -> tuple[Context, NDArray[np.int64]]:
    """Rows that are no query's neighbours: the truth of every query is the same whether or not they
    are present, so answers can be judged while they are inserted.

    If too few rows are left over, the last queries are left out.

    Args:
        count: number of rows.

    Returns:
        The context with the queries that are sent, and positions of the rows, ascending, drawn by
            its seed.

    Raises:
        StoreError: the neighbours of a single query leave fewer rows.
    """
    dataset = context.dataset
    truth = context.truth(context.k, None)
    queries = _queries_within(truth, dataset.rows - count)
    if not queries:
        raise StoreError(
            f"{count:,} of {dataset.rows:,} rows cannot be told from the neighbours of a query:"
            " set a smaller share, or use more rows"
        )
    neighbours = truth.accept_ids[: truth.accept_offsets[queries]]
    (free,) = np.nonzero(~np.isin(dataset.ids, neighbours))
    rng = np.random.default_rng([context.seed, 7])
    rows = np.sort(rng.choice(free, count, replace=False))
    if queries < len(dataset.queries):
        fewer = library.subset(dataset, queries=queries)
        context = replace(context, dataset=fewer, truth=partial(truth_of, fewer))
    return context, rows


def _queries_within(truth: Truth, neighbours: int) -> int:
    """Number of first queries that together have at most `neighbours` neighbours."""
    _, first = np.unique(truth.accept_ids, return_index=True)
    of = np.searchsorted(truth.accept_offsets, first, side="right") - 1
    queries = len(truth.accept_offsets) - 1
    together = np.cumsum(np.bincount(of, minlength=queries))
    return int(np.searchsorted(together, neighbours, side="right"))
