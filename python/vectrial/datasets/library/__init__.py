"""Vectrial's own datasets: one folder each under `home.datasets_dir()`, known by name.

`stored` says what a folder holds; beside them lies `truth`, the cached ground truth of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vectrial.datasets.library.parts import (
    array_digest,
    damaged,
    filters_digest,
    fingerprint,
    metadata_digest,
    slices_of,
)
from vectrial.datasets.library.stored import load, names, path, read_manifest, there, write_manifest
from vectrial.datasets.library.writer import Writer, shapes_of
from vectrial.model.dataset import Dataset, Provenance
from vectrial.model.errors import DataError, UserError
from vectrial.model.filters import Filter
from vectrial.model.metric import Metric
from vectrial.util.checksum import sha256_of
from vectrial.util.scratch import ScratchFolder

__all__ = [
    "Writer",
    "annotate",
    "load",
    "names",
    "path",
    "remove",
    "save",
    "size_bytes",
    "subset",
    "verify",
]


def save(
    name: str,
    *,
    metric: Metric,
    vectors: NDArray[Any] | Iterable[NDArray[Any]],
    queries: NDArray[Any],
    provenance: Provenance,
    ids: NDArray[np.int64] | None = None,
    metadata: pa.Table | None = None,
    filters: Sequence[Filter | None] | None = None,
    query_metadata: pa.Table | None = None,
    facts: dict[str, Any] | None = None,
    replace_existing: bool = False,
) -> Dataset:
    """Write a dataset and load it back; all or nothing.

    Args:
        vectors: (n, d), or an iterator of blocks (rows, d) if they do not fit in memory.
        queries: (q, d).
        ids: n distinct numbers; None numbers the rows from 0.
        metadata: n rows; columns int64, float64, string or bool.
        filters: one per query, None for a query without.
        query_metadata: q rows, columns as in `metadata`.
        facts: facts that are known already; not part of the fingerprint.
        replace_existing: overwrite a dataset of that name instead of refusing.

    Raises:
        DataError: vectors that are not finite, zero under cosine or of uneven length, ids that
            repeat, or parts whose lengths do not fit together.
        UserError: the name is taken or is not valid.
    """
    with Writer(name, metric, provenance, replace_existing=replace_existing) as writer:
        for block in _blocks(vectors) if isinstance(vectors, np.ndarray) else vectors:
            start = writer.rows
            stop = start + len(block)
            writer.add(
                block,
                ids=None if ids is None else ids[start:stop],
                metadata=None if metadata is None else metadata.slice(start, len(block)),
            )
        for what, given in (("ids", ids), ("metadata rows", metadata)):
            if given is not None and len(given) != writer.rows:
                raise DataError(f"{len(given)} {what} for {writer.rows} vectors", where=name)
        return writer.finish(queries, filters=filters, query_metadata=query_metadata, facts=facts)


def annotate(dataset: Dataset, facts: dict[str, Any]) -> Dataset:
    """Replace the stored facts of a saved dataset; its fingerprint stays."""
    folder = path(dataset.name)
    manifest = read_manifest(dataset.name, folder)
    manifest["facts"] = facts
    write_manifest(folder, manifest)
    return replace(dataset, facts=facts)


def size_bytes(name: str) -> int:
    """Size of a dataset on disk, in bytes. Raises UserError if there is none."""
    return sum(file.stat().st_size for file in there(name).iterdir() if file.is_file())


def remove(name: str) -> None:
    """Delete a dataset, even a damaged one. Raises UserError if there is none."""
    folder = there(name)
    with ScratchFolder(".removed-", folder.parent) as grave:
        folder.rename(grave / name)


def subset(
    dataset: Dataset, rows: int | None = None, queries: int | None = None, *, metadata: bool = True
) -> Dataset:
    """The first `rows` rows and the first `queries` queries, sharing memory with `dataset`; without
    `metadata`, neither its columns nor the filters on them.

    None keeps all. Name and metric stay; the fingerprint is that of the subset saved as a whole;
    facts are dropped, since they describe the whole dataset. All rows and queries give `dataset`
    itself.

    Raises:
        UserError: more is requested than there is, or nothing.
    """
    rows = _part(dataset, "rows", rows, dataset.rows)
    queries = _part(dataset, "queries", queries, len(dataset.queries))
    metadata = metadata or (dataset.metadata is None and dataset.filters is None)
    if metadata and (rows, queries) == (dataset.rows, len(dataset.queries)):
        return dataset
    part = replace(
        dataset,
        vectors=dataset.vectors[:rows],
        ids=dataset.ids[:rows],
        queries=dataset.queries[:queries],
        metadata=dataset.metadata.slice(0, rows) if metadata and dataset.metadata else None,
        filters=dataset.filters[:queries] if metadata and dataset.filters else None,
        query_metadata=dataset.query_metadata and dataset.query_metadata.slice(0, queries),
        facts={},
    )
    notes = [
        f"the first {count} of {of} {what} of {dataset.name}"
        for what, count, of in (
            ("rows", rows, dataset.rows),
            ("queries", queries, len(dataset.queries)),
        )
        if count < of
    ]
    if not metadata:
        notes.append(f"without the metadata of {dataset.name}")
    return replace(
        part,
        fingerprint=_fingerprint(part),
        provenance=replace(dataset.provenance, notes=(*dataset.provenance.notes, *notes)),
    )


def _part(dataset: Dataset, what: str, requested: int | None, of: int) -> int:
    if requested is None:
        return of
    if not 1 <= requested <= of:
        raise UserError(
            f"{requested:,} {what} were asked for of {of:,}",
            where=dataset.name,
            remedy=f"a number from 1 to {of}",
        )
    return requested


def _fingerprint(dataset: Dataset) -> str:
    """The fingerprint as `Writer.finish` would compute it."""
    digests = _array_digests(dataset)
    tables = {"metadata": dataset.metadata, "query_metadata": dataset.query_metadata}
    digests |= {part: metadata_digest(one) for part, one in tables.items() if one is not None}
    if dataset.filters is not None:
        digests["filters"] = filters_digest(dataset.filters)
    shapes = shapes_of(
        dataset.vectors.shape,
        dataset.queries,
        dataset.metadata,
        dataset.filters,
        dataset.query_metadata,
    )
    return fingerprint(dataset.metric, shapes, digests)


def _array_digests(dataset: Dataset) -> dict[str, str]:
    arrays: dict[str, NDArray[Any]]
    arrays = {"vectors": dataset.vectors, "ids": dataset.ids, "queries": dataset.queries}
    return {part: array_digest(array) for part, array in arrays.items()}


def verify(name: str) -> None:
    """Read every part of a saved dataset. Raises DataError naming a part that has changed."""
    dataset, folder = load(name), path(name)
    sums = read_manifest(name, folder)["sha256"]
    found = {f"{part}.npy": digest for part, digest in _array_digests(dataset).items()}
    found |= {file: sha256_of(folder / file) for file in sums if file not in found}
    for file, expected in sums.items():
        if found[file] != expected:
            raise damaged(folder / file, f"sha256 {found[file][:16]}…")


def _blocks(vectors: NDArray[Any]) -> Iterable[NDArray[Any]]:
    return (vectors[rows] for rows in slices_of(vectors))
