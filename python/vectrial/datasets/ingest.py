"""The user's own data: a file or folder becomes a dataset that suites know by name."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets import catalog, library
from vectrial.datasets.checks import check_ids, check_labels, check_vectors, without_nan
from vectrial.datasets.inspect import inspect
from vectrial.datasets.readers import Block, ReaderOptions, VectorSource, open_source
from vectrial.datasets.readers.base import METRIC_NAMES, check_growth
from vectrial.datasets.truth import truth_of
from vectrial.model.dataset import OWN_IDS, Dataset, Provenance, Truth
from vectrial.model.errors import DataError, UserError
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric, ties
from vectrial.model.progress import Progress, silent
from vectrial.util import paths
from vectrial.util.file_names import legible_name

#: Queries held out when nobody says how many; fewer of a small file.
DEFAULT_QUERIES = 1000
#: Neighbours whose truth is computed at once; suites that ask for others compute it then.
TRUTH_K = 10
_MOST_PUBLISHED = 100
_PEEK_BYTES = 512 << 20


@dataclass(frozen=True)
class Import:
    """A file or folder to import, and the options.

    path: file, folder or archive in one of `readers.FORMATS`.
    name: name of the dataset; None takes it from the path.
    metric: None takes the metric that the file states.
    options: columns, rows, conditions; see `readers.Options`.
    queries: number of queries to hold out, or to use of the file's own; or a file of queries. None
        uses all that the file brings, else holds out up to `DEFAULT_QUERIES`.
    seed: picks the queries that are held out.
    licence: kept with the dataset and every run.
    replace_existing: overwrite a dataset of that name.
    """

    path: Path
    name: str | None = None
    metric: Metric | None = None
    options: ReaderOptions = field(default_factory=ReaderOptions)
    queries: int | Path | None = None
    seed: int = 0
    licence: str = "not stated"
    replace_existing: bool = False


@dataclass(frozen=True)
class _Queries:
    """The queries of an import: given, or rows of the source that are held out."""

    given: NDArray[np.float32] | None
    held_out: NDArray[np.int64]
    filters: tuple[Filter | None, ...] | None
    note: str


def name_of(path: Path) -> str:
    """A dataset name made from a path: `data/My set.tar.gz` gives `My-set`."""
    stem = re.sub(r"(\.tar)?\.[A-Za-z0-9]{1,7}$", "", Path(os.path.realpath(path)).name)
    return legible_name(stem) or "imported"


def metric_of(text: str | None) -> Metric | None:
    """The metric named on the command line, or None if none is named.

    Raises:
        UserError: it is no metric.
    """
    if text is None:
        return None
    metric = METRIC_NAMES.get(text.lower())
    if metric is None:
        raise UserError(f"'{text}' is no metric", where="--metric", remedy="cosine, l2 or ip")
    return metric


def import_file(order: Import, progress: Progress = silent) -> Dataset:
    """Read a file, check, hold out queries, store, find the facts and the exact neighbours.

    Rows keep their number in the file as id if there is no id column. Memory is bounded by the ids
    and the metadata, whatever the size of the vectors.

    If the file brings neighbours, the fact `published_neighbours` says how many are exact: too few,
    and the metric is probably another.

    Raises:
        UserError: options that do not fit the file, a name that is taken, too little disk.
        DataError: content that cannot be used, naming the file and row.
    """
    name = name_of(order.path) if order.name is None else order.name
    if catalog.is_made_here(name):
        raise UserError(
            f"'{name}' is a dataset of the catalogue, which suites expect by that name",
            where="--name",
            remedy="give your own data another name with --name",
        )
    if not order.replace_existing and library.path(name).exists():
        raise UserError(
            f"a dataset named '{name}' exists already",
            remedy="`--name` chooses another, `--force` replaces it",
        )
    with open_source(order.path, order.options) as source:
        metric = _metric(order, source)
        queries = _plan_queries(order, source, metric)
        missing = _missing_neighbors(order, source)
        check_growth(order.path, source.rows * source.dim * 4, order.options)
        _check_disk(source)
        provenance = Provenance(
            source=str(order.path.resolve()),
            licence=order.licence,
            checksum=f"sha256:{checksum(order.path, progress)}",
            notes=(f"read as {source.format}", *source.notes, *missing, queries.note),
        )
        return _store(order, name, metric, provenance, source, queries, progress)


def _facts(
    order: Import, source: VectorSource, dataset: Dataset, progress: Progress
) -> dict[str, Any]:
    """The facts of a dataset, and its truth, which is cached."""
    facts = inspect(dataset, seed=order.seed, progress=progress)
    published = None if isinstance(order.queries, Path) else source.neighbors
    k = TRUTH_K if published is None else max(TRUTH_K, min(published.shape[1], _MOST_PUBLISHED))
    truth = truth_of(dataset, k, dataset.filters, progress=progress)
    if published is not None:
        facts["published_neighbours"] = agreement(
            published, truth, metric=dataset.metric, dim=dataset.dim
        )
    if source.labels is not None:
        facts[OWN_IDS] = source.labels
    return facts


def _metric(order: Import, source: VectorSource) -> Metric:
    metric = order.metric or source.metric
    if metric is None:
        raise UserError(
            "the file does not say how its vectors are compared",
            where=str(order.path),
            remedy="give `--metric cosine`, `--metric l2` or `--metric ip`",
        )
    return metric


def _plan_queries(order: Import, source: VectorSource, metric: Metric) -> _Queries:
    none = np.empty(0, np.int64)
    if isinstance(order.queries, Path):
        loaded = read_queries(order.queries, source.dim, metric)
        return _Queries(loaded, none, None, f"{len(loaded)} queries from {order.queries}")
    limit = order.queries
    if limit is not None and limit < 1:
        raise UserError(f"{limit} queries ask nothing", remedy="--queries is at least 1")
    if source.queries is not None:
        there = len(source.queries)
        if limit is not None and limit > there:
            raise UserError(
                f"{limit} queries were asked for, and the file brings {there}",
                where=str(order.path),
                remedy=f"--queries of at most {there}",
            )
        loaded = check_vectors(
            source.queries[:limit],
            dim=source.dim,
            metric=metric,
            first_row=0,
            where=f"{order.path}, queries",
        )
        filters = source.filters and source.filters[: len(loaded)]
        return _Queries(loaded, none, filters, f"{len(loaded)} of the file's {there} queries")
    count = limit if limit is not None else min(DEFAULT_QUERIES, max(1, source.rows // 10))
    if count >= source.rows:
        raise UserError(
            f"{count} queries cannot be held out of {source.rows} rows",
            where=str(order.path),
            remedy=f"--queries of at most {source.rows - 1}"
            if source.rows > 1
            else "give more rows",
        )
    rng = np.random.default_rng(order.seed)
    rows = np.sort(rng.choice(source.rows, count, replace=False))
    note = f"{count} of {source.rows} rows held out as queries, seed {order.seed}"
    return _Queries(None, rows, None, note)


def _missing_neighbors(order: Import, source: VectorSource) -> tuple[str, ...]:
    """A note on the number of missing neighbours (-1) in the file.

    Raises:
        DataError: the neighbours are those of other rows.
    """
    published = source.neighbors
    if published is None or isinstance(order.queries, Path) or not published.size:
        return ()
    # Where rows have ids of their own, neighbours may be named by those.
    if not source.has_ids and not -1 <= published.min() <= published.max() < source.rows:
        wrong = published[(published < -1) | (published >= source.rows)]
        raise DataError(
            f"its neighbours name row {wrong[0]:,}, and it has {source.rows:,} rows",
            where=str(order.path),
            remedy="they are not of these vectors; leave them out of the file",
        )
    missing = int((published == -1).sum())
    return (f"{missing:,} of its {published.size:,} neighbours are missing (-1)",) * bool(missing)


def read_queries(path: Path, dim: int, metric: Metric) -> NDArray[np.float32]:
    """Queries (q, dim) in a file of one of `readers.FORMATS`.

    Raises:
        DataError: they have another number of components, or cannot be used.
    """
    with open_source(path) as source:
        if source.dim != dim:
            raise DataError(
                f"the queries have {source.dim} components, the vectors {dim}", where=str(path)
            )
        if source.queries is not None:  # a file of rows and queries: these are what is asked for
            return source.queries
        return np.concatenate([block.vectors for block in source.blocks(metric=metric)])


def _check_disk(source: VectorSource) -> None:
    root = paths.datasets_dir()
    root.mkdir(parents=True, exist_ok=True)
    needed, free = source.rows * source.dim * 4, shutil.disk_usage(root).free
    if needed > free:
        raise UserError(
            f"{needed / 1e9:.1f} GB are needed and {free / 1e9:.1f} GB are free",
            where=str(root),
            remedy="make room, set VECTRIAL_HOME to another disk, or import fewer with `--rows`",
        )


def _store(
    order: Import,
    name: str,
    metric: Metric,
    provenance: Provenance,
    source: VectorSource,
    queries: _Queries,
    progress: Progress,
) -> Dataset:
    query_blocks: list[NDArray[np.float32]] = []
    labels: list[pa.ChunkedArray[Any]] = []
    all_ids: list[NDArray[np.int64]] = []
    replacing = order.replace_existing
    with library.Writer(name, metric, provenance, replace_existing=replacing) as writer:
        at = 0
        for block in source.blocks(metric=metric):
            progress(at, source.rows, "importing")
            count = len(block.vectors)
            ids = np.arange(at, at + count) if block.ids is None else block.ids
            all_ids.append(ids)
            if source.labels is not None and block.metadata is not None:
                labels.append(block.metadata.column(source.labels))
            out = queries.held_out[(queries.held_out >= at) & (queries.held_out < at + count)] - at
            query_blocks.append(block.vectors[out])
            stay = np.ones(count, dtype=bool)
            stay[out] = False
            writer.add(
                block.vectors[stay],
                ids=ids[stay],
                metadata=block.metadata and block.metadata.filter(pa.array(stay)),
            )
            at += count
        # Here the numbers of the rows are still those of the file.
        check_ids(np.concatenate(all_ids), where=str(order.path))
        if source.labels is not None:
            check_labels(labels, source.labels, where=str(order.path))
        final_queries = queries.given if queries.given is not None else np.concatenate(query_blocks)
        return writer.finish(
            final_queries,
            filters=queries.filters,
            find=lambda dataset: _facts(order, source, dataset, progress),
        )


def checksum(path: Path, progress: Progress = silent) -> str:
    """sha256 of a file; for a folder, sha256 of the names and sha256 of all its files, in order."""
    if path.is_file():
        return _file_checksum(path, progress)
    digest = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        line = f"{file.relative_to(path).as_posix()} {_file_checksum(file, progress)}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _file_checksum(path: Path, progress: Progress) -> str:
    digest, size, done = hashlib.sha256(), path.stat().st_size, 0
    with path.open("rb") as file:
        while chunk := file.read(16 << 20):
            digest.update(chunk)
            progress(done := done + len(chunk), size, "checksum")
    return digest.hexdigest()


def agreement(
    published: NDArray[np.int64], truth: Truth, *, metric: Metric, dim: int
) -> dict[str, Any]:
    """Recall of published neighbours against the exact ones.

    published: (q', k'), -1 for missing neighbours; the first min(q, q') queries are compared, each
        over as many neighbours as both have. Ties count as right.

    Returns:
        k, queries, and recall (None if nothing can be compared).
    """
    found = expected = 0
    queries = min(len(published), len(truth.ids))
    k = min(published.shape[1], truth.k)
    for q in range(queries):
        theirs = published[q, :k]
        theirs = np.unique(theirs[theirs >= 0])
        count = min(len(theirs), int(truth.available[q]))
        if not count:
            continue
        last = float(truth.distances[q, count - 1])
        right = truth.ids[q, ties(truth.distances[q], last, metric, abs(last), dim)]
        if count == truth.available[q]:
            begin, end = truth.accept_offsets[q : q + 2]
            right = truth.accept_ids[begin:end]
        expected += count
        found += min(count, int(np.isin(theirs, right).sum()))
    return {"k": k, "queries": queries, "recall": found / expected if expected else None}


def peek(source: VectorSource, metric: Metric | None, rows: int) -> Dataset:
    """The first rows of a source as a dataset in memory that has no name in the library.

    At most `rows`, and at most 512 MiB. Without a metric, L2 is assumed.
    """
    limit = max(1, min(rows, source.rows, _PEEK_BYTES // (4 * source.dim)))
    blocks: list[Block] = []
    have = 0
    for block in source.blocks(metric=metric):
        blocks.append(block)
        have += len(block.vectors)
        if have >= limit:
            break
    parts = [block.metadata for block in blocks if block.metadata is not None]
    queries = source.queries
    return Dataset(
        name=source.path.name,
        metric=metric or source.metric or Metric.L2,
        vectors=np.concatenate([block.vectors for block in blocks])[:limit],
        ids=_ids(blocks)[:limit],
        queries=np.empty((0, source.dim), np.float32) if queries is None else queries,
        fingerprint="",
        provenance=Provenance(source=str(source.path), licence="not stated", checksum=""),
        metadata=without_nan(pa.concat_tables(parts).slice(0, limit))[0] if parts else None,
    )


def _ids(blocks: Sequence[Block]) -> NDArray[np.int64]:
    parts = [block.ids for block in blocks if block.ids is not None]
    if parts:
        return np.concatenate(parts)
    return np.arange(sum(len(block.vectors) for block in blocks), dtype=np.int64)
